/** A second reading asks the node only for new transactions, and a kept history that is not true is read again. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { Archive, type ArchivedTransaction, ArchiveRejected } from '../../../client/archive/archive'
import { openChainAccess, openChainReader, payerKey, toInstruction } from '../../../client/chain/chain_access'
import {
  type CurrentHistory,
  confirmBatches,
  currentHistory,
  NodesDisagree,
} from '../../../client/chain/current_history'
import { readVaultHistory } from '../../../client/chain/read_history'
import { programBytes, readVaultState } from '../../../client/chain/read_vault'
import { sendInstructions } from '../../../client/chain/send_instructions'
import { LISTED_AGAIN_SLOTS } from '../../../client/limits'
import { nullifierOfNote } from '../../../client/wallet/absorb'
import { HistoryIncomplete } from '../../../client/wallet/vault_history'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { encodeBase58 } from '../../../protocol/base58'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { decodeEvent } from '../../../protocol/vault/events'
import { transferLamports } from '../../../sandbox/chain/faucet'
import { USDC } from '../../../sandbox/environment'
import { chainFolder } from '../../kit/chain/chain_folder'
import { element } from '../../kit/vault/open_vault'
import { CliSite } from '../cli_site'
import { LyingNode } from '../lying_node'

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
  notes = await site.deposit(
    new Wallet(crypto.getRandomValues(new Uint8Array(32))),
    5_000n,
    6_000n,
    7_000n,
    8_000n,
  )
  await settle()
}, 120_000)
beforeEach(() => {
  node.lies = {}
  rmSync(path, { force: true, recursive: true })
})
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
  expect([first.kept, first.read, first.transactions]).toEqual([0, 7, 7])
  const second = await counted()
  expect([second.kept, second.read, second.transactions, second.pages]).toEqual([6, 0, 0, 2])
  await settle()
  await settle()
  const third = await counted()
  expect([third.kept, third.read, third.transactions]).toEqual([6, 2, 2])
  await expectWhole(third)
}, 120_000)

test('a history that lacks a transaction of its newest slots still gets it', async () => {
  await counted()
  const { transactions } = await Archive.load(path, of())
  const [newest] = transactions.toSorted((a, b) => b.slot - a.slot)
  const others = transactions.filter((one) => one !== newest)
  new Archive(path, of()).extend(others, newest!.slot)
  const again = await counted()
  expect([again.read, again.kept]).toEqual([1, others.length])
  await expectWhole(again)
  // The first slot that is listed again holds a transaction that is known.
  site.chain.advance(2 * LISTED_AGAIN_SLOTS)
  new Archive(path, of()).extend(transactions, newest!.slot + LISTED_AGAIN_SLOTS)
  const edge = await counted()
  expect([edge.read, edge.kept]).toEqual([0, transactions.length])
}, 120_000)

/** Writes a changed copy of a chain's archive into a folder. @param through by default the end of the chain's archive */
async function archived(
  change: (transactions: ArchivedTransaction[]) => ArchivedTransaction[],
  through?: number,
): Promise<string> {
  await currentHistory(openChainReader(site.chain.url), site.program_id, { folder: path })
  const { transactions, through_slot } = await Archive.load(path, of())
  const copy = join(folder.dir, 'another')
  rmSync(copy, { force: true, recursive: true })
  new Archive(copy, of()).extend(change(transactions), through ?? through_slot)
  return copy
}
const reading = (archive: string) => currentHistory(chain(), site.program_id, { archive })
const failureOf = (answer: Promise<unknown>): Promise<Error> =>
  answer.then(
    () => new Error('nothing failed'),
    (error: Error) => error,
  )

