/** Calls the vault from inside a transaction: through `forwarder.rs`, which adds nothing of its own. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { equalBytes, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { VaultInstruction } from '../../protocol/vault/instruction'

export const FORWARDER_SO = readFileSync(join(import.meta.dir, 'forwarder.so'))
export const FORWARDER = sha256(utf8('forwarder'))

/** The instruction as an inner one. */
export function forwarded({ program, accounts, data }: VaultInstruction): VaultInstruction {
  const callee = { address: program, signer: false, writable: false }
  return { program: FORWARDER, accounts: [callee, ...accounts], data }
}

/** What the forwarder calls; undefined when the instruction is not for it. */
export function innerOf({ program, accounts, data }: VaultInstruction): VaultInstruction | undefined {
  const [callee, ...rest] = accounts
  if (callee === undefined || !equalBytes(program, FORWARDER)) return undefined
  return { program: callee.address, accounts: rest, data }
}
