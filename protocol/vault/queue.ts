/** Builds the instructions of the payout queue: `pay` (15) and `grow_queue` (16). */
import { equalBytes } from '../bytes'
import { bool, list, struct, u8, u16, uint } from '../codec'
import { PAY_ENTRIES_MAX } from '../limits'
import { COMPUTE_BUDGET_PROGRAM } from './addresses'
import { bare, builderOf, type Forms, listFor, numberOf, type VaultInstruction } from './instruction'
import { appendUnits } from './settle'

/** `pay` closes open entries by a transfer, or by the refund note where the destination cannot receive. */
const PAY = struct({
  instruction: numberOf('pay'),
  /** True turns entries queued 7 days ago and earlier into their notes, without a transfer. */
  refund: bool,
  /** An entry that is not open under its number any more is skipped. */
  entries: list(struct({ place: u16, number: uint }), PAY_ENTRIES_MAX, u8),
})

const PAY_ACCOUNTS = { config: '', tree: 'w', ring: 'w', queue: 'w', program: '' } as const
/** Of each entry. */
const ENTRY_ACCOUNTS = {
  mint_record: 'w',
  mint: '',
  vault_token: 'w',
  token_program: '',
  destination: 'w',
} as const

type PayEntry = {
  place: number
  number: number
  mint: Uint8Array
  token_program: Uint8Array
  destination: Uint8Array
}

export function payInstruction(fields: {
  program: Uint8Array
  refund: boolean
  /** 1 to 8. */
  entries: readonly PayEntry[]
}): VaultInstruction {
  const { program, refund, entries } = fields
  const accounts = listFor(PAY_ACCOUNTS, { program })
  for (const entry of entries) {
    const own = listFor(ENTRY_ACCOUNTS, { ...entry, program })
    // An invoked program may not be writable: an entry for one is refunded, so it is read only.
    const invoked = [program, COMPUTE_BUDGET_PROGRAM].some((one) => equalBytes(one, entry.destination))
    if (invoked) own.at(-1)!.writable = false
    accounts.push(...own)
  }
  return { program, accounts, data: PAY.encode({ refund, entries: [...entries] }) }
}

/**
 * Compute units that a transaction with one `pay` of so many entries needs at most, independent of their destinations:
 * all become notes, or all are transferred by Token-2022.
 */
export const payUnits = (entries: number): number => 4_000 + 9_500 * entries + appendUnits(entries)

export const QUEUE_FORMS = {
  pay: { data: PAY, accounts: PAY_ACCOUNTS, more: { entry: ENTRY_ACCOUNTS } },
  grow_queue: {
    data: bare('grow_queue'),
    accounts: { payer: 'sw', config: '', queue: 'w', system_program: '' },
  },
} satisfies Forms

/** Adds 60 entries, up to 1,020; `payer` pays the rent. */
export const growQueueInstruction = (program: Uint8Array, payer: Uint8Array): VaultInstruction =>
  builderOf(QUEUE_FORMS.grow_queue)({ program, payer })
