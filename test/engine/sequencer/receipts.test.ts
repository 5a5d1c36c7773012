/** Receipts of a group are rebuilt as they were made. */
import { expect, test } from 'bun:test'
import { receiptOf, receiptsOf } from '../../../engine/sequencer/receipts'
import { sha256 } from '../../../protocol/sha256'

test('a receipt that is made again is the one that was given', () => {
  const signer = { venue: new Uint8Array(32), epoch: 3, sign: (body: Uint8Array) => sha256(body, body) }
  for (const count of [1, 2, 3, 8, 27]) {
    const bodies = Array.from({ length: count }, (_, at) => Uint8Array.of(count, at))
    const { group, receipts } = receiptsOf(signer, { seq_last: 9, head: new Uint8Array(32) }, bodies)!
    expect(receipts).toHaveLength(count)
    receipts.forEach((receipt, index) => {
      expect(receiptOf(group, index)).toEqual(receipt)
    })
  }
})
