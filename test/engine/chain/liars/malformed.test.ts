/** Two providers of five answer as no node does: nothing of it reaches the venue, which settles, anchors and decides. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Journal } from '../../../../engine/journal/contract'
import { type Lie, LyingEndpoint } from '../../../kit/chain/lying_endpoint'
import { VaultWorld } from '../../../kit/chain/vault_world'
import * as folder from '../../journal/folder'

type Context = { context: { slot: number }; value: unknown }
/** No primitive can be made of it. */
const OPAQUE = { toString: 1, valueOf: 1 }

const epochInfo =
  (change: (shown: number) => unknown): Lie =>
  (result) => {
    const { absoluteSlot, blockHeight } = result as { absoluteSlot: number; blockHeight: number }
    return { ...(result as object), absoluteSlot: change(absoluteSlot), blockHeight: change(blockHeight) }
  }
const context =
  (change: (slot: number) => unknown): Lie =>
  (result) => {
    const answer = result as Context
    return { ...answer, context: { slot: change(answer.context.slot) } }
  }
const valued =
  (value: unknown): Lie =>
  (result) => ({ ...(result as object), value })
const status =
  (change: object): Lie =>
  (result) => {
    const { value } = result as { value: unknown[] }
    const shown = { slot: 1, confirmations: null, confirmationStatus: 'finalized', ...change }
    return { ...(result as object), value: value.map(() => shown) }
  }
const height =
  (change: (shown: number) => unknown): Lie =>
  (result) => {
    const { value } = result as { value: { blockhash: string; lastValidBlockHeight: number } }
    const lastValidBlockHeight = change(value.lastValidBlockHeight)
    return { ...(result as object), value: { ...value, lastValidBlockHeight } }
  }

const SHAPES: [name: string, lies: Record<string, Lie>][] = [
  ['slots that are text', { getEpochInfo: epochInfo(() => 'soon') }],
  ['slots between two', { getEpochInfo: epochInfo((slot) => slot + 0.5) }],
  ['slots below none', { getEpochInfo: epochInfo(() => -1) }],
  ['no slots', { getEpochInfo: epochInfo(() => undefined) }],
  ['slots beyond every number', { getEpochInfo: epochInfo(() => 2 ** 70) }],
  ['answers of a slot between two', { getMultipleAccounts: context((slot) => slot + 0.5) }],
  ['answers of a slot that is text', { getMultipleAccounts: context(() => 'now') }],
  ['answers of a slot beyond every number', { getMultipleAccounts: context(() => 2 ** 70) }],
  ['answers of a slot a billion ahead', { getMultipleAccounts: context((slot) => slot + 1_000_000_000) }],
  ['statuses without an error', { getSignatureStatuses: status({}) }],
  [
    'an error of nothing',
    { getSignatureStatuses: status({ err: { InstructionError: [0, null] }, status: {} }) },
  ],
  ['an error that is no list', { getSignatureStatuses: status({ err: { InstructionError: 7 } }) }],
  ['statuses in a slot that is text', { getSignatureStatuses: status({ slot: 'now', err: null }) }],
  ['a balance that is no number', { getBalance: valued(OPAQUE) }],
  ['a balance that is text', { getBalance: valued('1\nup 0') }],
  ['a blockhash that ends between two heights', { getLatestBlockhash: height((shown) => shown + 0.5) }],
  ['a blockhash that ends at a text', { getLatestBlockhash: height((shown) => `${shown}`) }],
  [
    'fees that are no number',
    { getRecentPrioritizationFees: () => [{ slot: 1, prioritizationFee: OPAQUE }] },
  ],
  ['fees below a unit', { getRecentPrioritizationFees: () => [{ slot: 1, prioritizationFee: 0.5 }] }],
]

let world: VaultWorld
let liar: LyingEndpoint
let honest: LyingEndpoint
let journal: Journal
const dir = mkdtempSync(join(tmpdir(), 'tacit-malformed-'))

beforeAll(async () => {
  world = await VaultWorld.open()
  journal = await folder.open(dir)
  world.outbox.head = () => journal.head()
  liar = new LyingEndpoint(world.chain.url)
  honest = new LyingEndpoint(world.chain.url)
  // The liars answer first.
  honest.lies = { getMultipleAccounts: () => Bun.sleep(3).then(() => undefined) }
  await world.deposit(1_000n)
  const [first, other] = [liar, honest].map(({ url }) => url)
  const rpc_urls = [first!, other!, `${first}/second`, `${other}/second`, `${other}/third`]
  await world.boot({ connect: { rpc_urls } })
}, 120_000)

afterAll(async () => {
  await world.close()
  await Promise.all([liar.stop(), honest.stop(), journal.close()])
  rmSync(dir, { recursive: true })
})

test.each(SHAPES)(
  '%s',
  async (_, lies) => {
    const { outbox, port, sink, chain } = world
    liar.lies = lies
    const last = outbox.payloads.size + 2
    for (let batch = last - 1; batch <= last; batch++) {
      outbox.add(world.nextPayload())
      await outbox.until(() => outbox.stageOf(batch) === 'finalized')
    }
    await journal.append(folder.records(1, 3))
    await port.anchor(journal.head().seq, journal.head())
    await journal.append(folder.records(2, 3))
    const decided = await port.commit({ ...journal.head(), slot: port.view().slot }, 60_000)
    expect(decided?.outcome).toBe('committed')
    expect(Number.isSafeInteger(decided!.slot)).toBe(true)
    expect(decided!.slot).toBeLessThanOrEqual(chain.slot())
    while (liar.lied < 3) await Bun.sleep(5)
    expect(sink.slots.every(Number.isSafeInteger)).toBe(true)
    expect(Math.max(...sink.slots)).toBeLessThanOrEqual(chain.slot())
    expect(sink.halts).toEqual([])
    expect(typeof port.figures().fee_payer_lamports).toBe('bigint')
    expect(port.health().reasons.filter((reason) => !reason.endsWith(liar.host))).toEqual([])
  },
  120_000,
)
