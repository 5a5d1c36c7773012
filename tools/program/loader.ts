/** Instructions of the upgradeable loader (v3) and what its accounts hold (solana-loader-v3-interface). */
import { AccountRole, type Address, address, type Instruction, type KeyPairSigner } from '@solana/kit'
import { addressOf } from '../../engine/chain/client/chain_client'
import { decodeBase58 } from '../../protocol/base58'
import { concatBytes, readU64Le, u64Le } from '../../protocol/bytes'

export const LOADER_V3 = address('BPFLoaderUpgradeab1e11111111111111111111111')
const SYSTEM = address('11111111111111111111111111111111')
const RENT = address('SysvarRent111111111111111111111111111111111')
const CLOCK = address('SysvarC1ock11111111111111111111111111111111')

/** Buffer: tag u32 = 1, authority option u8 and key (32), then the ELF. */
export const BUFFER_HEADER_BYTES = 37
/** Program: tag u32 = 2, address of the program data (32). */
export const PROGRAM_BYTES = 36
/** Program data: tag u32 = 3, slot u64, authority option u8 and key (32), then the ELF, zero padded. */
export const PROGRAM_DATA_HEADER_BYTES = 45

const u32 = (value: number): Uint8Array => u64Le(value).subarray(0, 4)
const encode = (text: Address): Uint8Array => decodeBase58(text, 32)!

export type ProgramData = { slot: number; authority: Address | undefined; elf: Uint8Array }

/** Undefined when the bytes are no program data account. */
export function decodeProgramData(data: Uint8Array): ProgramData | undefined {
  if (data.length < PROGRAM_DATA_HEADER_BYTES || data[0] !== 3) return undefined
  const authority = data[12] === 1 ? addressOf(data.subarray(13, 45)) : undefined
  return { slot: Number(readU64Le(data, 4)), authority, elf: data.subarray(PROGRAM_DATA_HEADER_BYTES) }
}

/** System program: an account of the loader's. */
export function createLoaderAccount(
  payer: KeyPairSigner,
  account: KeyPairSigner,
  space: number,
  rent_lamports: bigint,
): Instruction {
  return {
    programAddress: SYSTEM,
    accounts: [
      { address: payer.address, role: AccountRole.WRITABLE_SIGNER, signer: payer },
      { address: account.address, role: AccountRole.WRITABLE_SIGNER, signer: account },
    ] as never,
    data: concatBytes(u32(0), u64Le(rent_lamports), u64Le(space), encode(LOADER_V3)),
  }
}

export function initializeBuffer(buffer: Address, authority: Address): Instruction {
  const accounts = [writable(buffer), readonly(authority)]
  return { programAddress: LOADER_V3, accounts, data: u32(0) }
}

/** The loader rejects instructions longer than a packet, in any transaction. */
const WRITE_BYTES_MAX = 1_200

/** As many instructions as the bytes need. */
export function writeBuffer(
  buffer: Address,
  authority: KeyPairSigner,
  offset: number,
  bytes: Uint8Array,
): Instruction[] {
  const writes: Instruction[] = []
  for (let at = 0; at < bytes.length; at += WRITE_BYTES_MAX) {
    const piece = bytes.subarray(at, at + WRITE_BYTES_MAX)
    const data = concatBytes(u32(1), u32(offset + at), u64Le(piece.length), piece)
    writes.push({ programAddress: LOADER_V3, accounts: [writable(buffer), signs(authority)], data })
  }
  return writes
}

/** The buffer becomes the program; the program account must have been created in this transaction. */
export function deployProgram(args: {
  payer: KeyPairSigner
  program: Address
  program_data: Address
  buffer: Address
  authority: KeyPairSigner
  bytes_max: number
}): Instruction {
  const { payer, program, program_data, buffer, authority, bytes_max } = args
  const accounts = [
    { address: payer.address, role: AccountRole.WRITABLE_SIGNER, signer: payer },
    writable(program_data),
    writable(program),
    writable(buffer),
    readonly(RENT),
    readonly(CLOCK),
    readonly(SYSTEM),
    signs(authority),
  ]
  return { programAddress: LOADER_V3, accounts, data: concatBytes(u32(2), u64Le(bytes_max)) }
}

/** The buffer replaces the program's code; its rent goes to `spill`. */
export function upgradeProgram(args: {
  program: Address
  program_data: Address
  buffer: Address
  spill: Address
  authority: KeyPairSigner
}): Instruction {
  const { program, program_data, buffer, spill, authority } = args
  const accounts = [
    writable(program_data),
    writable(program),
    writable(buffer),
    writable(spill),
    readonly(RENT),
    readonly(CLOCK),
    signs(authority),
  ]
  return { programAddress: LOADER_V3, accounts, data: u32(3) }
}

/** Without a new authority: the program can never change again. */
export function renounceUpgrades(program_data: Address, authority: KeyPairSigner): Instruction {
  return { programAddress: LOADER_V3, accounts: [writable(program_data), signs(authority)], data: u32(4) }
}

/** Room for a larger ELF than the one deployed. */
export function extendProgram(
  program: Address,
  program_data: Address,
  payer: KeyPairSigner,
  additional_bytes: number,
): Instruction {
  const payer_account = { address: payer.address, role: AccountRole.WRITABLE_SIGNER, signer: payer }
  const accounts = [writable(program_data), writable(program), readonly(SYSTEM), payer_account]
  return { programAddress: LOADER_V3, accounts, data: concatBytes(u32(6), u32(additional_bytes)) }
}

const writable = (account: Address) => ({ address: account, role: AccountRole.WRITABLE })
const readonly = (account: Address) => ({ address: account, role: AccountRole.READONLY })
const signs = (signer: KeyPairSigner) => ({
  address: signer.address,
  role: AccountRole.READONLY_SIGNER,
  signer,
})
