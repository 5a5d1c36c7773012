/** Values on the wire: the forms that are parsed or rejected, with the field named (protocol.md "Values on the wire"). */
import { describe, expect, test } from 'bun:test'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import fc from 'fast-check'
import { decodeBase58 } from '../../../protocol/base58'
import { fromHex } from '../../../protocol/bytes'
import { FIELD_MODULUS } from '../../../protocol/notes/poseidon'
import { Refusal } from '../../../protocol/refusals'
import {
  CancelAllBody,
  ModifyRequest,
  PlaceRequest,
  ReshapeRequest,
  WithdrawalRequest,
} from '../../../protocol/wire/trading'
import * as values from '../../../protocol/wire/values'
import { parserOf } from '../../../protocol/wire/values'
import {
  CANCEL,
  HASH,
  KEY,
  MODIFY,
  ORDER_ID,
  PLACE,
  RESHAPE,
  SIGNATURE,
  WITHDRAWAL,
} from '../../routes/bodies'

const { QueryInteger } = values

function faultOf(parse: (value: unknown) => unknown, value: unknown): [string, string | undefined] | 'fits' {
  try {
    parse(value)
    return 'fits'
  } catch (fault) {
    if (!(fault instanceof Refusal)) throw fault
    return [fault.code, fault.facts.field]
  }
}
const place = parserOf(PlaceRequest)
const placed = (change: Record<string, unknown>) => faultOf(place, { ...PLACE, ...change })
const MODULUS = FIELD_MODULUS.toString(16).padStart(64, '0')
const BELOW = (FIELD_MODULUS - 1n).toString(16).padStart(64, '0')
const hash = fromHex(HASH, 32)!
/** A field element per index, all different. */
const element = (at: number) => (at + 1).toString(16).padStart(64, '0')

describe('a place body', () => {
  const opening = { mint: KEY, amount: '7', blinding: HASH }
  const parsed = {
    order_id: fromHex(ORDER_ID, 16)!,
    trading_key: decodeBase58(KEY, 32)!,
    symbol: 'SOL-USDC',
    side: 'buy',
    type: 'limit',
    amount: 1_000_000_000n,
    price_limit: 150_000_000n,
    min_fill: undefined,
    expiry_slot: 1000,
    nonce: 1n,
    collateral_commitment: hash,
    continuation_anchors: [hash],
    opening: undefined,
    signature: fromHex(SIGNATURE, 64)!,
  }

  test('becomes bytes and integers; optional fields that are absent are undefined', () => {
    expect(place(PLACE)).toStrictEqual(parsed as never)
    expect(place({ ...PLACE, min_fill: '5', opening: { ...opening, leaf_index: 3 } })).toStrictEqual({
      ...parsed,
      min_fill: 5n,
      opening: { mint: decodeBase58(KEY, 32)!, amount: 7n, blinding: hash, leaf_index: 3 },
    } as never)
  })

  test('is walked once: each of its fields is read one time', () => {
    const reads: string[] = []
    const counted = <T extends object>(value: T, at: string): T =>
      new Proxy(value, {
        get(target, name) {
          const read = Reflect.get(target, name)
          if (typeof name !== 'string' || !Object.hasOwn(target, name) || name === 'length') return read
          reads.push(`${at}${name}`)
          return typeof read === 'object' ? counted(read as object, `${at}${name}.`) : read
        },
      })
    place(counted({ ...PLACE, min_fill: '5', opening }, ''))
    const fields = [...Object.keys(PLACE), 'min_fill', 'opening', 'continuation_anchors.0']
    const inner = Object.keys(opening).map((name) => `opening.${name}`)
    expect(reads.sort()).toEqual([...fields, ...inner].sort())
  })
})

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

  test('the amount of a withdrawal begins at 1', () => {
    const parse = parserOf(WithdrawalRequest)
    expect(faultOf(parse, WITHDRAWAL)).toBe('fits')
    expect(faultOf(parse, { ...WITHDRAWAL, amount: '0' })).toEqual(['field_invalid', 'amount'])
  })

  test('nonces begin at 1', () => {
    expect(placed({ nonce: '1' })).toBe('fits')
    expect(placed({ nonce: '0' })).toEqual(['field_invalid', 'nonce'])
  })

  test('slots are JSON integers up to 2^53-1', () => {
    expect(placed({ expiry_slot: Number.MAX_SAFE_INTEGER })).toBe('fits')
    for (const expiry_slot of ['5', 1.5, -1, -0, 2 ** 53, null]) {
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
    const anchors = (length: number) => Array.from({ length }, (_, at) => element(at))
    expect(placed({ continuation_anchors: anchors(16) })).toBe('fits')
    for (const count of [0, 17]) {
      const continuation_anchors = anchors(count)
      expect(placed({ continuation_anchors })).toEqual(['anchors_invalid', 'continuation_anchors'])
    }
    expect(placed({ continuation_anchors: [HASH, 'x'] })).toEqual([
      'field_invalid',
      'continuation_anchors[1]',
    ])
  })

  test('anchors are distinct, non-zero field elements', () => {
    for (const anchor of [HASH, MODULUS, '00'.repeat(32)]) {
      const continuation_anchors = [HASH, anchor]
      expect(placed({ continuation_anchors })).toEqual(['anchors_invalid', 'continuation_anchors'])
    }
  })

  test('a key is the one base58 text of 32 bytes', () => {
    for (const trading_key of [`1${KEY}`, KEY.slice(1), 'l'.repeat(43), 'z'.repeat(44), '1'.repeat(31), 5]) {
      expect(placed({ trading_key })).toEqual(['field_invalid', 'trading_key'])
    }
  })

  test('words come from closed lists', () => {
    expect(placed({ side: 'BUY' })).toEqual(['field_invalid', 'side'])
    expect(placed({ type: 'market' })).toEqual(['field_invalid', 'type'])
    expect(placed({ symbol: 'sol-usdc' })).toEqual(['field_invalid', 'symbol'])
  })
})

