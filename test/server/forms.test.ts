/** Values on the wire: what each form takes and refuses, with the field named (protocol.md "Values on the wire"). */
import { describe, expect, test } from 'bun:test'
import { FIELD_MODULUS } from '../../protocol/field'
import { Refusal } from '../../protocol/refusals'
import { formOf } from '../../server/edge/body'
import { ReshapeRequest } from '../../server/shapes/notes'
import { CancelAllBody, ModifyRequest, PlaceRequest } from '../../server/shapes/orders'
import { QueryInteger, QueryLimit } from '../../server/shapes/wire'
import { CANCEL, HASH, MODIFY, PLACE, RESHAPE } from '../routes/bodies'

function faultOf(
  form: { check(value: unknown): unknown },
  value: unknown,
): [string, string | undefined] | 'fits' {
  try {
    form.check(value)
    return 'fits'
  } catch (fault) {
    if (!(fault instanceof Refusal)) throw fault
    return [fault.code, fault.facts.field]
  }
}
const place = formOf(PlaceRequest)
const placed = (change: Record<string, unknown>) => faultOf(place, { ...PLACE, ...change })
const MODULUS = FIELD_MODULUS.toString(16).padStart(64, '0')
const BELOW = (FIELD_MODULUS - 1n).toString(16).padStart(64, '0')

describe('one field', () => {
  test('u64 values are canonical decimal strings below 2^64', () => {
    for (const amount of ['0', '1', '18446744073709551615']) expect(placed({ amount })).toBe('fits')
    for (const amount of [
      1,
      '',
      '-1',
      '+1',
      '01',
      '1.0',
      '1e3',
      ' 1',
      '18446744073709551616',
      '99999999999999999999',
      null,
    ]) {
      expect(placed({ amount })).toEqual(['field_invalid', 'amount'])
    }
  })

  test('nonces begin at 1', () => {
    expect(placed({ nonce: '1' })).toBe('fits')
    expect(placed({ nonce: '0' })).toEqual(['field_invalid', 'nonce'])
  })

  test('slots are JSON integers up to 2^53-1', () => {
    expect(placed({ expiry_slot: Number.MAX_SAFE_INTEGER })).toBe('fits')
    for (const expiry_slot of ['5', 1.5, -1, 2 ** 53, null]) {
      expect(placed({ expiry_slot })).toEqual(['field_invalid', 'expiry_slot'])
    }
  })

  test('hex is lowercase, of exact width, without a prefix', () => {
    for (const order_id of ['1B'.repeat(16), '1b'.repeat(15), '1b'.repeat(17), `0x${'1b'.repeat(15)}`, 5]) {
      expect(placed({ order_id })).toEqual(['field_invalid', 'order_id'])
    }
  })

  test('an order id is not zero', () => {
    expect(placed({ order_id: '00'.repeat(16) })).toEqual(['order_id_zero', 'order_id'])
  })

  test('a field element is below the modulus and not zero', () => {
    expect(placed({ collateral_commitment: BELOW })).toBe('fits')
    for (const commitment of [MODULUS, 'ff'.repeat(32), '00'.repeat(32)]) {
      expect(placed({ collateral_commitment: commitment })).toEqual([
        'field_element_invalid',
        'collateral_commitment',
      ])
    }
    expect(placed({ collateral_commitment: 'zz'.repeat(32) })).toEqual([
      'field_invalid',
      'collateral_commitment',
    ])
  })

  test('anchors are 1 to 16', () => {
    expect(placed({ continuation_anchors: Array.from({ length: 16 }, () => HASH) })).toBe('fits')
    for (const count of [0, 17]) {
      const continuation_anchors = Array.from({ length: count }, () => HASH)
      expect(placed({ continuation_anchors })).toEqual(['anchors_invalid', 'continuation_anchors'])
    }
    expect(placed({ continuation_anchors: [HASH, 'x'] })).toEqual([
      'field_invalid',
      'continuation_anchors[1]',
    ])
  })

  test('words come from closed lists', () => {
    expect(placed({ side: 'BUY' })).toEqual(['field_invalid', 'side'])
    expect(placed({ type: 'market' })).toEqual(['field_invalid', 'type'])
    expect(placed({ symbol: 'sol-usdc' })).toEqual(['field_invalid', 'symbol'])
  })
})

describe('several faults', () => {
  test('answer with the one that stands first in the order of checks', () => {
    const { nonce: _, ...without_nonce } = PLACE
    expect(faultOf(place, { ...without_nonce, amount: 5, extra: 1 })).toEqual(['field_unknown', 'body'])
    expect(faultOf(place, { ...without_nonce, amount: 5 })).toEqual(['field_missing', 'nonce'])
    expect(placed({ amount: 5, order_id: '00'.repeat(16) })).toEqual(['field_invalid', 'amount'])
  })

  test('an unknown field is never named, only what holds it', () => {
    const replacement = { ...PLACE, chosen_by_caller: 1 }
    expect(faultOf(formOf(ModifyRequest), { ...MODIFY, replacement })).toEqual([
      'field_unknown',
      'replacement',
    ])
  })

  test('nested fields are named with their path', () => {
    const replacement = { ...PLACE, opening: { mint: 'x', amount: '1', blinding: HASH } }
    expect(faultOf(formOf(ModifyRequest), { ...MODIFY, replacement })).toEqual([
      'field_invalid',
      'replacement.opening.mint',
    ])
  })

  test('a list of mass cancels is judged entry by entry', () => {
    const form = formOf(CancelAllBody)
    expect(faultOf(form, CANCEL)).toBe('fits')
    expect(faultOf(form, [CANCEL, { ...CANCEL, symbol: 'SOL-USDC' }])).toBe('fits')
    expect(faultOf(form, [CANCEL, { ...CANCEL, signature: 'x' }])).toEqual(['field_invalid', '[1].signature'])
    expect(faultOf(form, { ...CANCEL, cancel_nonce: 1 })).toEqual(['field_invalid', 'cancel_nonce'])
    expect(faultOf(form, [])).toEqual(['field_invalid', 'body'])
    expect(
      faultOf(
        form,
        Array.from({ length: 65 }, () => CANCEL),
      ),
    ).toEqual(['field_invalid', 'body'])
  })

  test('a reshape has 1 to 4 inputs and outputs', () => {
    const form = formOf(ReshapeRequest)
    expect(faultOf(form, RESHAPE)).toBe('fits')
    expect(faultOf(form, { ...RESHAPE, inputs: [] })).toEqual(['reshape_invalid', 'inputs'])
    expect(faultOf(form, { ...RESHAPE, amounts: ['1', '1', '1', '1', '1'] })).toEqual([
      'reshape_invalid',
      'amounts',
    ])
  })
})

test('page bounds take exactly 1 to their maximum', () => {
  for (const maximum of [500, 10_000]) {
    const form = formOf(QueryLimit(maximum, ''))
    for (let limit = 1; limit <= maximum; limit += 1) expect(form.fits(String(limit))).toBe(true)
    for (const limit of ['0', '01', '', '-1', '1e2', String(maximum + 1), String(maximum * 10)]) {
      expect(form.fits(limit)).toBe(false)
    }
  }
  const form = formOf(QueryInteger(''))
  expect(form.fits('9007199254740991')).toBe(true)
  expect(form.fits('9007199254740992')).toBe(false)
})
