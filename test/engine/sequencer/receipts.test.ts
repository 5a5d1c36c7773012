/** The receipt tree of a group. */
import { expect, test } from 'bun:test'
import { receiptOf, receiptsOf, receiptTree } from '../../../engine/sequencer/receipts'
import { receiptPath, receiptRoot } from '../../../protocol/bodies/receipt'
import { toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'

test('root and paths of every leaf equal those of RFC 6962 for any group size', () => {
  for (let count = 1; count <= 70; count++) {
    const leaves = Array.from({ length: count }, (_, at) => sha256(Uint8Array.of(count, at)))
    const { root, paths } = receiptTree(leaves)
    expect(toHex(root)).toBe(toHex(receiptRoot(leaves)))
    paths.forEach((path, at) => {
      expect(path).toEqual(receiptPath(leaves, at).map(toHex))
    })
  }
})

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
