/** TransactionError as RPC JSON, read from the runtime's Rust debug text. */

/** A name (`"BlockhashNotFound"`), or an object with one member (`{InstructionError: [0, {Custom: 1}]}`). */
export type TransactionErrorJson = string | { [name: string]: unknown }

/**
 * Reads `err: <here>, meta: ...` of litesvm's FailedTransactionMetadata text: its typed getters are const enums without
 * names at run time, and the debug spelling equals the serde names that a node answers with.
 */
export function transactionErrorOf(failed: string): TransactionErrorJson {
  const text = /err: (.*?), meta: /s.exec(failed)?.[1] ?? 'SanitizeFailure'
  const instruction = /^InstructionError\((\d+), (.*)\)$/s.exec(text)
  if (instruction) return { InstructionError: [Number(instruction[1]), instructionErrorOf(instruction[2]!)] }
  const account = /^(\w+) \{ account_index: (\d+) \}$/.exec(text)
  if (account) return { [account[1]!]: { account_index: Number(account[2]) } }
  const indexed = /^(\w+)\((\d+)\)$/.exec(text)
  if (indexed) return { [indexed[1]!]: Number(indexed[2]) }
  return text
}

function instructionErrorOf(text: string): TransactionErrorJson {
  const custom = /^Custom\((\d+)\)$/.exec(text)
  if (custom) return { Custom: Number(custom[1]) }
  return /^\w+/.exec(text)?.[0] ?? text
}
