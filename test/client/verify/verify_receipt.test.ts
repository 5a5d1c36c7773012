/** A receipt proves one command to one venue, and every change of it or of the command is rejected with its reason. */
import { describe, expect, test } from 'bun:test'
import {
  identityOf,
  ReceiptRefused,
  type VenueIdentity,
  verifyReceipt,
  verifyStatistics,
} from '../../../client/verify/index'
import { encodeBase58 } from '../../../protocol/base58'
import {
  RECEIPT_BODY,
  STATEMENT_BODY,
  sealStatisticsRow,
  statisticsRowBody,
} from '../../../protocol/bodies/statements'
import { toHex } from '../../../protocol/bytes'
import { receiptTree, treeLeaf } from '../../../protocol/rfc6962_tree'
import { publicKeyOf, sign } from '../../../protocol/sign'
import type { Attestation, Statistics } from '../../../protocol/wire/public'
import type { Receipt } from '../../../protocol/wire/trading'

const bytesOf = (fill: number, width = 32) => new Uint8Array(width).fill(fill)
const STATEMENT_SEED = bytesOf(1)
const identity: VenueIdentity = { venue: bytesOf(2), statement_key: publicKeyOf(STATEMENT_SEED), epoch: 7n }
const SEQ = 1_000
/** Canonical bodies with their signatures; their lengths differ as those of commands do. */
const commands = [288, 168, 160, 264, 352].map((width, at) => bytesOf(10 + at, width))

function receiptFor(index: number, group = commands, by = { ...identity, seed: STATEMENT_SEED }): Receipt {
  const { root, paths } = receiptTree(group.map((one) => treeLeaf(one)))
  const head = bytesOf(3)
  const { venue, epoch, seed } = by
  return {
    epoch: Number(epoch),
    seq: SEQ,
    head: toHex(head),
    root: toHex(root),
    index,
    path: paths[index]!,
    signature: toHex(sign(seed, RECEIPT_BODY.encode({ venue, epoch, seq: BigInt(SEQ), head, root }))),
  }
}

/** The reason of a rejection; undefined when the receipt is accepted. */
async function reasonOf(receipt: Receipt, command = commands[2]!, after_seq = 0, by = identity) {
  try {
    await verifyReceipt(receipt, by, command, after_seq)
    return undefined
  } catch (error) {
    if (error instanceof ReceiptRefused) return error.message
    throw error
  }
}

test('every command of a group of any size is proven by its own receipt', async () => {
  for (let size = 1; size <= commands.length; size++) {
    const group = commands.slice(0, size)
    for (const [index, command] of group.entries())
      expect(await reasonOf(receiptFor(index, group), command)).toBeUndefined()
  }
})

const honest = receiptFor(2)
const flipped = (hex: string) => hex.replace(/^./, (digit) => (digit === '0' ? '1' : '0'))
const NOT_SIGNED = 'the receipt is not signed by the statement key of this venue'
const NOT_IN_GROUP = 'the command is not in the group of the receipt'
const malformed = (field: string) => `the receipt has no well formed ${field}`
const other_venue = { ...identity, venue: bytesOf(9), seed: STATEMENT_SEED }
const other_key = { ...identity, seed: bytesOf(8) }
const later_epoch = { ...identity, epoch: 8n, seed: STATEMENT_SEED }

const CASES: readonly [name: string, receipt: Receipt, reason: string][] = [
  ['a forged signature', { ...honest, signature: flipped(honest.signature) }, NOT_SIGNED],
  ['a signature of zeros', { ...honest, signature: '00'.repeat(64) }, NOT_SIGNED],
  ['a signature by another key', receiptFor(2, commands, other_key), NOT_SIGNED],
  ["another venue's receipt", receiptFor(2, commands, other_venue), NOT_SIGNED],
  ["another epoch's receipt", receiptFor(2, commands, later_epoch), 'the receipt is of epoch 8, not 7'],
  ['another epoch claimed', { ...honest, epoch: 6 }, 'the receipt is of epoch 6, not 7'],
  ['another seq', { ...honest, seq: SEQ + 1 }, NOT_SIGNED],
  ['another head', { ...honest, head: flipped(honest.head) }, NOT_SIGNED],
  ['a wrong root', { ...honest, root: flipped(honest.root) }, NOT_SIGNED],
  ['the signed root of another group', receiptFor(2, commands.toReversed().slice(1)), NOT_IN_GROUP],
  ['a wrong path', { ...honest, path: honest.path.map(flipped) }, NOT_IN_GROUP],
  ['a path without its last node', { ...honest, path: honest.path.slice(0, -1) }, NOT_IN_GROUP],
  ['a path with one node more', { ...honest, path: [...honest.path, honest.root] }, NOT_IN_GROUP],
  ["a neighbour's index", { ...honest, index: 3 }, NOT_IN_GROUP],
  ["another command's receipt", receiptFor(1), NOT_IN_GROUP],
  ['a truncated signature', { ...honest, signature: honest.signature.slice(2) }, malformed('signature')],
  ['a truncated root', { ...honest, root: honest.root.slice(2) }, malformed('root')],
  ['a truncated head', { ...honest, head: honest.head.slice(2) }, malformed('head')],
  ['a truncated node', { ...honest, path: ['00', ...honest.path.slice(1)] }, malformed('path')],
  ['upper-case hex', { ...honest, root: honest.root.toUpperCase() }, malformed('root')],
  ['an endless path', { ...honest, path: Array(33).fill(honest.root) }, malformed('path')],
  ['no path', { ...honest, path: undefined as never }, malformed('path')],
  ['a seq that is no integer', { ...honest, seq: 0.5 }, malformed('seq')],
  ['a negative index', { ...honest, index: -1 }, malformed('index')],
  ['an index of 2^32', { ...honest, index: 2 ** 32 + honest.index }, malformed('index')],
  ['a path with a hole', { ...honest, path: Array(1) }, malformed('path')],
  ['an epoch as text', { ...honest, epoch: '7' as never }, malformed('epoch')],
]