describe('several faults', () => {
  test('answer with the first in the order of checks', () => {
    const { nonce: _, ...without_nonce } = PLACE
    expect(faultOf(place, { ...without_nonce, amount: 5, extra: 1 })).toEqual(['field_unknown', 'body'])
    expect(faultOf(place, { ...without_nonce, amount: 5 })).toEqual(['field_missing', 'nonce'])
    expect(placed({ amount: 5, order_id: '00'.repeat(16) })).toEqual(['field_invalid', 'amount'])
  })

  test('an unknown field is never named, only its parent', () => {
    const replacement = { ...PLACE, chosen_by_caller: 1 }
    expect(faultOf(parserOf(ModifyRequest), { ...MODIFY, replacement })).toEqual([
      'field_unknown',
      'replacement',
    ])
  })

  test('an unknown key of a query is named, and only one with the form of a name', () => {
    const query = parserOf(values.exact({ limit: QueryInteger('Rows.') }), 'query')
    expect(faultOf(query, { limit: '1', chosen: '1' })).toEqual(['field_unknown', 'chosen'])
    expect(faultOf(query, { limit: '1', '<b>': '1' })).toEqual(['field_unknown', 'query'])
    expect(faultOf(query, { '<b>': '1', chosen: '1' })).toEqual(['field_unknown', 'chosen'])
  })

  test('nested fields are named with their path', () => {
    const replacement = { ...PLACE, opening: { mint: 'x', amount: '1', blinding: HASH } }
    expect(faultOf(parserOf(ModifyRequest), { ...MODIFY, replacement })).toEqual([
      'field_invalid',
      'replacement.opening.mint',
    ])
  })

  test('a list of mass cancels is judged entry by entry', () => {
    const form = parserOf(CancelAllBody)
    expect(faultOf(form, CANCEL)).toBe('fits')
    expect(faultOf(form, [CANCEL, { ...CANCEL, symbol: 'SOL-USDC' }])).toBe('fits')
    expect(faultOf(form, [CANCEL, { ...CANCEL, signature: 'x' }])).toEqual(['field_invalid', '[1].signature'])
    expect(faultOf(form, { ...CANCEL, cancel_nonce: 1 })).toEqual(['field_invalid', 'cancel_nonce'])
    expect(faultOf(form, [{ ...CANCEL, trading_key: 'x' }])).toEqual(['field_invalid', '[0].trading_key'])
    expect(faultOf(form, [])).toEqual(['field_invalid', 'body'])
    expect(faultOf(form, 'x')).toEqual(['field_invalid', 'body'])
    expect(
      faultOf(
        form,
        Array.from({ length: 65 }, () => CANCEL),
      ),
    ).toEqual(['field_invalid', 'body'])
  })

  test('a reshape has 1 to 4 inputs and outputs', () => {
    const form = parserOf(ReshapeRequest)
    expect(faultOf(form, RESHAPE)).toBe('fits')
    expect(faultOf(form, { ...RESHAPE, inputs: [] })).toEqual(['reshape_invalid', 'inputs'])
    expect(faultOf(form, { ...RESHAPE, amounts: ['1', '1', '1', '1', '1'] })).toEqual([
      'reshape_invalid',
      'amounts',
    ])
    expect(faultOf(form, { ...RESHAPE, amounts: ['1', '0'] })).toEqual(['reshape_invalid', 'amounts'])
    for (const inputs of [
      [element(1), element(0)],
      [HASH, HASH],
    ]) {
      expect(faultOf(form, { ...RESHAPE, inputs })).toEqual(['reshape_invalid', 'inputs'])
    }
    const openings = [{ mint: KEY, amount: '1', blinding: 'x' }]
    expect(faultOf(form, { ...RESHAPE, openings })).toEqual(['field_invalid', 'openings[0]'])
  })

  test('missing fields of an object come before those of the objects in it', () => {
    const { signature: _, ...unsigned } = PLACE
    expect(faultOf(place, { ...unsigned, opening: {} })).toEqual(['field_missing', 'signature'])
    expect(placed({ opening: {} })).toEqual(['field_missing', 'opening.mint'])
  })
})

