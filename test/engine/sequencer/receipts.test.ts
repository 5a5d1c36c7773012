/** Receipts of a group are rebuilt as they were made, and the newest commands find theirs with colliding ids. */
import { expect, test } from 'bun:test'
import { LIMITS } from '../../../engine/limits'
import {
  ReceiptCache,
  type ReceiptGroup,
  receiptOf,
  receiptsOf,
  receiptTreeOf,
} from '../../../engine/sequencer/receipts'
import { sha256 } from '../../../protocol/sha256'
import { FIXED_HASH_SEED } from '../../kit/venue/machine_world'

test('a receipt that is made again is the one that was given', () => {
  const appended = { seq_last: 9, head: new Uint8Array(32), signature: new Uint8Array(64).fill(1) }
  for (const count of [1, 2, 3, 8, 27]) {
    const bodies = Array.from({ length: count }, (_, at) => Uint8Array.of(count, at))
    const { group, receipts } = receiptsOf(3, appended, receiptTreeOf(bodies))
    expect(receipts).toHaveLength(count)
    receipts.forEach((receipt, index) => {
      expect(receiptOf(group, index)).toEqual(receipt)
    })
  }
})

const idOf = (serial: number) => sha256(new Uint8Array(new Uint32Array([serial]).buffer)).slice(0, 16)

function groupOf(seq: number, size: number): ReceiptGroup {
  const leaves = new Uint8Array(32 * size)
  for (let at = 0; at < size; at++) leaves.set(sha256(Uint8Array.of(seq, seq >> 8, seq >> 16, at)), 32 * at)
  return { common: { epoch: 1, seq, head: `head ${seq}`, root: `root ${seq}`, signature: `${seq}` }, leaves }
}

test.each([1, 3, 40])(
  'the newest commands find their receipts in groups of up to %i, others none',
  (size) => {
    const cache = new ReceiptCache(FIXED_HASH_SEED)
    const all: { group: ReceiptGroup; index: number }[] = []
    const commands = LIMITS.receipts_kept_max + 3_000
    for (let seq = 1; all.length < commands; seq++) {
      const group = groupOf(seq, 1 + (seq % size))
      // Not every command of a group makes something that is found by an id.
      for (let index = seq % 2; index < group.leaves.length / 32; index++) {
        cache.set(idOf(all.length), group, index)
        all.push({ group, index })
      }
    }
    const oldest = all.length - LIMITS.receipts_kept_max
    for (let serial = 0; serial < oldest; serial++) expect(cache.get(idOf(serial))).toBeUndefined()
    for (let serial = oldest; serial < all.length; serial += 97) {
      const { group, index } = all[serial]!
      expect(cache.get(idOf(serial))).toEqual(receiptOf(group, index))
    }
    expect(cache.get(idOf(oldest))).toBeDefined()
    expect(cache.get(idOf(all.length - 1))).toEqual(receiptOf(all.at(-1)!.group, all.at(-1)!.index))
  },
)

test('an id that is made twice finds the newer command, also once the older one has gone', () => {
  const cache = new ReceiptCache(FIXED_HASH_SEED)
  const [first, second] = [groupOf(1, 2), groupOf(2, 2)]
  cache.set(idOf(0), first, 0)
  cache.set(idOf(1), first, 1)
  cache.set(idOf(0), second, 1)
  expect(cache.get(idOf(0))).toEqual(receiptOf(second, 1))
  const rest = groupOf(3, 1)
  for (let serial = 2; serial <= LIMITS.receipts_kept_max; serial++) cache.set(idOf(serial), rest, 0)
  expect(cache.get(idOf(0))).toEqual(receiptOf(second, 1))
  expect(cache.get(idOf(1))).toBeUndefined()
  cache.set(idOf(LIMITS.receipts_kept_max + 1), rest, 0)
  expect(cache.get(idOf(0))).toBeUndefined()
})