describe('a receipt is rejected', () => {
  test.each(CASES)('%s', async (_name, receipt, reason) => {
    expect(await reasonOf(receipt)).toBe(reason)
  })

  test('for another command, a truncated one, and one with bytes added', async () => {
    const command = commands[2]!
    for (const other of [commands[1]!, command.subarray(0, -1), new Uint8Array(0), bytesOf(12, 161)])
      expect(await reasonOf(honest, other)).toBe(NOT_IN_GROUP)
  })

  test('by the identity of another venue, and by another statement key', async () => {
    expect(await reasonOf(honest, commands[2]!, 0, { ...identity, venue: bytesOf(9) })).toBe(NOT_SIGNED)
    const key = publicKeyOf(bytesOf(8))
    expect(await reasonOf(honest, commands[2]!, 0, { ...identity, statement_key: key })).toBe(NOT_SIGNED)
  })

  test('when it is not after a receipt that came before the command', async () => {
    expect(await reasonOf(honest, commands[2]!, SEQ - 1)).toBeUndefined()
    const reason = `the receipt is of journal seq ${SEQ}, not after ${SEQ}`
    expect(await reasonOf(honest, commands[2]!, SEQ)).toBe(reason)
  })
})

test('statistics of hours that begin within one are refused, though each row names the one before and all are signed', async () => {
  const asked = { symbol: 'SOL-USDC', period: 'hour' } as const
  const { venue } = identity
  const none = { open: null, high: null, low: null, close: null, volume: null, auctions: null }
  const pageFrom = (start_unix_s: number) => {
    const before = { ...none, start_unix_s, previous: '00'.repeat(32) }
    const row = sealStatisticsRow(venue, asked.symbol, asked.period, before)
    const signature = toHex(sign(STATEMENT_SEED, statisticsRowBody(venue, asked.symbol, asked.period, row)))
    return { ...asked, items: [row], signed: { signature } } as unknown as Statistics
  }
  expect(await verifyStatistics(pageFrom(7_200), asked, identity)).toHaveLength(1)
  const refused = await verifyStatistics(pageFrom(7_201), asked, identity).catch(String)
  expect(refused).toContain('a row is missing')
})

test('the longest path is judged at once, for any index', async () => {
  // Every even index leaves the place of its sibling open, so this index has the most readings.
  const path = Array<string>(32).fill(honest.root)
  for (const index of [0, 0xaaaa_aaaa, 2 ** 32 - 1])
    expect(await reasonOf({ ...honest, index, path })).toBe(NOT_IN_GROUP)
}, 20_000)

describe('the identity of a venue', () => {
  const attestation = (certificate: string, key = identity.statement_key) =>
    ({ binding: { certificate, statement_key: encodeBase58(key) } }) as Attestation

  test('is that of the certified statement', () => {
    const certificate = toHex(STATEMENT_BODY.encode(identity))
    expect(identityOf({ attestation: attestation(certificate) })).toEqual(identity)
  })

  test('is not read from a malformed certificate, or one of another key', () => {
    const certificate = toHex(STATEMENT_BODY.encode(identity))
    const other = attestation(certificate, publicKeyOf(bytesOf(8)))
    expect(() => identityOf({ attestation: other })).toThrow('another statement key is certified')
    for (const text of ['', certificate.slice(2), `00${certificate.slice(2)}`, certificate.toUpperCase()])
      expect(() => identityOf({ attestation: attestation(text) })).toThrow()
  })
})
