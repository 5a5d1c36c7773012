/** A second reading asks the node only for what is new, and a kept history that is not true is read again. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { openChainReader } from '../../client/chain/chain_access'
import { type KeptProofs, keptProofs } from '../../client/chain/kept_proofs'
import { readVaultHistory } from '../../client/chain/read_history'
import { nullifierOfNote } from '../../client/exit/prepare_exit'
import { extendHistory, type KeptTransaction, loadHistory } from '../../client/wallet/history_file'
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
  node = new LyingNode(site.chain.url)
  notes = await site.deposit(new Wallet(crypto.getRandomValues(new Uint8Array(32))), 5_000n, 6_000n, 7_000n)
  await settle()
}, 30_000)
beforeEach(() => rmSync(path, { force: true }))
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
async function counted(): Promise<KeptProofs & { transactions: number; pages: number }> {
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
  const answer = await keptProofs(chain(), site.program_id, path)
  return { ...answer, transactions, pages }
}
async function expectWhole(answer: KeptProofs): Promise<void> {
  expect(answer.proofs.history).toEqual(await readVaultHistory(chain(), site.program_id))
}

test('the second reading asks for nothing, and a later one for the new transactions alone', async () => {
  const first = await counted()
  expect([first.kept, first.read, first.transactions]).toEqual([0, 6, 6])
  const second = await counted()
  expect([second.kept, second.read, second.transactions, second.pages]).toEqual([6, 0, 0, 1])
  await settle()
  await settle()
  const third = await counted()
  expect([third.kept, third.read, third.transactions]).toEqual([6, 2, 2])
  await expectWhole(third)
}, 20_000)

test('a history that lacks a transaction of its newest slot still gets it', async () => {
  await counted()
  const { transactions } = loadHistory(path, of())
  const [newest] = transactions.toSorted((a, b) => b.slot - a.slot)
  const others = transactions.filter((one) => one !== newest)
  rmSync(path)
  // As if another transaction of that slot, already kept, were the newest known.
  const stands_in = { signature: 'kept', slot: newest!.slot, data: [] }
  extendHistory(path, of(), { transactions: [], sealed_bytes: 0 }, [...others, stands_in])
  const again = await counted()
  expect([again.read, again.kept]).toEqual([1, others.length + 1])
  await expectWhole(again)
}, 20_000)

/** By age: behind the vault's initialization and its first epoch. */
const FIRST_DEPOSIT = 2
const byAge = (all: KeptTransaction[]) => all.toSorted((a, b) => a.slot - b.slot)
const untrue: [string, (transactions: KeptTransaction[]) => KeptTransaction[]][] = [
  [
    'tells another commitment',
    (all) => byAge(all).map((one, at) => (at === FIRST_DEPOSIT ? flipped(one) : one)),
  ],
  ['tells a transaction twice', (all) => [...all, { ...byAge(all)[FIRST_DEPOSIT]!, signature: 'again' }]],
]
/** A deposit whose commitment is another. */
function flipped(one: KeptTransaction): KeptTransaction {
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
    const { transactions } = loadHistory(path, of())
    rmSync(path)
    extendHistory(path, of(), { transactions: [], sealed_bytes: 0 }, change(transactions))
    const healed = await counted()
    expect([healed.kept, healed.read]).toEqual([0, read])
    await expectWhole(healed)
    const again = await counted()
    expect([again.kept, again.read]).toEqual([read, 0])
  },
  20_000,
)
