/** Venue id, notes, trees, derivation and the log of machines equal the vectors; paths and heads prove their statements. */

import { describe, expect, test } from 'bun:test'
import {
  decodeLocation,
  decodeLogHead,
  encodeLocation,
  encodeLogHead,
  LOCATION_BYTES,
  LOG_HEAD_BYTES,
  type LocationBody,
  venueId,
} from '../../protocol/bodies/statements'
import { anchorPoolHash } from '../../protocol/bodies/trading'
import { CodecError } from '../../protocol/byte_stream'
import { concatBytes, fromAnyHex, fromHex, toHex } from '../../protocol/bytes'
import { TREE_DEPTH } from '../../protocol/limits'
import {
  deriveAnchor,
  deriveDepositBlinding,
  deriveOrderId,
  deriveTradingKey,
} from '../../protocol/notes/derive'
import {
  EMPTY_SPENT_SUBTREES,
  EMPTY_SUBTREES,
  MerkleTree,
  SPENT_LOG_DEPTH,
  SpentLog,
  spentLogLeaf,
} from '../../protocol/notes/merkle_tree'
import {
  decodeMemo,
  depositCommitment,
  encodeMemo,
  noteInner,
  nullifierOf,
  openingCommitment,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import { FIELD_MODULUS, fieldToBytes, isFieldElement, poseidonOf } from '../../protocol/notes/poseidon'
import { extendsTree, isInReceipt, isInTree, receiptTree, treeLeaf } from '../../protocol/rfc6962_tree'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import { rootFromPath, spentRootFromPath } from '../kit/root_from_path'
import { consistencyOf, leafOf, pathOf, rootOf } from '../kit/verify/pinned_venue'
import anchor_vector from '../vectors/anchors.json'
import note_vector from '../vectors/notes.json'
import receipt_vector from '../vectors/receipt_tree.json'
import tree_vector from '../vectors/trees.json'
import venue_vector from '../vectors/venue.json'
import wallet_vector from '../vectors/wallet.json'

const b = (hex: string) => fromHex(hex, hex.length / 2)!

describe('note tree', () => {
  const leaves = tree_vector.note_tree.leaves.map(b)

  test('the root after each append equals its vector', () => {
    const tree = new MerkleTree()
    expect(tree.root()).toEqual(EMPTY_SUBTREES[TREE_DEPTH]!)
    leaves.forEach((leaf, at) => {
      tree.append([leaf])
      expect(toHex(tree.root())).toBe(tree_vector.note_tree.roots[at]!)
    })
    expect(tree.siblings(2).map(toHex)).toEqual(tree_vector.note_tree.siblings_of_leaf_2)
  })

  test('appending at once equals appending one by one, and every path leads to the root', () => {
    const tree = new MerkleTree()
    tree.append(leaves)
    expect(toHex(tree.root())).toBe(tree_vector.note_tree.roots.at(-1)!)
    leaves.forEach((leaf, index) => {
      expect(rootFromPath(leaf, index, tree.siblings(index))).toEqual(tree.root())
      expect(rootFromPath(leaf, index + 1, tree.siblings(index))).not.toEqual(tree.root())
    })
  })

  test('a tree that skips levels has the same roots and paths, also once leaves are removed', () => {
    const element = (n: number) => fieldToBytes(BigInt(n + 1))
    const [whole, sparse] = [new MerkleTree(), new MerkleTree(undefined, 2)]
    let count = 0
    for (const more of [1, 1, 1, 6, 3, 1, 20, 1_030, 5]) {
      const fresh = Array.from({ length: more }, (_, at) => element(count + at))
      for (const tree of [whole, sparse]) tree.append(fresh)
      count += more
      expect(sparse.root()).toEqual(whole.root())
      for (const index of [0, count >> 1, count - 1])
        expect(sparse.siblings(index)).toEqual(whole.siblings(index))
    }
    for (const left of [1_030, 1_024, 1_023, 33, 1, 0]) {
      for (const tree of [whole, sparse]) tree.truncate(left)
      const fresh = new MerkleTree()
      fresh.append(Array.from({ length: left }, (_, at) => element(at)))
      expect([whole.root(), sparse.root()]).toEqual([fresh.root(), fresh.root()])
      if (left > 0) expect(sparse.siblings(left - 1)).toEqual(fresh.siblings(left - 1))
      for (const tree of [whole, sparse, fresh]) tree.append([element(9_999), element(9_998)])
      expect([whole.root(), sparse.root()]).toEqual([fresh.root(), fresh.root()])
    }
  })

  test('an index without a leaf is refused', () => {
    const tree = new MerkleTree()
    expect(() => tree.siblings(0)).toThrow(RangeError)
  })
})

describe('spent log', () => {
  const { batches, leaves, roots, empty_root, siblings_of_batch_2 } = tree_vector.spent_log
  const logOf = (count: number): SpentLog => {
    const log = new SpentLog()
    log.append(leaves.slice(0, count).map(b))
    return log
  }

  test('leaves and roots equal their vectors, batch by batch, an empty batch too', () => {
    expect(toHex(new SpentLog().root())).toBe(empty_root)
    expect(toHex(EMPTY_SPENT_SUBTREES[SPENT_LOG_DEPTH]!)).toBe(empty_root)
    batches.forEach((batch, at) => {
      expect(toHex(spentLogLeaf(at + 1, batch.map(b)))).toBe(leaves[at]!)
      expect(toHex(logOf(at + 1).root())).toBe(roots[at]!)
    })
    expect(logOf(batches.length).siblings(1).map(toHex)).toEqual(siblings_of_batch_2)
  })

  test('for every size and batch the path proves its own leaf and place only', () => {
    const log = new SpentLog()
    const leafOf = (at: number) => spentLogLeaf(at + 1, [])
    const roots = [log.root()]
    for (let size = 1; size <= 17; size++) {
      log.append([leafOf(size - 1)])
      expect(log.leaf_count).toBe(size)
      roots.push(log.root())
      for (let index = 0; index < size; index++) {
        const path = log.siblings(index)
        expect(spentRootFromPath(leafOf(index), index, path)).toEqual(log.root())
        expect(spentRootFromPath(leafOf(index + 1), index, path)).not.toEqual(log.root())
        expect(spentRootFromPath(leafOf(index), index + 1, path)).not.toEqual(log.root())
        for (let then = index + 1; then <= size; then++) {
          const root = spentRootFromPath(leafOf(index), index, log.siblings(index, then))
          expect(root).toEqual(log.root(then))
          expect(root).toEqual(roots[then]!)
        }
      }
    }
  })

  test('a batch that is not there and a path of another length are refused', () => {
    const log = logOf(2)
    for (const index of [-1, 2, 0.5]) expect(() => log.siblings(index)).toThrow(RangeError)
    expect(() => spentRootFromPath(b(leaves[0]!), 0, log.siblings(0).slice(1))).toThrow(RangeError)
  })
})

/** The recursive definition of RFC 6962 section 2.1: hash of the leaves, and the audit path of one. */
function reference(leaves: Uint8Array[], index = 0): { root: Uint8Array; path: string[] } {
  if (leaves.length === 1) return { root: leaves[0]!, path: [] }
  const left_size = 2 ** Math.floor(Math.log2(leaves.length - 1))
  const is_left = index < left_size
  const left = reference(leaves.slice(0, left_size), is_left ? index : 0)
  const right = reference(leaves.slice(left_size), is_left ? 0 : index - left_size)
  const [own, other] = is_left ? [left, right] : [right, left]
  return { root: sha256(Uint8Array.of(1), left.root, right.root), path: [...own.path, toHex(other.root)] }
}

describe('receipt tree', () => {
  test('root and paths equal their vectors', () => {
    const leaves = receipt_vector.commands.map((command) => treeLeaf(b(command)))
    const { root, paths } = receiptTree(leaves)
    expect({ root: toHex(root), paths }).toEqual({ root: receipt_vector.root, paths: receipt_vector.paths })
  })

  test('for every size and index root and path are those of RFC 6962 and prove their own command and no other', () => {
    for (let size = 1; size <= 70; size++) {
      const leaves = Array.from({ length: size }, (_, at) => treeLeaf(Uint8Array.of(size, at)))
      const { root, paths } = receiptTree(leaves)
      leaves.forEach((leaf, index) => {
        expect({ root, path: paths[index]! }).toEqual(reference(leaves, index))
        const path = paths[index]!.map(b)
        expect(isInReceipt(leaf, index, path, root)).toBe(true)
        expect(isInReceipt(treeLeaf(Uint8Array.of(99)), index, path, root)).toBe(false)
        if (path.length > 0) expect(isInReceipt(leaf, index, path.slice(1), root)).toBe(false)
        expect(isInReceipt(leaf, index, [...path, root], root)).toBe(false)
      })
    }
  })

  /** A path of random nodes with its root: the sides of leaf `index` of `size` (RFC 9162 section 2.1.3.2). */
  const climbed = (leaf: Uint8Array, index: bigint, size: bigint) => {
    let [root, node, last] = [leaf, index, size - 1n]
    const path: Uint8Array[] = []
    for (; last > 0n; node /= 2n, last /= 2n) {
      if (node % 2n === 0n && node === last) continue
      const sibling = crypto.getRandomValues(new Uint8Array(32))
      path.push(sibling)
      root = sha256(Uint8Array.of(1), ...(node % 2n === 1n ? [sibling, root] : [root, sibling]))
    }
    return { path, root }
  }

  test('every index of a group of up to 2^32 commands has its sides, and no other number has them', () => {
    const leaf = treeLeaf(Uint8Array.of(1))
    const sizes = [2n, 3n, 1_000n, 2n ** 20n + 1n, 2n ** 31n, 2n ** 32n - 1n, 2n ** 32n]
    for (const size of sizes)
      for (const index of [0n, 1n, size / 3n, (size / 2n) & ~1n, size - 2n, size - 1n]) {
        const { path, root } = climbed(leaf, index, size)
        expect([size, index, isInReceipt(leaf, Number(index), path, root)]).toEqual([size, index, true])
        for (const other of [-1, 0.5, Number.NaN, Number(index) + 2 ** 32, Number(index) + 2 ** 33])
          expect([size, other, isInReceipt(leaf, other, path, root)]).toEqual([size, other, false])
      }
  })

  test('a path for more than 2^32 commands is none', () => {
    const leaf = treeLeaf(Uint8Array.of(1))
    for (const index of [0n, 5n, 2n ** 32n - 1n]) {
      const { path, root } = climbed(leaf, index, 2n ** 32n + 1n)
      expect(path.length).toBe(33)
      expect(isInReceipt(leaf, Number(index), path, root)).toBe(false)
    }
  })
})

describe('hashes', () => {
  // Values of the sol_poseidon syscall, which the vault program calls.
  test('poseidon equals the syscall', () => {
    expect(toHex(poseidonOf(1n, 2n))).toBe('115cc0f5e7d690413df64c6b9662e9cf2a3617f2743245519e19607a4417189a')
    expect(() => poseidonOf()).toThrow(RangeError)
    expect(() => poseidonOf(1n, 2n, 3n, 4n, 5n, 6n)).toThrow(RangeError)
  })

  test('the venue id binds cluster, program, config and generation', () => {
    const parts = {
      genesis_hash: b(venue_vector.genesis_hash),
      program_id: b(venue_vector.program_id),
      config_account: b(venue_vector.config_account),
      generation: venue_vector.generation,
    }
    expect(toHex(venueId(parts))).toBe(venue_vector.venue)
    expect(toHex(venueId({ ...parts, generation: 4 }))).not.toBe(venue_vector.venue)
  })

  test('the anchor pool hash covers the anchors in order', () => {
    const anchors = anchor_vector.anchors.map(b)
    expect(toHex(anchorPoolHash(anchors))).toBe(anchor_vector.pool_hash)
    expect(toHex(anchorPoolHash([...anchors].reverse()))).not.toBe(anchor_vector.pool_hash)
  })

  test('field elements end below the modulus', () => {
    const modulus = b(FIELD_MODULUS.toString(16).padStart(64, '0'))
    expect(isFieldElement(modulus)).toBe(false)
    expect(isFieldElement(fieldToBytes(FIELD_MODULUS - 1n))).toBe(true)
    expect(() => fieldToBytes(FIELD_MODULUS)).toThrow(RangeError)
  })

  test('notes: inner, both commitments, nullifier and blindings equal their vectors', () => {
    const { owner, mint, blinding, leaf_index } = note_vector
    const amount = BigInt(note_vector.amount)
    const inner = noteInner(b(owner), b(blinding))
    const commitment = settlementCommitment({ mint: b(mint), amount, inner })
    expect(toHex(inner)).toBe(note_vector.inner)
    expect(toHex(commitment)).toBe(note_vector.settlement_commitment)
    expect(toHex(depositCommitment({ mint: b(mint), amount, inner, leaf_index }))).toBe(
      note_vector.deposit_commitment,
    )
    const opening = { owner: b(owner), mint: b(mint), amount, blinding: b(blinding) }
    expect(toHex(openingCommitment(opening))).toBe(note_vector.settlement_commitment)
    expect(toHex(openingCommitment({ ...opening, leaf_index }))).toBe(note_vector.deposit_commitment)
    expect(toHex(nullifierOf(commitment, b(blinding)))).toBe(note_vector.nullifier)
    const output = note_vector.output_blinding
    const parts = {
      ...output,
      anchor: b(output.anchor),
      order_id: b(output.order_id),
      nonce: BigInt(output.nonce),
    }
    expect(toHex(outputBlinding(parts))).toBe(output.blinding)
    const fee = note_vector.fee_blinding
    const place = { order_id: new Uint8Array(16), nonce: BigInt(fee.day), index_role: 2 * fee.mint_index }
    const { generation } = fee
    expect(toHex(outputBlinding({ anchor: b(fee.fee_anchor), generation, ...place }))).toBe(fee.blinding)
  })

  test('a memo opens with its blinding only', () => {
    const blinding = b(note_vector.blinding)
    const memo = encodeMemo(blinding, BigInt(note_vector.amount))
    expect(toHex(memo)).toBe(note_vector.memo)
    expect(decodeMemo(memo, blinding)).toBe(BigInt(note_vector.amount))
    expect(decodeMemo(memo, b(note_vector.inner))).toBeUndefined()
  })

  test('a wallet derives the same keys, blindings, anchors and ids from its seed', () => {
    const seed = b(wallet_vector.seed)
    for (const { key_index, x, ...expected } of wallet_vector.cases) {
      const trading_seed = deriveTradingKey(seed, key_index)
      expect(toHex(trading_seed)).toBe(expected.trading_key_seed)
      expect(toHex(publicKeyOf(trading_seed))).toBe(expected.trading_key)
      expect(toHex(deriveDepositBlinding(seed, key_index, x))).toBe(expected.deposit_blinding)
      expect(toHex(deriveAnchor(seed, key_index, x))).toBe(expected.anchor)
      expect(toHex(deriveOrderId(seed, key_index, x))).toBe(expected.order_id)
    }
  })
})

const BODY: LocationBody = {
  ppid: new Uint8Array(16).fill(0x11),
  instance_id: new Uint8Array(20).fill(0x22),
  level: 'inspected',
  issued_s: 0x0102n,
  expires_s: 0xffff_ffff_ffff_ffffn,
  site: 'eu-fra1 rack 12',
}
const VECTOR =
  '74616369742f6c6f636174696f6e2f31' +
  '11'.repeat(16) +
  '22'.repeat(20) +
  '02' +
  '0201000000000000' +
  'ff'.repeat(8) +
  `65752d66726131207261636b203132${'00'.repeat(17)}`

test('the layout is 101 bytes and reads back', () => {
  const bytes = encodeLocation(BODY)
  expect([bytes.length, toHex(bytes)]).toEqual([LOCATION_BYTES, VECTOR])
  expect(decodeLocation(bytes)).toEqual(BODY)
  expect(decodeLocation(encodeLocation({ ...BODY, level: 'registry', site: '' })).level).toBe('registry')
})

test('other widths, domains, levels and padding are rejected', () => {
  const bytes = encodeLocation(BODY)
  const odd = [bytes.slice(1), bytes.with(0, 0), bytes.with(52, 0), bytes.with(52, 3), bytes.with(100, 0x41)]
  for (const one of odd) expect(() => decodeLocation(one)).toThrow(CodecError)
  expect(() => encodeLocation({ ...BODY, site: 'x'.repeat(33) })).toThrow(RangeError)
})

const LEAVES = Array.from({ length: 20 }, (_, at) => leafOf(Uint8Array.of(at)))
const headOf = (size: number) => ({ size: BigInt(size), root: rootOf(LEAVES.slice(0, size)) })

test('a head is 56 bytes and reads back', () => {
  const head = { size: 0x0102n, root: new Uint8Array(32).fill(0x11) }
  const bytes = encodeLogHead(head)
  expect([bytes.length, toHex(bytes)]).toEqual([
    LOG_HEAD_BYTES,
    `74616369742f6c6f632d6c6f672f31000201000000000000${'11'.repeat(32)}`,
  ])
  expect(decodeLogHead(bytes)).toEqual(head)
  for (const odd of [bytes.slice(1), bytes.with(0, 0), bytes.with(15, 1), concatBytes(bytes, bytes)])
    expect(() => decodeLogHead(odd)).toThrow(CodecError)
})

test('the tree is that of Certificate Transparency', () => {
  // Inputs and root of the reference implementation's tests (google/certificate-transparency, merkletree).
  const inputs = [
    '',
    '00',
    '10',
    '2021',
    '3031',
    '40414243',
    '5051525354555657',
    '606162636465666768696a6b6c6d6e6f',
  ]
  const leaves = inputs.map((input) => treeLeaf(fromAnyHex(input)!, new Uint8Array()))
  expect(toHex(rootOf(leaves))).toBe('5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328')
  expect(toHex(treeLeaf(Uint8Array.of(1), Uint8Array.of(2)))).toBe(toHex(leafOf(Uint8Array.of(1, 2))))
})

test('every leaf of every tree is in it at its place alone, by its path alone', () => {
  for (let size = 1; size <= LEAVES.length; size++) {
    const head = headOf(size)
    for (let index = 0; index < size; index++) {
      const leaf = LEAVES[index]!
      const path = pathOf(LEAVES.slice(0, size), index)
      expect(isInTree(leaf, BigInt(index), head, path)).toBe(true)
      for (let other = 0; other <= size; other++)
        if (other !== index) expect(isInTree(leaf, BigInt(other), head, path)).toBe(false)
      expect(isInTree(LEAVES[(index + 1) % 20]!, BigInt(index), head, path)).toBe(false)
      expect(isInTree(leaf, BigInt(index), { ...head, root: leafOf() }, path)).toBe(false)
      expect(isInTree(leaf, BigInt(index), head, [...path, leaf])).toBe(false)
      if (path.length > 0) expect(isInTree(leaf, BigInt(index), head, path.slice(1))).toBe(false)
      for (let at = 0; at < path.length; at++)
        expect(isInTree(leaf, BigInt(index), head, path.with(at, leafOf()))).toBe(false)
    }
  }
})

test('every tree extends every earlier one of its leaves, and no other', () => {
  for (let to = 1; to <= LEAVES.length; to++)
    for (let from = 1; from <= to; from++) {
      const path = consistencyOf(LEAVES.slice(0, to), from)
      const [older, newer] = [headOf(from), headOf(to)]
      expect(extendsTree(older, newer, path)).toBe(true)
      expect(extendsTree({ ...older, root: leafOf() }, newer, path)).toBe(false)
      expect(extendsTree(older, { ...newer, root: leafOf() }, path)).toBe(false)
      expect(extendsTree(older, newer, [...path, leafOf()])).toBe(false)
      for (let at = 0; at < path.length; at++) {
        expect(extendsTree(older, newer, path.with(at, leafOf()))).toBe(false)
        expect(extendsTree(older, newer, path.toSpliced(at, 1))).toBe(false)
      }
      if (from < to) {
        expect(extendsTree(newer, older, path)).toBe(false)
        expect(extendsTree(older, newer, [])).toBe(false)
      }
    }
  expect(extendsTree({ size: 0n, root: leafOf() }, headOf(3), [])).toBe(false)
  expect(extendsTree({ size: 0n, root: leafOf() }, { size: 0n, root: leafOf() }, [])).toBe(false)
})
