/** Defines the shape of every vault instruction: first byte, account list, encoded data. */
import {
  type AnyCodec,
  type Codec,
  codec,
  constant,
  mapped,
  struct,
  tryDecode,
  u8,
  type ValueOf,
} from '../codec'
import {
  ASSOCIATED_TOKEN_PROGRAM,
  associatedAccount,
  CONFIG_SEEDS,
  escapeClaimAddress,
  exitRequestAddress,
  findAddress,
  mintRecordAddress,
  QUEUE_SEEDS,
  RING_SEEDS,
  SYSTEM_PROGRAM,
  TOKEN_PROGRAM,
  TREE_SEEDS,
  vaultTokenAddress,
} from './addresses'

/** The first byte of every vault instruction. Numbers are never reused or reordered; 3, 9 and 10 were in use. */
export const INSTRUCTION = {
  initialize: 0,
  register_mint: 1,
  deposit: 2,
  settle: 4,
  anchor: 5,
  request_exit: 6,
  refuse_exit: 7,
  freeze: 8,
  set_admin: 11,
  authorize_restore: 12,
  pause: 13,
  unpause: 14,
  pay: 15,
  grow_queue: 16,
  close_exit: 17,
  claim_escape: 18,
  challenge_escape: 19,
  pay_escape: 20,
  redirect_escape: 21,
  declare_outage: 22,
  announce: 23,
  register_platform: 24,
  open_attested_epoch: 25,
  /** Carries events; only the program itself can send it. */
  emit: 255,
} as const

export type InstructionName = keyof typeof INSTRUCTION

const NAMES = new Map<number, InstructionName>(
  Object.entries(INSTRUCTION).map(([name, byte]) => [byte, name as InstructionName]),
)

/** Name of the instruction that `data` encodes; undefined when it is not an instruction of the vault. */
export const instructionName = (data: Uint8Array): InstructionName | undefined =>
  data[0] === undefined ? undefined : NAMES.get(data[0])

/** The first byte of an instruction's data. */
export const numberOf = (name: InstructionName) => constant(Uint8Array.of(INSTRUCTION[name]))

/** The layout of an instruction that carries only its number. */
export const bare = (name: InstructionName) => struct({ instruction: numberOf(name) })

/** The value of untrusted bytes; undefined when they are not exactly its encoding. */
export function decoded<T>(layout: Codec<T>, bytes: Uint8Array): T | undefined {
  return tryDecode(() => layout.decode(bytes))
}

/** A value, or undefined as zeros. */
export const orZeros = (layout: Codec<Uint8Array>): Codec<Uint8Array | undefined> =>
  mapped(
    layout,
    (bytes): Uint8Array | undefined => (bytes.some((byte) => byte !== 0) ? bytes : undefined),
    (value) => value ?? new Uint8Array(layout.size!),
  )

type Lists = Readonly<Record<string, readonly unknown[]>>

/** Several lists: first the length of each in one byte, then their values. */
export function lists<T extends Lists>(inner: { readonly [K in keyof T]: Codec<T[K][number]> }): Codec<T> {
  const layouts = Object.entries<Codec<unknown>>(inner)
  const counts = struct(Object.fromEntries(layouts.map(([name]) => [name, u8])))
  return codec<T>(
    undefined,
    (to, value) => {
      counts.write(to, Object.fromEntries(layouts.map(([name]) => [name, value[name]!.length])))
      for (const [name, { write }] of layouts) for (const one of value[name]!) write(to, one)
    },
    (from) => {
      const lengths: Record<string, number> = counts.read(from)
      const read = ([name, layout]: [string, Codec<unknown>]) =>
        [name, Array.from({ length: lengths[name]! }, () => layout.read(from))] as const
      return Object.fromEntries(layouts.map(read)) as unknown as T
    },
  )
}

/** One account of an instruction, ready for any transaction library. `address`: 32 bytes. */
export type InstructionAccount = { address: Uint8Array; signer: boolean; writable: boolean }

/** Program, accounts in order and data, for any transaction library. */
export type VaultInstruction = { program: Uint8Array; accounts: InstructionAccount[]; data: Uint8Array }

/** Accounts of an instruction in order: `s` signs, `w` is writable. */
type Roles = Readonly<Record<string, '' | 's' | 'w' | 'sw'>>

