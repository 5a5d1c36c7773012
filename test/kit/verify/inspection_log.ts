/** A log of inspected machines: the tree of RFC 6962, its proofs, and the authority that serves one statement from it. */
import { createHash } from 'node:crypto'
import type { LocationStatement } from '../../../client/verify/evidence_bundle'
import { encodeLocation, encodeLogHead, type LocationBody } from '../../../protocol/bodies/statements'
import { toHex } from '../../../protocol/bytes'
import { sign } from '../../../protocol/sign'

const hash = (...parts: Uint8Array[]): Uint8Array => {
  const state = createHash('sha256')
  for (const part of parts) state.update(part)
  return new Uint8Array(state.digest())
}
export const leafOf = (...parts: Uint8Array[]): Uint8Array => hash(Uint8Array.of(0), ...parts)
const nodeOf = (left: Uint8Array, right: Uint8Array) => hash(Uint8Array.of(1), left, right)
/** Largest power of two below `count`. */
const split = (count: number): number => 2 ** Math.ceil(Math.log2(count) - 1)

/** RFC 6962 section 2.1. */
export function rootOf(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length === 1) return leaves[0]!
  const left = split(leaves.length)
  return nodeOf(rootOf(leaves.slice(0, left)), rootOf(leaves.slice(left)))
}

/** Section 2.1.1. */
export function pathOf(leaves: readonly Uint8Array[], index: number): Uint8Array[] {
  if (leaves.length === 1) return []
  const left = split(leaves.length)
  const [low, high] = [leaves.slice(0, left), leaves.slice(left)]
  return index < left ? [...pathOf(low, index), rootOf(high)] : [...pathOf(high, index - left), rootOf(low)]
}

/** Section 2.1.2. */
export function consistencyOf(leaves: readonly Uint8Array[], from: number, known = true): Uint8Array[] {
  if (from === leaves.length) return known ? [] : [rootOf(leaves)]
  const left = split(leaves.length)
  const [low, high] = [leaves.slice(0, left), leaves.slice(left)]
  return from <= left
    ? [...consistencyOf(low, from, known), rootOf(high)]
    : [...consistencyOf(high, from - left, false), rootOf(low)]
}

const INSPECTOR_SEED = new Uint8Array(32).fill(0x72)
const LOG_SEED = new Uint8Array(32).fill(0x73)
export const INSPECTOR = { key: INSPECTOR_SEED, log: LOG_SEED }
const ENTRIES = 7
const INDEX = 4
/** Size of the head that the policy pins. */
export const SEEN = 3
const others = (fill: number): Uint8Array[] =>
  Array.from({ length: ENTRIES }, (_, at) => leafOf(Uint8Array.of(fill, at)))
export const seenRoot = (): Uint8Array => rootOf(others(0).slice(0, SEEN))

/** An honest authority's answer, and the ways in which one lies. */
export type Inspection = {
  /** Members of the statement. */
  change: Partial<LocationBody>
  /** First byte of the other entries: another one is another log. */
  history: number
  /** The log has this machine's statement. */
  logged: boolean
  seeds: typeof INSPECTOR
  alter: (statement: LocationStatement) => void
}
export const honestInspection = (): Inspection => ({
  change: {},
  history: 0,
  logged: true,
  seeds: INSPECTOR,
  alter: () => {},
})

export function inspect(
  machine: Pick<LocationBody, 'ppid' | 'instance_id'>,
  from: number,
  { change, history, logged, seeds, alter }: Inspection,
): LocationStatement {
  const now_s = BigInt(Math.floor(Date.now() / 1000))
  const body = encodeLocation({
    ...machine,
    level: 'inspected',
    issued_s: now_s - 60n,
    expires_s: now_s + 3_600n,
    site: 'cage 4',
    ...change,
  })
  const signature = sign(seeds.key, body)
  const leaves = others(history)
  if (logged) leaves[INDEX] = leafOf(body, signature)
  const head = encodeLogHead({ size: BigInt(ENTRIES), root: rootOf(leaves) })
  const hex = (nodes: Uint8Array[]) => nodes.map(toHex).join('')
  const statement: LocationStatement = {
    body: toHex(body),
    signature: toHex(signature),
    log: {
      head: toHex(head),
      signature: toHex(sign(seeds.log, head)),
      index: INDEX,
      path: hex(pathOf(leaves, INDEX)),
      consistency: hex(consistencyOf(leaves, from)),
    },
  }
  alter(statement)
  return statement
}