test("another's archive replaces all reading before its end, and is not changed", async () => {
  const archive = await archived((all) => all)
  node.lies = {}
  const current = await reading(archive)
  expect([current.kept, current.read]).toEqual([current.archive.transactions.length, 0])
  const before = await Archive.load(archive, of())
  // A truncated and a stale archive are one case: the rest is read from the node, however long ago the archive ended.
  site.chain.advance(2 * LISTED_AGAIN_SLOTS)
  const all = byAge(before.transactions)
  const edge = all[3]!.slot
  const first = all.filter(({ slot }) => slot < edge)
  expect(first.length).toBeGreaterThan(0)
  const shorter = await archived(() => first, edge - 1)
  const [kept, read] = [first.length, all.length - first.length]
  expect(await reading(shorter)).toMatchObject({ kept, read })
  await settle()
  const later = await reading(shorter)
  expect([later.kept, later.read]).toEqual([kept, read + 1])
  await expectWhole(later)
  expect((await Archive.load(shorter, of())).transactions).toEqual(first)
}, 120_000)

test('an archive that omits or misstates something is rejected, and the missing part named', async () => {
  const edge = { through_slot: 2 ** 40 }
  const gap = await archived((all) => byAge(all).filter((_, at) => at !== FIRST_DEPOSIT))
  const lacking = await failureOf(reading(gap))
  expect(lacking).toBeInstanceOf(ArchiveRejected)
  expect(lacking.message).toContain('lacks leaf 0')
  const { transactions } = await Archive.load(path, of())
  const ahead = join(folder.dir, 'ahead')
  new Archive(ahead, of()).extend(byAge(transactions).slice(0, -1), edge.through_slot)
  expect((await failureOf(reading(ahead))).message).toMatch(/lacks (settlement batch|leaf) \d/)
  for (const [, change] of untrue) {
    const failure = await failureOf(reading(await archived(change)))
    expect(failure).toBeInstanceOf(ArchiveRejected)
    expect(failure.message).toContain('without --archive everything is read from the node')
  }
  expect(await failureOf(reading(join(folder.dir, 'nothing')))).toBeInstanceOf(ArchiveRejected)
}, 120_000)

test('a node that has pruned its history is named, and an archive makes up for it', async () => {
  const archive = await archived((all) => all)
  node.lies = { getSignaturesForAddress: (told) => (told as unknown[]).slice(0, 2) }
  const pruned = await failureOf(
    currentHistory(chain(), site.program_id, { folder: join(folder.dir, 'own') }),
  )
  expect(pruned).toBeInstanceOf(HistoryIncomplete)
  expect(pruned.message).toMatch(/lacks (leaf 0|settlement batch 1)/)
  expect((await reading(archive)).read).toBe(0)
}, 120_000)

