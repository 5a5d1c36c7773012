/** A second reading asks the node only for what is new, and a kept history that is not true is read again. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { Archive } from '../../client/archive/archive'
import type { ArchivedTransaction } from '../../client/archive/block'
import { openChainReader } from '../../client/chain/chain_access'
import { type CurrentHistory, currentHistory } from '../../client/chain/current_history'
import { readVaultHistory } from '../../client/chain/read_history'
import { nullifierOfNote } from '../../client/exit/prepare_exit'
import { LISTED_AGAIN_SLOTS } from '../../client/limits'
import { Wallet, type WalletNote } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { decodeEvent } from '../../protocol/vault/events'
import { chainFolder } from '../kit/chain/chain_folder'
import { CliSite } from './cli_site'
import { LyingNode } from './lying_node'

let site: CliSite
let node: LyingNode
let notes: WalletNote[]
const folder = chainFolder()
const path = join(folder.dir, 'wallet.json.history')

beforeAll(async () => {
  site = await CliSite.open()
  // The vault's initialization has no event, so it is read again while it is one of the newest.
  site.chain.advance(2 * LISTED_AGAIN_SLOTS)
  node = new LyingNode(site.chain.url)
  notes = await site.deposit(new Wallet(crypto.getRandomValues(new Uint8Array(32))), 5_000n, 6_000n, 7_000n)
  await settle()
}, 30_000)
beforeEach(() => rmSync(path, { force: true, recursive: true }))
afterAll(async () => {
  await node.stop()
  await site.close()
  folder.remove()
})

/** A final batch that spends the next deposit. */
async function settle(): Promise<void> {
  await site.signer.settle({ nullifiers: [nullifierOfNote(notes.shift()!)] })
}
const chain = () => openChainReader(node.url)
const of = () => ({ genesis_hash: encodeBase58(site.chain.genesis_hash), program_id: site.program_id })

/** With how many transactions and pages the node was asked for meanwhile. */
async function counted(): Promise<CurrentHistory & { transactions: number; pages: number }> {
  let [transactions, pages] = [0, 0]
  node.lies = {
    getTransaction: (told) => {
      transactions += 1
      return told
    },
    getSignaturesForAddress: (told) => {
      pages += 1
      return told
    },
  }
  const answer = await currentHistory(chain(), site.program_id, { folder: path })
  return { ...answer, transactions, pages }
}
async function expectWhole(answer: CurrentHistory): Promise<void> {
  expect(answer.proofs.history).toEqual(await readVaultHistory(chain(), site.program_id))
}

test('the second reading asks for nothing, and a later one for the new transactions alone', async () => {
  const first = await counted()
  expect([first.kept, first.read, first.transactions]).toEqual([0, 6, 6])
  const second = await counted()
  expect([second.kept, second.read, second.transactions, second.pages]).toEqual([5, 0, 0, 2])
  await settle()
  await settle()
  const third = await counted()
  expect([third.kept, third.read, third.transactions]).toEqual([5, 2, 2])
  await expectWhole(third)
}, 20_000)

test('a history that lacks a transaction of its newest slots still gets it', async () => {
  await counted()
  const { transactions, through_slot } = await Archive.load(path, of())
  const [newest] = transactions.toSorted((a, b) => b.slot - a.slot)
  const others = transactions.filter((one) => one !== newest)
  new Archive(path, of()).extend(others, through_slot)
  const again = await counted()
  expect([again.read, again.kept]).toEqual([1, others.length])
  await expectWhole(again)
}, 20_000)

/** By age: behind the vault's first epoch. */
const FIRST_DEPOSIT = 1
const byAge = (all: ArchivedTransaction[]) => all.toSorted((a, b) => a.slot - b.slot)
const untrue: [string, (transactions: ArchivedTransaction[]) => ArchivedTransaction[]][] = [
  [
    'tells another commitment',
    (all) => byAge(all).map((one, at) => (at === FIRST_DEPOSIT ? flipped(one) : one)),
  ],
  [
    'tells a transaction twice',
    (all) => [...all, { ...byAge(all)[FIRST_DEPOSIT]!, signature: encodeBase58(new Uint8Array(64)) }],
  ],
]
/** A deposit whose commitment is another. */
function flipped(one: ArchivedTransaction): ArchivedTransaction {
  const data = one.data.map((bytes) => {
    const changed = bytes.slice()
    const event = decodeEvent(bytes)
    if (event?.kind === 'deposited') changed[Buffer.from(bytes).indexOf(event.commitment)]! ^= 1
    return changed
  })
  return { ...one, data }
}

test.each(untrue)(
  'a sealed history that %s is forgotten, and everything is read again',
  async (_, change) => {
    const { read } = await counted()
    const { transactions, through_slot } = await Archive.load(path, of())
    new Archive(path, of()).extend(change(transactions), through_slot)
    const healed = await counted()
    expect([healed.kept, healed.read]).toEqual([0, read])
    await expectWhole(healed)
    const again = await counted()
    expect([again.kept, again.read]).toEqual([read - 1, 0])
  },
  20_000,
)