/** Parts of an instruction: its data, its accounts in order, and the accounts that each value of a list adds behind them. */
export type InstructionForm = {
  readonly data: AnyCodec & {
    readonly encode: (value: never) => Uint8Array
    readonly decode: (bytes: Uint8Array) => unknown
  }
  readonly accounts: Roles
  readonly more?: Readonly<Record<string, Roles>>
}
/** The forms of some instructions. */
export type Forms = { readonly [N in InstructionName]?: InstructionForm }

/** Lists an instruction's accounts in the order of their roles. */
export function listAccounts<const R extends Roles>(
  roles: R,
  addresses: Readonly<Record<keyof R, Uint8Array>>,
): InstructionAccount[] {
  return Object.entries(roles).map(([name, role]) => {
    const address = addresses[name]
    if (address?.length !== 32) throw new RangeError(`account ${name} is not 32 bytes`)
    return { address, signer: role.startsWith('s'), writable: role.endsWith('w') }
  })
}

/** Fields from which accounts follow. */
type Subject = { readonly program: Uint8Array; readonly mint?: Uint8Array; readonly nullifier?: Uint8Array }
/** Accounts that follow from the program and the fields of their instruction, by their names in every form. */
const DERIVED = {
  program: ({ program }: Subject) => program,
  config: ({ program }: Subject) => findAddress(CONFIG_SEEDS, program).address,
  tree: ({ program }: Subject) => findAddress(TREE_SEEDS, program).address,
  ring: ({ program }: Subject) => findAddress(RING_SEEDS, program).address,
  queue: ({ program }: Subject) => findAddress(QUEUE_SEEDS, program).address,
  system_program: () => SYSTEM_PROGRAM,
  mint_record: ({ program, mint }: Subject) => mintRecordAddress(program, mint!),
  vault_token: ({ program, mint }: Subject) => vaultTokenAddress(program, mint!),
  exit_request: ({ program, nullifier }: Subject) => exitRequestAddress(program, nullifier!),
  claim: ({ program, nullifier }: Subject) => escapeClaimAddress(program, nullifier!),
}

type Needs<Name, Of, Field extends string> = Name & Of extends never
  ? unknown
  : { readonly [_ in Field]: Uint8Array }
/** The data of an instruction, its program, and the accounts that do not follow from these. */
export type FieldsOf<F extends InstructionForm> = ValueOf<F['data']> & { readonly program: Uint8Array } & {
  readonly [K in Exclude<keyof F['accounts'], keyof typeof DERIVED>]: Uint8Array
} & Needs<keyof F['accounts'], 'mint_record' | 'vault_token', 'mint'> &
  Needs<keyof F['accounts'], 'exit_request' | 'claim', 'nullifier'>

/** Builds the instruction of a form. */
export function builderOf<F extends InstructionForm>(form: F): (fields: FieldsOf<F>) => VaultInstruction {
  return (fields) => {
    const { program } = fields
    return { program, accounts: listFor(form.accounts, fields), data: form.data.encode(fields as never) }
  }
}

/** Lists an instruction's accounts in the order of their roles: derived, or as a field has them. */
export function listFor(roles: Roles, fields: Subject): InstructionAccount[] {
  const given = fields as unknown as Record<string, Uint8Array>
  const addresses = Object.keys(roles).map((name) => [
    name,
    Object.hasOwn(DERIVED, name) ? DERIVED[name as keyof typeof DERIVED](fields) : given[name]!,
  ])
  return listAccounts(roles, Object.fromEntries(addresses))
}

/** Creates the associated token account of `owner`; one that exists is left as it is (`CreateIdempotent`). */
export function createAssociatedInstruction(
  payer: Uint8Array,
  owner: Uint8Array,
  mint: Uint8Array,
  token_program = TOKEN_PROGRAM,
): VaultInstruction {
  const roles = { payer: 'sw', account: 'w', owner: '', mint: '', system: '', token_program: '' } as const
  const addresses = { payer, owner, mint, token_program, system: SYSTEM_PROGRAM }
  const account = associatedAccount(owner, mint, token_program)
  const accounts = listAccounts(roles, { ...addresses, account })
  return { program: ASSOCIATED_TOKEN_PROGRAM, accounts, data: Uint8Array.of(1) }
}