test('transactions that name the tree account alone are listed and never read', async () => {
  const { tree } = vaultAddresses(programBytes(site.program_id))
  const payer = await openChainAccess(site.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(payer.payer.address, USDC, '1')
  await currentHistory(chain(), site.program_id, { folder: path })
  for (let at = 0; at < 3; at++) {
    const named = { address: tree, signer: false, writable: false }
    const transfer = transferLamports(payerKey(payer), payerKey(payer), BigInt(1 + at))
    const naming = { ...transfer, accounts: [...transfer.accounts, named] }
    await sendInstructions(payer, [toInstruction(naming, [payer.payer])], 'confirmed')
  }
  site.chain.advance(40)
  const again = await counted()
  expect([again.read, again.transactions]).toEqual([0, 0])
}, 120_000)

test('two nodes: either makes up for gaps of the other, and their contradictions are noticed', async () => {
  const both = () => openChainReader(`${node.url},${site.chain.url}`)
  const notices: string[] = []
  const from = { folder: path }
  const read = () =>
    currentHistory(both(), site.program_id, from, { notice: (sentence) => notices.push(sentence) })
  node.lies = { getSignaturesForAddress: (told) => (told as unknown[]).slice(0, 2) }
  await expectWholeTruth(await read())
  expect(notices[0]).toContain(`${node.url} does not list`)
  rmSync(path, { recursive: true })
  node.lies = { getTransaction: () => null }
  await expectWholeTruth(await read())
  type Accounts = { value: { data: [string, string] }[] }
  node.lies = {
    getMultipleAccounts: (result) => {
      const accounts = result as Accounts
      const tree = Buffer.from(accounts.value[1]!.data[0], 'base64')
      tree[16]! ^= 1
      accounts.value[1]!.data[0] = tree.toString('base64')
      return accounts
    },
  }
  expect((await failureOf(read())).name).toMatch(/NodesDisagree|ProofUnavailable/)
  node.lies = { getGenesisHash: () => site.program_id }
  expect(await failureOf(read())).toBeInstanceOf(NodesDisagree)
}, 120_000)
async function expectWholeTruth(answer: CurrentHistory): Promise<void> {
  node.lies = {}
  await expectWhole(answer)
}

test('a memo that an archive or a node misstates is found out in the batches of the wallet', async () => {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const made = { commitment: element('an output'), memo: new Uint8Array(16) }
  await site.signer.settle({ outputs: [made] })
  const last = (await readVaultState(chain(), site.program_id)).config.last_batch
  const honest = await archived((all) => all)
  const confirm = async (archive: string, spent_in: number[], reader = chain()) => {
    const current = await currentHistory(reader, site.program_id, { archive })
    return confirmBatches(reader, site.program_id, current, { spent_in: new Set(spent_in), seed })
  }
  expect(await confirm(honest, [last, 1])).toBe(0)
  node.lies = { getTransaction: () => null }
  expect(await confirm(honest, [last])).toBe(1)
  node.lies = {}
  // No root covers a memo: the history as such is accepted.
  const lying = await archived((all) => all.map((one) => rememoed(one, made.commitment)))
  const failure = await failureOf(confirm(lying, [last]))
  expect(failure).toBeInstanceOf(ArchiveRejected)
  expect(failure.message).toContain(`has another batch ${last} than`)
  // Of two nodes the second is compared with the answers of the first.
  rmSync(path, { recursive: true })
  const both = openChainReader(`${site.chain.url},${node.url}`)
  const current = await currentHistory(both, site.program_id, { folder: path })
  node.lies = { getTransaction: () => null }
  const of_both = { spent_in: new Set([last]), seed }
  // A batch that one node alone shows is compared with none.
  expect(await confirmBatches(both, site.program_id, current, of_both)).toBe(1)
  node.lies = {}
  expect(await confirmBatches(both, site.program_id, current, of_both)).toBe(0)
  const first = current.batches.get(last)!
  const told = { ...first, transaction: rememoed(first.transaction, made.commitment) }
  const lied = { ...current, batches: new Map([...current.batches, [last, told]]) }
  node.lies = {}
  expect(await failureOf(confirmBatches(both, site.program_id, lied, of_both))).toBeInstanceOf(NodesDisagree)
}, 120_000)
/** With another memo behind a commitment. */
function rememoed(one: ArchivedTransaction, commitment: Uint8Array): ArchivedTransaction {
  const data = one.data.map((bytes) => {
    const at = Buffer.from(bytes).indexOf(commitment)
    return at === -1 ? bytes : bytes.with(at + 32, bytes[at + 32]! ^ 1)
  })
  return { ...one, data }
}

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
  120_000,
)

test('a node that lacks the old transactions, and for a moment the newest, takes nothing from the kept history', async () => {
  await counted()
  const kept = await Archive.load(path, of())
  site.chain.advance(2 * LISTED_AGAIN_SLOTS)
  const [deposit] = await site.deposit(new Wallet(new Uint8Array(32).fill(9)), 9_000n)
  await site.signer.settle({ nullifiers: [nullifierOfNote(deposit!)] })
  type Listed = { slot: number }[]
  let behind = 1
  node.lies = {
    getSignaturesForAddress: (told) =>
      (told as Listed).filter(({ slot }) => slot > kept.through_slot).slice(behind),
  }
  const read = () => currentHistory(chain(), site.program_id, { folder: path })
  expect(read()).rejects.toThrow(HistoryIncomplete)
  await read().catch(() => {})
  const { transactions } = await Archive.load(path, of())
  expect(transactions.slice(0, kept.transactions.length)).toEqual([...kept.transactions])
  behind = 0
  const whole = await read()
  node.lies = {}
  await expectWhole(whole)
}, 120_000)
