/** What exists on an embedded chain before its first transaction: the vault program, the faucet and three mints. */
import { address, getAddressEncoder, getProgramDerivedAddress } from '@solana/kit'
import { type BankAccount, SYSTEM_PROGRAM } from './bank'
import { NATIVE_MINT } from './faucet'
import { TOKEN_PROGRAM } from './token_accounts'

/** Mints of the demo instruments, at their mainnet addresses. */
export const GENESIS_MINTS = [
  { mint: NATIVE_MINT, decimals: 9, faucet: false },
  { mint: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v', decimals: 6, faucet: true },
  { mint: 'jtojtomepa8beP8AuQc6eXt5FriJwfFMwQx2v2f9mCL', decimals: 9, faucet: true },
] as const

export const LOADER_V3 = address('BPFLoaderUpgradeab1e11111111111111111111111')
const FAUCET_LAMPORTS = 10n ** 18n
const MINT_LAMPORTS = 1_461_600n
const MINT_BYTES = 82
/** Program data: tag u32 = 3, slot u64, authority option u8, authority (32), then the ELF. */
const PROGRAM_DATA_HEADER_BYTES = 45

/**
 * SPL mint: authority option u32 and key (36), supply u64 (8), decimals u8, initialized u8, freeze authority (36).
 * The native mint has no authority: it is wrapped, never minted.
 */
function mintAccount(decimals: number, authority: Uint8Array | undefined): BankAccount {
  const data = new Uint8Array(MINT_BYTES)
  if (authority) {
    data[0] = 1
    data.set(authority, 4)
  }
  data[44] = decimals
  data[45] = 1
  return { lamports: MINT_LAMPORTS, data, owner: TOKEN_PROGRAM, executable: false }
}

export async function programDataAddress(program_id: Uint8Array): Promise<string> {
  const [derived] = await getProgramDerivedAddress({ programAddress: LOADER_V3, seeds: [program_id] })
  return derived
}

const encode = (text: string): Uint8Array => new Uint8Array(getAddressEncoder().encode(address(text)))

/** The faucet's lamports and the mints; only the faucet may mint. */
export function moneyAccounts(faucet: string): [string, BankAccount][] {
  const wallet = {
    lamports: FAUCET_LAMPORTS,
    data: new Uint8Array(),
    owner: SYSTEM_PROGRAM,
    executable: false,
  }
  const mints = GENESIS_MINTS.map(({ mint, decimals, faucet: minted }): [string, BankAccount] => [
    mint,
    mintAccount(decimals, minted ? encode(faucet) : undefined),
  ])
  return [[faucet, wallet], ...mints]
}

/**
 * A program of the upgradeable loader.
 * @param authority who may upgrade until genesis gives that up
 * @param rent lamports that exempt this many bytes
 */
export async function programAccounts(
  program: string,
  elf: Uint8Array,
  authority: string,
  rent: (bytes: number) => bigint,
): Promise<[string, BankAccount][]> {
  const data_address = await programDataAddress(encode(program))
  const program_data = new Uint8Array(PROGRAM_DATA_HEADER_BYTES + elf.length)
  program_data[0] = 3
  program_data[12] = 1
  program_data.set(encode(authority), 13)
  program_data.set(elf, PROGRAM_DATA_HEADER_BYTES)
  const stub = new Uint8Array(36)
  stub[0] = 2
  stub.set(encode(data_address), 4)
  const held = (data: Uint8Array, executable: boolean): BankAccount => {
    return { lamports: rent(data.length), data, owner: LOADER_V3, executable }
  }
  // The program account names its data, so the data must exist first.
  return [
    [data_address, held(program_data, false)],
    [program, held(stub, true)],
  ]
}
