/** Builds the System and SPL Token instructions that fund wallets of a test cluster. */
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { concatBytes, u64Le } from '../../protocol/bytes'
import { associatedAccount, SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import type { VaultInstruction } from '../../protocol/vault/instruction'

type Account = VaultInstruction['accounts'][number]
const read = (address: Uint8Array): Account => ({ address, writable: false, signer: false })
const write = (address: Uint8Array): Account => ({ address, writable: true, signer: false })
const signs = (account: Account): Account => ({ ...account, signer: true })

/** Address of the associated token account of `owner`; all base58. */
export const associatedTokenAddress = (owner: string, mint: string): string =>
  encodeBase58(associatedAccount(decodeBase58(owner, 32)!, decodeBase58(mint, 32)!))

/** Size of an SPL Token mint account. */
export const MINT_BYTES = 82

/** An account of the SPL Token program, made a mint with `decimals` and no freeze authority. */
export function createMintInstructions(
  payer: Uint8Array,
  mint: Uint8Array,
  rent_lamports: bigint,
  decimals: number,
): VaultInstruction[] {
  const space = u64Le(MINT_BYTES)
  const create = {
    program: SYSTEM_PROGRAM,
    accounts: [signs(write(payer)), signs(write(mint))],
    data: concatBytes(new Uint8Array(4), u64Le(rent_lamports), space, TOKEN_PROGRAM),
  }
  // InitializeMint2: decimals, authority, no freeze authority.
  const data = concatBytes(Uint8Array.of(20, decimals), payer, Uint8Array.of(0))
  return [create, { program: TOKEN_PROGRAM, accounts: [write(mint)], data }]
}

export function transferLamports(from: Uint8Array, to: Uint8Array, lamports: bigint): VaultInstruction {
  return {
    program: SYSTEM_PROGRAM,
    accounts: [signs(write(from)), write(to)],
    data: concatBytes(Uint8Array.of(2, 0, 0, 0), u64Le(lamports)),
  }
}

/** Lamports into a token account of the native mint. */
export function wrapLamports(from: Uint8Array, account: Uint8Array, lamports: bigint): VaultInstruction[] {
  const sync_native = { program: TOKEN_PROGRAM, accounts: [write(account)], data: Uint8Array.of(17) }
  return [transferLamports(from, account, lamports), sync_native]
}

export function mintToChecked(
  mint: Uint8Array,
  account: Uint8Array,
  authority: Uint8Array,
  amount: bigint,
  decimals: number,
): VaultInstruction {
  return {
    program: TOKEN_PROGRAM,
    accounts: [write(mint), write(account), signs(read(authority))],
    data: concatBytes(Uint8Array.of(14), u64Le(amount), Uint8Array.of(decimals)),
  }
}
