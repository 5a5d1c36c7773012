/** Calls the vault from inside a transaction, through `forwarder.rs`: as it is, or signed by a multisig's address. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { equalBytes, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { findAddress } from '../../protocol/vault/addresses'
import type { VaultInstruction } from '../../protocol/vault/instruction'

export const FORWARDER_SO = readFileSync(join(import.meta.dir, 'forwarder.so'))
export const FORWARDER = sha256(utf8('forwarder'))

/** An address without a key, for which only the forwarder can sign. */
export const MULTISIG = findAddress([utf8('multisig')], FORWARDER)

export function forwarded(inner: VaultInstruction): VaultInstruction {
  return called(inner, 0)
}

export const bySignedMultisig = (inner: VaultInstruction): VaultInstruction => called(inner, MULTISIG.bump)

function called({ program, accounts, data }: VaultInstruction, bump: number): VaultInstruction {
  const callee = { address: program, signer: false, writable: false }
  const outer = accounts.map((account) => ({
    ...account,
    signer: account.signer && !equalBytes(account.address, MULTISIG.address),
  }))
  return { program: FORWARDER, accounts: [callee, ...outer], data: Uint8Array.of(bump, ...data) }
}

/** The call of the forwarder; undefined when the instruction is not for it. */
export function innerOf({ program, accounts, data }: VaultInstruction): VaultInstruction | undefined {
  const [callee, ...rest] = accounts
  if (callee === undefined || !equalBytes(program, FORWARDER)) return undefined
  return { program: callee.address, accounts: rest, data: data.slice(1) }
}
