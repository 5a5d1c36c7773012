/** Receipts of a group are rebuilt as they were made. */
import { expect, test } from 'bun:test'
import { receiptOf, receiptsOf, receiptTreeOf } from '../../../engine/sequencer/receipts'

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
