/** The table of final orders against a plain map: what is found, in which order, and what a snapshot keeps. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { newAccount, type TradingKey } from '../../../engine/machine/state/account'
import { FinalOrders } from '../../../engine/machine/state/final_orders'
import { newList } from '../../../engine/memory/rows'
import { ByteReader, ByteWriter } from '../../../protocol/byte_stream'
import { concatBytes } from '../../../protocol/bytes'
import { FIXED_HASH_SEED, seeded } from '../../kit/venue/machine_world'

const keys: TradingKey[] = ['a', 'b', 'c'].map((text, index) => ({
  index,
  bytes: seeded(text),
  text,
  account: newAccount(`account ${text}`, seeded(text)),
  place_nonce: 0n,
  cancel_nonce: 0n,
  dead_man_slot: 0,
  orders: newList(),
}))
const idOf = (number: number) => seeded(`id ${number}`).slice(0, 16)
const REASONS = [undefined, 'by_owner', 'vault_frozen'] as const

function factsOf(number: number) {
  return {
    order_id: idOf(number).toHex(),
    key: number % 3,
    digest: seeded(`digest ${number}`).toHex(),
    status: (['filled', 'cancelled', 'expired'] as const)[number % 3]!,
    reason: REASONS[number % 3],
    arrival_slot: number,
    expiry_slot: 2 ** 40 + number,
    replaces: number % 5 === 0 ? idOf(number + 1_000_000).toHex() : undefined,
    seq: number * 2,
    final_unix_ms: 1_700_000_000_000 + number,
  }
}
function add(finals: FinalOrders, number: number): void {
  const { order_id, digest, replaces, ...facts } = factsOf(number)
  const ids = [order_id, digest, replaces ?? '00'.repeat(16)].map((hex) => Uint8Array.fromHex(hex))
  finals.add(concatBytes(...ids), { ...facts, replaces: replaces !== undefined })
}
function named({ key, ...facts }: ReturnType<typeof factsOf>) {
  return {
    ...facts,
    digest: Uint8Array.fromHex(facts.digest),
    account_id: keys[key]!.account.account_id,
    trading_key: keys[key]!.text,
  }
}
function encoded(finals: FinalOrders): Uint8Array {
  const to = new ByteWriter()
  for (const _ of finals.rows.encode(to));
  return to.done()
}

test('whatever is added and dropped, the rest is found as it was and comes oldest first', () => {
  const run = fc.record({ added: fc.nat(1_500), dropped: fc.nat(1_500) })
  fc.assert(
    fc.property(fc.array(run, { minLength: 1, maxLength: 12 }), (runs) => {
      const finals = new FinalOrders(keys, FIXED_HASH_SEED)
      let [first, next] = [0, 0]
      for (const { added, dropped } of runs) {
        for (let at = 0; at < added; at++) add(finals, next++)
        first = Math.min(next, first + dropped)
        finals.rows.dropBefore(first)
        expect(finals.rows).toMatchObject({ first, size: next })
      }
      for (let number = Math.max(0, first - 50); number < next; number++) {
        const expected = number < first ? undefined : named(factsOf(number))
        expect(finals.find(idOf(number))).toEqual(expected)
      }
      for (let number = first; number < next; number++)
        expect(finals.read(finals.rows.at(number))).toEqual(named(factsOf(number)))
      // Bytes depend on what is held alone, not on what was before.
      const restored = new FinalOrders(keys, FIXED_HASH_SEED)
      restored.rows.decode(new ByteReader(encoded(finals)))
      expect(encoded(restored)).toEqual(encoded(finals))
      if (first < next) expect(restored.find(idOf(next - 1))).toEqual(named(factsOf(next - 1)))
    }),
    { numRuns: 8 },
  )
})
