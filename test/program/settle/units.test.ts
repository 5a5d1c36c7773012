/** The formula of compute units covers every shape of a batch at every place of both trees, and by little. */
import { expect, test } from 'bun:test'
import type { Codec } from '../../../protocol/codec'
import { SETTLE_LIMITS } from '../../../protocol/limits'
import { CONFIG, MINT_RECORD, RING, TREE } from '../../../protocol/vault/accounts'
import { mintRecordAddress } from '../../../protocol/vault/addresses'
import { settleDataBytes, settleUnits } from '../../../protocol/vault/settle'
import {
  bytes32,
  elements,
  landed,
  type OpenVault,
  outputsOf,
  runningVault,
} from '../../kit/vault/open_vault'

const DEPTH = 40
/** Bytes of a v1 transaction around `settle` without payouts: signature, fee payer, header and six addresses. */
const TRANSACTION_BYTES = 4_096 - 380

type Shape = { nullifiers: number; outputs: number; withdrawals: number; exits: number }

function change<T>({ chain, program }: OpenVault, key: Uint8Array, layout: Codec<T>, to: (old: T) => T) {
  const { data, lamports } = chain.account(key)!
  chain.setAccount(key, layout.encode(to(layout.decode(data))), program, lamports)
}

/** A vault whose ring is full: the state that batches cite is the last one that is looked at. */
function world(): OpenVault {
  const vault = runningVault()
  const states = Array.from({ length: 120 }, (_, at) => ({
    slot: 0,
    leaf_count: 7,
    root: bytes32(`kept ${at}`),
    spent_root: bytes32('spent'),
  }))
  change(vault, vault.chain.vault.ring, RING, (ring) => ({ ...ring, next: 0, length: 120, states }))
  change(vault, mintRecordAddress(vault.program, vault.mint), MINT_RECORD, (record) => ({
    ...record,
    liabilities: 10n ** 15n,
  }))
  return vault
}

let batches = 0

/** Units of a batch of this shape that appends at `leaf_count` and, in the spent log, behind `last_batch` leaves. */
function unitsAt(vault: OpenVault, shape: Shape, leaf_count: number, last_batch: number): number {
  const { chain, program } = vault
  batches += 1
  chain.setTime(10_000 + 20 * batches, 1_800_000_000)
  change(vault, chain.vault.tree, TREE, (tree) => ({ ...tree, leaf_count }))
  change(vault, chain.vault.config, CONFIG, (config) => ({ ...config, last_batch }))
  const nullifiers = elements(`n ${batches}`, Math.max(shape.nullifiers, shape.exits))
  const exits = nullifiers.slice(0, shape.exits).map((nullifier, at) => {
    const payout = { ...vault.withdrawal(10n, bytes32(`to ${at}`)), nullifier }
    vault.putRequest(payout)
    return payout
  })
  const withdrawals = Array.from({ length: shape.withdrawals }, () => vault.withdrawal(10n, bytes32('to')))
  const batch = vault.batchOf({
    nullifiers,
    outputs: outputsOf(elements(`c ${batches}`, shape.outputs)),
    payouts: [...exits, ...withdrawals],
    cited_leaf_count: 7,
    cited_root: bytes32('kept 119'),
  })
  const kept = [chain.vault.queue, chain.vault.ring].map((key) => ({ key, data: chain.account(key)!.data }))
  const { units } = landed(vault.send(batch))
  for (const { key, data } of kept) chain.setAccount(key, data, program)
  return Number(units)
}

/** Places where an append crosses the boundary of a power of two, and where it lies within. */
const places = (count: number): number[] => [
  0,
  ...Array.from({ length: DEPTH }, (_, power) => 2 ** power - 1).filter((at) => at + count <= 2 ** DEPTH),
  ...(count < 2 ** DEPTH ? [2 ** DEPTH - Math.max(count, 1)] : []),
]

function shapes(): Shape[] {
  const all: Shape[] = []
  for (const nullifiers of [0, 1, 14, 28, 56])
    for (const outputs of [0, 1, 2, 3, 16, 33, 56, 80])
      for (const [withdrawals, exits] of [
        [0, 0],
        [1, 0],
        [0, 1],
        [8, 0],
        [0, 13],
        [24, 0],
        [6, 6],
      ] as const) {
        const spent = Math.max(nullifiers, exits)
        const bytes = settleDataBytes(spent, outputs, withdrawals + exits) + 32 * exits
        if (bytes <= TRANSACTION_BYTES) all.push({ nullifiers: spent, outputs, withdrawals, exits })
      }
  return all
}

test('the formula covers every shape where the append crosses the middle of the tree, and exceeds it by less than 15 %', () => {
  const vault = world()
  for (const shape of shapes()) {
    const most = unitsAt(vault, shape, 2 ** (DEPTH - 1) - 1, 0)
    const asked = settleUnits(shape)
    expect([shape, asked >= most, asked <= most / 0.85]).toEqual([shape, true, true])
  }
}, 180_000)

for (const shape of [
  { nullifiers: 28, outputs: 56, withdrawals: 0, exits: 0 },
  { nullifiers: 1, outputs: 2, withdrawals: 0, exits: 0 },
  { nullifiers: 0, outputs: 1, withdrawals: 1, exits: 0 },
  { nullifiers: 3, outputs: 0, withdrawals: 0, exits: 3 },
])
  test(`no place in either tree costs more: ${Object.values(shape).join(' ')}`, () => {
    const vault = world()
    const asked = settleUnits(shape)
    for (const at of places(shape.outputs))
      expect([at, unitsAt(vault, shape, at, Math.max(0, at - 1)) <= asked]).toEqual([at, true])
  }, 180_000)

test('28 orders take at most 103,600 units at an ordinary place', () => {
  const vault = runningVault()
  const parts = { nullifiers: elements('n', 28), outputs: outputsOf(elements('c', 56)) }
  expect(Number(vault.settle(parts).units)).toBeLessThanOrEqual(103_600)
})

test('the limits of a batch are those of the formula’s test', () => {
  expect(SETTLE_LIMITS).toEqual({ nullifiers: 56, outputs: 80, payouts: 24, payout_mints: 8 })
})
