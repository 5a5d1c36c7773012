/** Turns withdrawal and reshape requests into commands. */
import { encodeReshape } from '../../protocol/bodies/reshape'
import { bodyId, encodeWithdraw } from '../../protocol/bodies/withdraw'
import { Refusal } from '../../protocol/refusals'
import type { ReshapeRequest, WithdrawalRequest } from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { Reshape, Withdraw } from '../commands'
import { type Intake, openNote, type Signed, signedBy } from './context'

export function intakeWithdrawal(
  { venue, known }: Intake,
  account_id: string,
  request: Parsed<typeof WithdrawalRequest>,
): Signed<Withdraw> {
  const body = encodeWithdraw({ ...request, venue, expiry_slot: BigInt(request.expiry_slot) })
  return signedBy([{ ...request, body }], () => ({
    ...request,
    kind: 'withdraw',
    account_id,
    withdrawal_id: bodyId(body),
    opening: openNote(known, request.commitment, request.opening, request.trading_key),
  }))
}

/** A merge or a split of 1 to 4 notes into 1 to 4. Refuses `reshape_invalid` of one into one and unaligned openings. */
export function intakeReshape(
  { venue, known }: Intake,
  account_id: string,
  request: Parsed<typeof ReshapeRequest>,
): Signed<Reshape> {
  const { inputs, amounts, openings, trading_key } = request
  if (inputs.length === 1 && amounts.length === 1) throw new Refusal('reshape_invalid', { field: 'inputs' })
  if (openings !== undefined && openings.length !== inputs.length) {
    throw new Refusal('field_invalid', { field: 'openings' })
  }
  const body = encodeReshape({ ...request, venue, expiry_slot: BigInt(request.expiry_slot) })
  return signedBy([{ ...request, body }], () => ({
    ...request,
    kind: 'reshape',
    account_id,
    reshape_id: bodyId(body),
    openings: inputs.map((input, at) => openNote(known, input, openings?.[at], trading_key)),
  }))
}
