/** Parses withdrawal and reshape requests into commands. */
import { encodeReshape } from '../../protocol/bodies/reshape'
import { bodyId, encodeWithdraw } from '../../protocol/bodies/withdraw'
import { compareBytes, concatBytes } from '../../protocol/bytes'
import type { Reshape, Withdraw } from '../commands'
import { LIMITS } from '../limits'
import type { Intake, Signed } from './context'
import {
  arrayOf,
  elementOf,
  integerOf,
  keyOf,
  nonceOf,
  objectOf,
  refuseField,
  signatureOf,
  u64Of,
} from './form'
import { type Opening, openNote, readOpening } from './opening'

/** A withdrawal before its signature is verified and its note is opened. */
type WithdrawalForm = Omit<Withdraw, 'kind' | 'account_id' | 'withdrawal_id' | 'opening'> & {
  opening: Opening | undefined
}

const WITHDRAWAL_FIELDS = [
  'trading_key',
  'commitment',
  'destination',
  'amount',
  'nonce',
  'expiry_slot',
  'change_anchor',
  'signature',
] as const

/** Refuses form errors; a zero amount is one. */
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

function readWithdrawal(value: unknown): WithdrawalForm {
  const body = objectOf(value, '', WITHDRAWAL_FIELDS, ['opening'])
  const amount = u64Of(body['amount'], 'amount')
  if (amount === 0n) throw refuseField('field_invalid', 'amount')
  return {
    trading_key: keyOf(body['trading_key'], 'trading_key'),
    commitment: elementOf(body['commitment'], 'commitment'),
    destination: keyOf(body['destination'], 'destination'),
    amount,
    nonce: nonceOf(body['nonce'], 'nonce'),
    expiry_slot: integerOf(body['expiry_slot'], 'expiry_slot'),
    change_anchor: elementOf(body['change_anchor'], 'change_anchor'),
    opening: readOpening(body['opening'], 'opening'),
    signature: signatureOf(body['signature'], 'signature'),
  }
}

/** A reshape before its signature is verified and its notes are opened. */
type ReshapeForm = Omit<Reshape, 'kind' | 'account_id' | 'reshape_id' | 'openings'> & {
  /** Aligned with `inputs`. */
  openings: (Opening | undefined)[]
}

const RESHAPE_FIELDS = [
  'trading_key',
  'inputs',
  'amounts',
  'anchor',
  'nonce',
  'expiry_slot',
  'signature',
] as const

/** A merge or a split of 1 to 4 notes into 1 to 4. Refuses form errors and `reshape_invalid`. */
export function intakeReshape(intake: Intake, account_id: string, value: unknown): Signed<Reshape> {
  const form = readReshape(value)
  const body = encodeReshape({ ...form, venue: intake.venue, expiry_slot: BigInt(form.expiry_slot) })
  return {
    claims: [{ signature: form.signature, body, trading_key: form.trading_key }],
    command: () => ({
      ...form,
      kind: 'reshape',
      account_id,
      reshape_id: bodyId(body),
      openings: form.openings.map((opening, at) =>
        openNote(intake.known, form.inputs[at]!, opening, form.trading_key),
      ),
    }),
    body_and_signature: concatBytes(body, form.signature),
  }
}

function readReshape(value: unknown): ReshapeForm {
  const body = objectOf(value, '', RESHAPE_FIELDS, ['openings'])
  const trading_key = keyOf(body['trading_key'], 'trading_key')
  const inputs = listOf(body['inputs'], 'inputs').map((one, index) => elementOf(one, `inputs[${index}]`))
  const amounts = listOf(body['amounts'], 'amounts').map((one, index) => u64Of(one, `amounts[${index}]`))
  if (!isAscending(inputs)) throw refuseField('reshape_invalid', 'inputs')
  if (amounts.includes(0n)) throw refuseField('reshape_invalid', 'amounts')
  if (inputs.length === 1 && amounts.length === 1) throw refuseField('reshape_invalid', 'inputs')
  return {
    trading_key,
    inputs,
    amounts,
    anchor: elementOf(body['anchor'], 'anchor'),
    nonce: nonceOf(body['nonce'], 'nonce'),
    expiry_slot: integerOf(body['expiry_slot'], 'expiry_slot'),
    openings: readOpenings(body['openings'], inputs.length),
    signature: signatureOf(body['signature'], 'signature'),
  }
}

function listOf(value: unknown, field: string): readonly unknown[] {
  if (!Array.isArray(value)) throw refuseField('field_invalid', field)
  if (value.length < 1 || value.length > LIMITS.reshape_notes_max) throw refuseField('reshape_invalid', field)
  return value
}

function readOpenings(value: unknown, inputs: number): (Opening | undefined)[] {
  if (value === undefined) return Array.from({ length: inputs }, () => undefined)
  return arrayOf(value, 'openings', inputs, inputs).map((one, index) =>
    one === null ? undefined : readOpening(one, `openings[${index}]`),
  )
}

function isAscending(inputs: Uint8Array[]): boolean {
  return inputs.every((input, index) => index === 0 || compareBytes(inputs[index - 1]!, input) < 0)
}