test('page bounds take exactly 1 to their maximum', () => {
  for (const maximum of [500, 10_000]) {
    const parse = parserOf(QueryInteger('', 1, maximum))
    for (let limit = 1; limit <= maximum; limit += 1) expect(parse(String(limit))).toBe(limit)
    for (const limit of ['0', '01', '', '-1', '1e2', String(maximum + 1), String(maximum * 10)]) {
      expect(faultOf(parse, limit)).toEqual(['field_invalid', 'body'])
    }
  }
  const parse = parserOf(QueryInteger(''))
  expect(parse('9007199254740991')).toBe(9_007_199_254_740_991)
  expect(faultOf(parse, '9007199254740992')).toEqual(['field_invalid', 'body'])
})

describe('the parser and the document agree', () => {
  const digit = fc.constantFrom(...'0123456789abcdefFzl1-O')
  const near = (text: string) =>
    fc.tuple(fc.nat(text.length), digit, fc.nat(2)).map(([at, other, removed]) => {
      return text.slice(0, at) + other + text.slice(at + removed)
    })
  const texts = [KEY, HASH, ORDER_ID, SIGNATURE, MODULUS, BELOW, '00'.repeat(16), '18446744073709551615', '0']
  const any = fc.oneof(fc.constantFrom(...texts), ...texts.map(near), fc.string())
  const { U64, PositiveU64, Nonce, OrderId, CommandId, Hash, Signature, SymbolName } = values
  const exact = { U64, PositiveU64, Nonce, OrderId, CommandId, Hash, Signature, SymbolName }
  const { PublicKey, Address, TransactionSignature } = values

  for (const [name, schema] of Object.entries(exact)) {
    test(`on every text as ${name}`, () => {
      const document = TypeCompiler.Compile<values.TSchema>(schema)
      const parse = parserOf<values.TSchema>(schema)
      fc.assert(
        fc.property(any, (text) => (faultOf(parse, text) === 'fits') === document.Check(text)),
        { numRuns: 2_000 },
      )
    })
  }
  for (const [name, schema] of Object.entries({ PublicKey, Address, TransactionSignature })) {
    test(`on every ${name} that is parsed; the document cannot state the width in bytes`, () => {
      const document = TypeCompiler.Compile<values.TSchema>(schema)
      const parse = parserOf<values.TSchema>(schema)
      fc.assert(
        fc.property(any, (text) => faultOf(parse, text) !== 'fits' || document.Check(text)),
        { numRuns: 2_000 },
      )
    })
  }
})
