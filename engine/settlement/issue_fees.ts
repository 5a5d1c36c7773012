/** Turns accrued fees into notes of the fee key, at most once a day and mint (protocol.md "Instruments and exact arithmetic"). */
import { encodeBase58 } from '../../protocol/base58'
import { MS_PER_DAY } from '../limits'
import type { State } from '../state/state'
import { createNote, moveFees } from './batch_entries'
import type { Packer } from './packer'

const NO_ORDER = '0'.repeat(32)

/** The blinding is Poseidon(4, fee_anchor, day, generation * 2^32 + 2 * mint_index), so each note is one of a kind. */
export function issueFees(state: State, packer: Packer): void {
  const { settlement } = state
  const day = Math.floor(state.unix_ms / MS_PER_DAY)
  if (day <= settlement.fee_day) return
  // The first day of a venue, or of a restored one, has nothing of a day before it.
  const first = settlement.fee_day === 0
  settlement.fee_day = day
  if (first) return
  for (const [mint, amount] of settlement.fees.entries()) {
    if (amount === 0n) continue
    const batch = packer.take(1)
    moveFees(state, batch, mint, -amount)
    createNote(
      state,
      batch,
      { owner: encodeBase58(state.fee_key), mint, amount, status: 'free' },
      { anchor: state.fee_anchor, order_id: NO_ORDER, nonce: BigInt(day), index_role: 2 * mint },
    )
  }
}
