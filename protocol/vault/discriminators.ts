/** Owns the first byte of every vault instruction. Numbers are never reused or reordered. */

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
  /** Only the program itself can send this one: it carries events. */
  emit: 255,
} as const

export type InstructionName = keyof typeof INSTRUCTION

const NAMES = new Map<number, InstructionName>(
  Object.entries(INSTRUCTION).map(([name, byte]) => [byte, name as InstructionName]),
)

/** Name of the instruction some data belongs to, undefined when it is none of ours. */
export const instructionName = (data: Uint8Array): InstructionName | undefined =>
  data[0] === undefined ? undefined : NAMES.get(data[0])
