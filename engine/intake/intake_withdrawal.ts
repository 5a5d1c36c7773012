/** From a withdrawal request to its command. */
import { bodyId } from '../../protocol/body_id'
import { concatBytes } from '../../protocol/bytes'
import { encodeWithdraw } from '../../protocol/withdraw'
import type { Withdraw } from '../commands'
import type { Intake } from './intake'
import { openNote } from './open_note'
import { readWithdrawal } from './read_withdrawal'
import type { Signed } from './signed'

/** Refuses form faults. */
export function intakeWithdrawal(intake: Intake, account_id: string, value: unknown): Signed<Withdraw> {
  const form = readWithdrawal(value)
  const body = encodeWithdraw({ ...form, venue: intake.venue, expiry_slot: BigInt(form.expiry_slot) })
  return {
    claims: [{ signature: form.signature, body, trading_key: form.trading_key }],
    command: () => ({
      ...form,
      kind: 'withdraw',
      account_id,
      withdrawal_id: bodyId(body),
      opening: openNote(intake.known, form.commitment, form.opening, form.trading_key),
    }),
    body_and_signature: concatBytes(body, form.signature),
  }
}
