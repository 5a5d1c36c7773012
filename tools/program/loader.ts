/** Builds the instructions of the upgradeable loader and of the system program that deployment and administration need. */
import { decodeBase58 } from '../../protocol/base58'
import { readU64Le, toHex, utf8 } from '../../protocol/bytes'
import { blob, constant, fixed, struct, u32, u64, uint } from '../../protocol/codec'
import { sha256 } from '../../protocol/sha256'
import { SYSTEM_PROGRAM, UPGRADEABLE_LOADER } from '../../protocol/vault/addresses'
import { type InstructionForm, listAccounts, type VaultInstruction } from '../../protocol/vault/instruction'

const sysvar = (name: string): Uint8Array => decodeBase58(name, 32)!
export const RENT = sysvar('SysvarRent111111111111111111111111111111111')
export const CLOCK = sysvar('SysvarC1ock11111111111111111111111111111111')
const RECENT_BLOCKHASHES = sysvar('SysvarRecentB1ockHashes11111111111111111111')

/** Buffer: tag u32 = 1, authority option u8 and key (32), then the ELF. */
export const BUFFER_HEADER_BYTES = 37
/** Program: tag u32 = 2, address of the program data (32). */
export const PROGRAM_BYTES = 36
/** Program data: tag u32 = 3, slot u64, authority option u8 and key (32), then the ELF, zero padded. */
export const PROGRAM_DATA_HEADER_BYTES = 45
/** Nonce account: version u32, state u32 = 1, authority (32), nonce (32), lamports per signature u64. */
export const NONCE_BYTES = 80

/** `slot` of the deployment; 0 in a buffer. */
export type Code = { slot: number; authority: Uint8Array | undefined; elf: Uint8Array }

/** Undefined when the bytes are neither program data nor a buffer. */
export function decodeCode(data: Uint8Array): Code | undefined {
  const header = { 1: BUFFER_HEADER_BYTES, 3: PROGRAM_DATA_HEADER_BYTES }[data[0] ?? 0]
  if (header === undefined || data.length < header) return undefined
  const slot = data[0] === 3 ? Number(readU64Le(data, 4)) : 0
  const authority = data[header - 33] === 1 ? data.slice(header - 32, header) : undefined
  return { slot, authority, elf: data.subarray(header) }
}

/** Authority and nonce of a nonce account of the system program; undefined for any other account. */
export function decodeNonce(account: { owner: Uint8Array; data: Uint8Array } | undefined) {
  if (account?.data.length !== NONCE_BYTES || account.owner.some((byte) => byte !== 0)) return undefined
  if (account.data[4] !== 1) return undefined
  return { authority: account.data.slice(8, 40), nonce: account.data.slice(40, 72) }
}

const tag = (number: number) => constant(Uint8Array.of(number, 0, 0, 0))
const bare = (number: number) => struct({ tag: tag(number) })
const key = fixed(32)

const CREATE = struct({ tag: tag(0), lamports: u64, space: uint, owner: key })
const WRITE = struct({ tag: tag(1), offset: u32, bytes: blob })
const DEPLOY = struct({ tag: tag(2), bytes_max: uint })
const EXTEND = struct({ tag: tag(6), additional_bytes: u32 })
const CREATE_SEEDED = struct({ tag: tag(3), base: key, seed: blob, lamports: u64, space: uint, owner: key })
const INITIALIZE_NONCE = struct({ tag: tag(6), authority: key })

const UPGRADE_ACCOUNTS = {
  program_data: 'w',
  program: 'w',
  buffer: 'w',
  spill: 'w',
  rent: '',
  clock: '',
  authority: 's',
} as const
const RENOUNCE_ACCOUNTS = { program_data: 'w', authority: 's' } as const
const SET_AUTHORITY_ACCOUNTS = { ...RENOUNCE_ACCOUNTS, new_authority: '' } as const

/** The instructions that an upgrade authority signs. */
export const LOADER_FORMS = {
  upgrade: { data: bare(3), accounts: UPGRADE_ACCOUNTS },
  set_authority: { data: bare(4), accounts: SET_AUTHORITY_ACCOUNTS },
  renounce: { data: bare(4), accounts: RENOUNCE_ACCOUNTS },
} satisfies Record<string, InstructionForm>

type Roles = InstructionForm['accounts']
type Named<R extends Roles> = Readonly<Record<keyof R, Uint8Array>>

const loader = <const R extends Roles>(data: Uint8Array, roles: R, named: Named<R>): VaultInstruction => {
  return { program: UPGRADEABLE_LOADER, accounts: listAccounts(roles, named), data }
}
const system = <const R extends Roles>(data: Uint8Array, roles: R, named: Named<R>): VaultInstruction => {
  return { program: SYSTEM_PROGRAM, accounts: listAccounts(roles, named), data }
}

