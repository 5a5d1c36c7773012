/** The log of inspected machines: one encoding of a head, and proofs that hold for their tree alone. */

import { expect, test } from 'bun:test'
import {
  decodeLocation,
  decodeLogHead,
  encodeLocation,
  encodeLogHead,
  LOCATION_BYTES,
  LOG_HEAD_BYTES,
  type LocationBody,
} from '../../protocol/bodies/statements'
import { CodecError } from '../../protocol/byte_stream'
import { concatBytes, fromAnyHex, toHex } from '../../protocol/bytes'
import { extendsTree, isInTree, treeLeaf } from '../../protocol/rfc6962_tree'
import { consistencyOf, leafOf, pathOf, rootOf } from '../kit/verify/inspection_log'

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
