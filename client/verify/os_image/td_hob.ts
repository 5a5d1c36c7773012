/**
 * Computes the hand-off block list that QEMU gives the firmware: the memory ranges and which of them are accepted. It is the
 * first event of RTMR0 and measures the machine's memory size (UEFI PI specification, volume 3, "HOB code definitions").
 */
import { sha384 } from '@noble/hashes/sha2.js'
import { concatBytes } from '../../../protocol/bytes'
import { struct, u16, u32, uint, zeros } from '../../../protocol/codec'
import { MEMORY_RANGES_MAX } from '../../limits'
import { Refused, requireThat } from '../transcript'

const PAGE = 0x1000
/** The ranges around the PCI hole, and the least size at which QEMU splits memory. */
const LOW_MEMORY = 0x8000_0000
const HIGH_MEMORY_FROM = 0x1_0000_0000
const SPLIT_FROM = 0xb000_0000
const SYSTEM_MEMORY = 0
const UNACCEPTED_MEMORY = 7
/** Present, initialised, tested. */
const ATTRIBUTES = 7

/** The kernel's measured header depends on the memory size, by which QEMU places the initial disk, except for these sizes. */
export function isKnownMemorySize(memory_size: number): boolean {
  return memory_size === LOW_MEMORY || memory_size >= SPLIT_FROM
}

type Range = { start: number; end: number }

/**
 * SHA-384 of the list for a machine of `memory_size` bytes.
 * @param witness base page, page of the list and accepted page ranges (relative to the base), each a varint.
 */
export function tdHobDigest(witness: Uint8Array, memory_size: number): Uint8Array {
  const { hob_address, accepted } = readWitness(witness)
  const resources: Uint8Array[] = []
  let cursor = 0
  for (const { start, end } of accepted) {
    requireThat(start >= cursor && end <= memory_size, 'the measured memory ranges overlap')
    if (start > cursor) resources.push(resourceHob(UNACCEPTED_MEMORY, cursor, start - cursor))
    resources.push(resourceHob(SYSTEM_MEMORY, start, end - start))
    cursor = end
  }
  if (memory_size >= SPLIT_FROM) {
    resources.push(resourceHob(UNACCEPTED_MEMORY, cursor, LOW_MEMORY - cursor))
    resources.push(resourceHob(UNACCEPTED_MEMORY, HIGH_MEMORY_FROM, memory_size - LOW_MEMORY))
  } else resources.push(resourceHob(UNACCEPTED_MEMORY, cursor, memory_size - cursor))
  const list = concatBytes(...resources)
  const end_of_list = hob_address + HANDOFF.size! + list.length + END_BYTES
  return sha384(concatBytes(handoffHob(end_of_list), list))
}

function readWitness(witness: Uint8Array): { hob_address: number; accepted: Range[] } {
  let at = 0
  const next = (): number => {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = witness[at++]
      if (byte === undefined || scale > 2 ** 35) throw new Refused('the memory witness is malformed')
      value += (byte & 0x7f) * scale
      if (byte < 0x80) return value
    }
  }
  const base = next()
  const hob_address = (base + next()) * PAGE
  const count = next()
  requireThat(count > 0 && count <= MEMORY_RANGES_MAX, 'the memory witness is malformed')
  const accepted = Array.from({ length: count }, () => {
    const start = (base + next()) * PAGE
    return { start, end: start + next() * PAGE }
  })
  requireThat(at === witness.length, 'the memory witness is malformed')
  const ranges = accepted.filter(({ start, end }) => end > start)
  return { hob_address, accepted: ranges.sort((a, b) => a.start - b.start) }
}

const HANDOFF = struct({
  type: u16,
  bytes: u16,
  reserved: zeros(4),
  version: u32,
  unused: zeros(36),
  end_of_list: uint,
})
const RESOURCE = struct({
  type: u16,
  bytes: u16,
  reserved: zeros(4),
  owner: zeros(16),
  resource: u32,
  attributes: u32,
  start: uint,
  length: uint,
})
const END_BYTES = 8

function handoffHob(end_of_list: number): Uint8Array {
  return HANDOFF.encode({ type: 1, bytes: HANDOFF.size!, version: 9, end_of_list })
}

function resourceHob(resource: number, start: number, length: number): Uint8Array {
  return RESOURCE.encode({ type: 3, bytes: RESOURCE.size!, resource, attributes: ATTRIBUTES, start, length })
}