export function createLoaderAccount(
  payer: Uint8Array,
  account: Uint8Array,
  space: number,
  lamports: bigint,
): VaultInstruction {
  const data = CREATE.encode({ lamports, space, owner: UPGRADEABLE_LOADER })
  return system(data, { payer: 'sw', account: 'sw' }, { payer, account })
}

export const initializeBuffer = (buffer: Uint8Array, authority: Uint8Array): VaultInstruction =>
  loader(bare(0).encode({}), { buffer: 'w', authority: '' }, { buffer, authority })

/** The loader rejects instructions longer than a packet, in any transaction. */
const WRITE_BYTES_MAX = 1_200

/** As many instructions as the bytes need. */
export function writeBuffer(
  buffer: Uint8Array,
  authority: Uint8Array,
  offset: number,
  bytes: Uint8Array,
): VaultInstruction[] {
  const writes: VaultInstruction[] = []
  for (let at = 0; at < bytes.length; at += WRITE_BYTES_MAX) {
    const piece = bytes.subarray(at, at + WRITE_BYTES_MAX)
    const data = WRITE.encode({ offset: offset + at, bytes: piece })
    writes.push(loader(data, { buffer: 'w', authority: 's' }, { buffer, authority }))
  }
  return writes
}

type Place = { program: Uint8Array; program_data: Uint8Array; buffer: Uint8Array; authority: Uint8Array }

/** The buffer becomes the program; the program account must have been created in this transaction. */
export function deployProgram(
  { program, program_data, buffer, authority }: Place,
  payer: Uint8Array,
  bytes_max: number,
): VaultInstruction {
  const own = { payer: 'sw', program_data: 'w', program: 'w', buffer: 'w' } as const
  const roles = { ...own, rent: '', clock: '', system: '', authority: 's' } as const
  const accounts = { payer, program_data, program, buffer, rent: RENT, clock: CLOCK, authority }
  return loader(DEPLOY.encode({ bytes_max }), roles, { ...accounts, system: SYSTEM_PROGRAM })
}

/** The buffer replaces the program's code; its rent goes to `spill`. */
export function upgradeProgram(code: Place, spill: Uint8Array): VaultInstruction {
  const { data, accounts } = LOADER_FORMS.upgrade
  return loader(data.encode({}), accounts, { ...code, spill, rent: RENT, clock: CLOCK })
}

/** `account` is a buffer or program data. */
export function setAuthority(
  account: Uint8Array,
  authority: Uint8Array,
  new_authority: Uint8Array,
): VaultInstruction {
  const { data, accounts } = LOADER_FORMS.set_authority
  return loader(data.encode({}), accounts, { program_data: account, authority, new_authority })
}

/** Without a new authority: the program can never change again. */
export function renounceUpgrades(program_data: Uint8Array, authority: Uint8Array): VaultInstruction {
  const { data, accounts } = LOADER_FORMS.renounce
  return loader(data.encode({}), accounts, { program_data, authority })
}

/** Room for a larger ELF than the one deployed. */
export function extendProgram(
  program: Uint8Array,
  program_data: Uint8Array,
  payer: Uint8Array,
  additional_bytes: number,
): VaultInstruction {
  const roles = { program_data: 'w', program: 'w', system: '', payer: 'sw' } as const
  const accounts = { program_data, program, system: SYSTEM_PROGRAM, payer }
  return loader(EXTEND.encode({ additional_bytes }), roles, accounts)
}

/** A nonce account that only `authority` advances; its address follows from payer and authority, so it needs no key. */
export function createNonce(
  payer: Uint8Array,
  authority: Uint8Array,
  lamports: bigint,
): { nonce: Uint8Array; instructions: VaultInstruction[] } {
  const seed = utf8(toHex(sha256(authority)).slice(0, 32))
  const nonce = sha256(payer, seed, SYSTEM_PROGRAM)
  const terms = { base: payer, seed, lamports, space: NONCE_BYTES, owner: SYSTEM_PROGRAM }
  const create = system(CREATE_SEEDED.encode(terms), { payer: 'sw', nonce: 'w' }, { payer, nonce })
  const begin = system(
    INITIALIZE_NONCE.encode({ authority }),
    { nonce: 'w', recent_blockhashes: '', rent: '' },
    { nonce, recent_blockhashes: RECENT_BLOCKHASHES, rent: RENT },
  )
  return { nonce, instructions: [create, begin] }
}
