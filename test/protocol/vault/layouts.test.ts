/** Decoders accept exactly what encoders and program write, and nothing longer, shorter or foreign. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  ACCOUNT_BYTES,
  ACCOUNT_KIND,
  decodeConfig,
  decodeEscapeRecord,
  decodeExitRequest,
  decodeMintRecord,
  decodeRing,
  decodeTree,
} from '../../../protocol/vault/accounts'
import { decodeDeposit } from '../../../protocol/vault/deposit'
import { decodeAnchor, decodeOpenEpoch } from '../../../protocol/vault/epochs'
import { decodeEvent, EVENT_KIND } from '../../../protocol/vault/events'
import { instructionName } from '../../../protocol/vault/instruction'
import { LayoutWriter } from '../../../protocol/vault/layout'
import { decodeSettleData, encodeSettleData, type SettleData } from '../../../protocol/vault/settle'

const bytes = (size: number) => fc.uint8Array({ minLength: size, maxLength: size })
const count = fc.nat()

const settle: fc.Arbitrary<SettleData> = fc.record({
  epoch: count,
  batch: count,
  cited_leaf_count: count,
  cited_root: bytes(32),
  spent_root: bytes(32),
  journal_seq: count,
  journal_head: bytes(32),
  payout_mints: fc.nat({ max: 8 }),
  nullifiers: fc.array(bytes(32), { maxLength: 5 }),
  outputs: fc.array(fc.record({ commitment: bytes(32), memo: bytes(16) }), { maxLength: 5 }),
  payouts: fc.array(
    fc.record({
      kind: fc.constantFrom('withdrawal' as const, 'exit' as const),
      mint: fc.nat({ max: 7 }),
      nullifier: fc.nat({ max: 95 }),
      amount: fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
      inner: bytes(32),
    }),
    { maxLength: 3 },
  ),
})

test('settle data comes back as it went in, and a byte more or less makes it foreign', () => {
  fc.assert(
    fc.property(settle, (fields) => {
      const data = encodeSettleData(fields)
      expect(decodeSettleData(data)).toEqual(fields)
      expect(decodeSettleData(data.slice(0, -1))).toBeUndefined()
      expect(decodeSettleData(Uint8Array.of(...data, 0))).toBeUndefined()
    }),
    { numRuns: 50 },
  )
})

test('every account decoder knows its kind, version and size only', () => {
  const decoders = {
    config: decodeConfig,
    tree: decodeTree,
    ring: decodeRing,
    mint_record: decodeMintRecord,
    exit_request: decodeExitRequest,
    escape_record: decodeEscapeRecord,
  } as const
  for (const [name, decode] of Object.entries(decoders)) {
    const kind = name as keyof typeof ACCOUNT_KIND
    const data = new Uint8Array(ACCOUNT_BYTES[kind])
    expect(decode(data)).toBeUndefined()
    data[0] = ACCOUNT_KIND[kind]
    data[1] = 1
    expect(decode(data)).toBeDefined()
    expect(decode(data.slice(1))).toBeUndefined()
    expect(decode(Uint8Array.of(...data, 0))).toBeUndefined()
    data[1] = 2
    expect(decode(data)).toBeUndefined()
  }
})

test('random bytes are no event, account or instruction, and no decoder throws', () => {
  const decoders = [decodeEvent, decodeSettleData, decodeDeposit, decodeOpenEpoch, decodeAnchor, decodeRing]
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (data) => {
      for (const decode of decoders) expect(() => decode(data)).not.toThrow()
    }),
  )
  for (const kind of Object.values(EVENT_KIND)) {
    expect(decodeEvent(Uint8Array.of(255, kind))).toBeUndefined()
    expect(decodeEvent(Uint8Array.of(254, kind, ...new Uint8Array(300)))).toBeUndefined()
    expect(decodeEvent(Uint8Array.of(255, kind, ...new Uint8Array(3_000)))).toBeUndefined()
  }
})

test('a counter beyond what JavaScript holds exactly makes data foreign instead of wrong', () => {
  const data = new LayoutWriter(49)
    .u8(5)
    .u64(1n << 60n)
    .u64(1)
    .zeros(32)
    .finish()
  expect(decodeAnchor(data)).toBeUndefined()
})

test('data names its instruction by the first byte', () => {
  expect(instructionName(Uint8Array.of(4, 1))).toBe('settle')
  expect(instructionName(Uint8Array.of(99))).toBeUndefined()
  expect(instructionName(new Uint8Array())).toBeUndefined()
})
