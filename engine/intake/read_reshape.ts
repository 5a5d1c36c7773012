/** The form of a reshape body: 1 to 4 notes in, 1 to 4 amounts out, a merge or a split. */
import { compareBytes } from '../../protocol/bytes'
import type { Reshape } from '../commands'
import { LIMITS } from '../limits'
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
import { type Opening, readOpening } from './read_opening'

/** A reshape before its signature is checked and its notes are opened. */
export type ReshapeForm = Omit<Reshape, 'kind' | 'account_id' | 'reshape_id' | 'openings'> & {
  /** Aligned with `inputs`. */
  openings: (Opening | undefined)[]
}

const FIELDS = ['trading_key', 'inputs', 'amounts', 'anchor', 'nonce', 'expiry_slot', 'signature'] as const

/** Reads a reshape body. Refuses `reshape_invalid` when inputs and outputs are no merge or split. */
export function readReshape(value: unknown): ReshapeForm {
  const body = objectOf(value, '', FIELDS, ['openings'])
  const trading_key = keyOf(body['trading_key'], 'trading_key')
  const inputs = listOf(body['inputs'], 'inputs').map((one, index) => elementOf(one, `inputs[${index}]`))
  const amounts = listOf(body['amounts'], 'amounts').map((one, index) => u64Of(one, `amounts[${index}]`))
  if (!ascending(inputs)) throw refuseField('reshape_invalid', 'inputs')
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

function ascending(inputs: Uint8Array[]): boolean {
  return inputs.every((input, index) => index === 0 || compareBytes(inputs[index - 1]!, input) < 0)
}
