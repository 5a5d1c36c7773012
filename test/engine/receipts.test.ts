/** The receipt tree of a group. */
import { expect, test } from 'bun:test'
import { receiptTree } from '../../engine/loop/receipts'
import { toHex } from '../../protocol/bytes'
import { receiptPath, receiptRoot } from '../../protocol/receipt'
import { sha256 } from '../../protocol/sha256'

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
