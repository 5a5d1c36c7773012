/** Defines the shape of every vault instruction: first byte, account list, encoded data. */

/** The first byte of every vault instruction. Numbers are never reused or reordered. */
export const INSTRUCTION = {
  initialize: 0,
  register_mint: 1,
  deposit: 2,
  open_epoch: 3,
  settle: 4,
  anchor: 5,
  request_exit: 6,
  refuse_exit: 7,
  freeze: 8,
  escape: 9,
  rotate_signer: 10,
  set_admin: 11,
  authorize_restore: 12,
  pause: 13,
  unpause: 14,
  /** Carries events; only the program itself can send it. */
  emit: 255,
} as const

type InstructionName = keyof typeof INSTRUCTION

const NAMES = new Map<number, InstructionName>(
  Object.entries(INSTRUCTION).map(([name, byte]) => [byte, name as InstructionName]),
)

/** Name of the instruction that `data` encodes; undefined when it is not an instruction of the vault. */
export const instructionName = (data: Uint8Array): InstructionName | undefined =>
  data[0] === undefined ? undefined : NAMES.get(data[0])

/** One account of an instruction, ready for any transaction library. `address`: 32 bytes. */
export type InstructionAccount = { address: Uint8Array; signer: boolean; writable: boolean }

/** Program, accounts in order and data, for any transaction library. */
export type VaultInstruction = { program: Uint8Array; accounts: InstructionAccount[]; data: Uint8Array }

/** One position of an instruction's account list. */
type AccountRole = { name: string; signer: boolean; writable: boolean }

/** Lists an instruction's accounts in the order of their roles. */
export function listAccounts<const Roles extends readonly AccountRole[]>(
  roles: Roles,
  addresses: Readonly<Record<Roles[number]['name'], Uint8Array>>,
): InstructionAccount[] {
  const by_name: Readonly<Record<string, Uint8Array>> = addresses
  return roles.map(({ name, signer, writable }) => {
    const address = by_name[name]
    if (address?.length !== 32) throw new RangeError(`account ${name} is not 32 bytes`)
    return { address, signer, writable }
  })
}
