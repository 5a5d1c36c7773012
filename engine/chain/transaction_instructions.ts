/** The instructions of a signed transaction, whatever its version: which program, which data. */
import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit'

export type CarriedInstruction = { program: string; data: Uint8Array }

/** @throws SolanaError for bytes that are no transaction */
export function transactionInstructions(transaction: Uint8Array): CarriedInstruction[] {
  const { messageBytes } = getTransactionDecoder().decode(transaction)
  const message = getCompiledTransactionMessageDecoder().decode(messageBytes)
  const programAt = (index: number): string => message.staticAccounts[index]!
  if (message.version === 1) {
    return message.instructionPayloads.map(({ instructionData }, at) => ({
      program: programAt(message.instructionHeaders[at]!.programAccountIndex),
      data: new Uint8Array(instructionData),
    }))
  }
  return message.instructions.map(({ programAddressIndex, data }) => ({
    program: programAt(programAddressIndex),
    data: new Uint8Array(data ?? []),
  }))
}
