/** Both roots and the queue follow from public events alone; an event list or an account that was tampered with is found out. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { auditChain } from '../../../client/audit/chain_audit'
import { openChainAccess } from '../../../client/chain/chain_access'
import { payPayout, readProofs, requestExit } from '../../../client/chain/exit_note'
import { readVaultEvents } from '../../../client/chain/read_history'
import { ownAccount, readVaultState, type VaultState } from '../../../client/chain/read_vault'
import { nullifierOfNote } from '../../../client/wallet/absorb'
import { eventsOfKind } from '../../../client/wallet/vault_history'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { decodeBase58 } from '../../../protocol/base58'
import { compareBytes, toHex } from '../../../protocol/bytes'
import { TREE_DEPTH } from '../../../protocol/limits'
import { EMPTY_SPENT_SUBTREES, EMPTY_SUBTREES, SPENT_LOG_DEPTH } from '../../../protocol/notes/merkle_tree'
import type { EventOf, VaultEvent } from '../../../protocol/vault/events'
import { USDC } from '../../../sandbox/environment'
import { said } from '../../kit/said'
import { element } from '../../kit/vault/open_vault'
import { CliSite } from '../cli_site'
import { LyingNode } from '../lying_node'

const CLI = join(import.meta.dir, '../../../client/cli/tacit.ts')

let site: CliSite
let node: LyingNode
let program_id: string
let events: VaultEvent[]
let vault: VaultState
/** Has an exit request that is not served. */
let leaving: WalletNote

const outputs = (...names: string[]) =>
  names
    .map((name) => ({ commitment: element(name), memo: new Uint8Array(16) }))
    .sort((a, b) => compareBytes(a.commitment, b.commitment))

/** Deposits, trades, a paid and a refunded withdrawal, one that waits, and an open exit. */
beforeAll(async () => {
  site = await CliSite.open()
  program_id = site.program_id
  const chain = await openChainAccess(site.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(chain.payer.address, USDC, '1')
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const notes = await site.deposit(wallet, 5_000n, 6_000n, 7_000n, 8_000n)
  const spends = (...at: number[]) => at.map((one) => nullifierOfNote(notes[one]!))
  await site.signer.settle({ nullifiers: spends(0), outputs: outputs('a', 'b', 'c') })
  const to = (destination: Uint8Array, amount: bigint) => {
    return { mint: decodeBase58(USDC, 32)!, amount, destination, inner: element(`refund ${amount}`) }
  }
  const own = ownAccount(chain, USDC).bytes
  const payouts = [to(own, 3_000n), to(element('nobody'), 2_000n)]
  const numbers = await site.signer.settle({ nullifiers: spends(1), payouts })
  await site.signer.settle({})
  for (const number of numbers) await payPayout(chain, { program_id, number, refund: false })
  notes.push(...(await site.deposit(wallet, 9_000n)))
  const rest = { outputs: outputs('d', 'e'), payouts: [to(own, 1_000n)] }
  await site.signer.settle({ nullifiers: spends(2, 4), ...rest })
  leaving = notes[3]!
  const proofs = await readProofs(chain, program_id)
  await requestExit(chain, wallet, leaving, { program_id, destination: own, proofs })
  site.chain.advance(60)
  await site.deposit(wallet, 1_500n)
  site.chain.advance(10)
  node = new LyingNode(site.chain.url)
  vault = await readVaultState(chain, program_id)
  events = await readVaultEvents(chain, program_id)
}, 180_000)
afterAll(async () => {
  await node?.stop()
  await site?.close()
})

type SettledEvent = EventOf<'settled'>
const isDeposit = (event: VaultEvent): event is EventOf<'deposited'> => event.kind === 'deposited'
const batches = () => eventsOfKind(events, 'settled').sort((a, b) => a.batch - b.batch)
const flipped = (bytes: Uint8Array): Uint8Array => bytes.map((byte, at) => (at === 31 ? byte ^ 1 : byte))
/** The list with one event put in the place of another. */
const replaced = <E extends VaultEvent>(old: E, change: Partial<E>): VaultEvent[] =>
  events.map((event) => (event === old ? { ...old, ...change } : event))
const without = (old: VaultEvent) => events.filter((event) => event !== old)
const findings = (list: readonly VaultEvent[], state = vault) => {
  const { verdict, note_tree, spent_log, queue } = auditChain(list, state)
  const all = [note_tree, spent_log, queue].flatMap(({ faults, missing }) => [...faults, missing ?? ''])
  return { verdict, said: all.filter((one) => one !== '').join('; ') }
}

test('the events of a vault lead to its accounts, in any order', () => {
  const audit = auditChain(events, vault)
  const { tree, config } = vault
  expect(audit).toMatchObject({ verdict: 'agrees', slot: vault.slot })
  expect(audit.note_tree).toMatchObject({ found: tree.root, count: tree.leaf_count, faults: [] })
  expect(audit.spent_log).toMatchObject({ found: tree.spent_root, count: config.last_batch, faults: [] })
  const [entry] = vault.queue.entries
  expect(audit.queue).toMatchObject({ length: 1, capacity: 60, oldest_slot: entry!.queued_slot })
  expect(audit.open_exits).toMatchObject([
    [toHex(nullifierOfNote(leaving)), { stage: 'requested', amount: BigInt(leaving.amount) }],
  ])
  expect(eventsOfKind(events, 'paid').map(({ outcome }) => outcome)).toContain('destination_missing')
  expect(vault.ring.states.length).toBeGreaterThan(1)
  expect(auditChain(events.toReversed(), vault)).toEqual(audit)
})

test('the remaining life of both trees follows from their growth since the oldest known state', () => {
  const { slot, tree, config, ring } = vault
  const oldest = { ...ring.states[0]!, slot: slot - 1_000 }
  const known = { ...vault, ring: { states: [oldest, ...ring.states.slice(1)] } }
  const { note_tree, spent_log } = auditChain(events, known)
  const grown = tree.leaf_count - oldest.leaf_count
  expect(note_tree.slots_left).toBe(Math.floor(((2 ** 40 - tree.leaf_count) * 1_000) / grown))
  const before = [{ spent_root: EMPTY_SPENT_SUBTREES[SPENT_LOG_DEPTH]!, batch: 0 }, ...batches()].findIndex(
    ({ spent_root }) => toHex(spent_root) === toHex(oldest.spent_root),
  )
  const settled = config.last_batch - before
  expect(spent_log.slots_left).toBe(Math.floor(((2 ** 40 - config.last_batch) * 1_000) / settled))
  expect(auditChain(events, { ...vault, ring: { states: [] } }).note_tree.slots_left).toBeUndefined()
})

test('an empty vault agrees with no events', () => {
  const spent_root = EMPTY_SPENT_SUBTREES[SPENT_LOG_DEPTH]!
  const tree = { ...vault.tree, leaf_count: 0, root: EMPTY_SUBTREES[TREE_DEPTH]!, spent_root }
  const config = { ...vault.config, last_batch: 0, spent_count: 0 }
  const queue = { ...vault.queue, next_number: 1, entries: [] }
  expect(findings([], { ...vault, tree, config, queue, ring: { states: [] } })).toEqual({
    verdict: 'agrees',
    said: '',
  })
})

test('transactions after the accounts were read are left out', () => {
  const earlier = vault.ring.states.at(-1)!
  const tree = { ...vault.tree, leaf_count: earlier.leaf_count, root: earlier.root }
  const { verdict, note_tree } = auditChain(events, { ...vault, tree })
  expect([verdict, note_tree.count]).toEqual(['agrees', earlier.leaf_count])
})

describe('a tampered event list is found out:', () => {
  test('an event left out', () => {
    const deposit = events.find(isDeposit)!
    const missing = `leaf ${deposit.leaf_index}`
    expect(findings(without(deposit))).toEqual({ verdict: 'incomplete', said: missing })
    const last = batches().at(-1)!
    const found = findings(without(last))
    expect(found.verdict).toBe('incomplete')
    expect(found.said).toContain(`settlement batch ${last.batch}`)
  })

  test('an event told twice', () => {
    const found = findings([...events, events.find(isDeposit)!])
    expect(found.verdict).toBe('differs')
    expect(found.said).toContain('takes a place that another has')
  })

  test('a deposit with another commitment, mint or amount', () => {
    const deposit = events.filter(isDeposit).at(-1)!
    const name = `the deposit at leaf ${deposit.leaf_index}`
    const forged = findings(replaced(deposit, { commitment: flipped(deposit.commitment) }))
    expect(forged.verdict).toBe('differs')
    expect(forged.said).toContain(`${name} names another note than its leaf`)
    expect(forged.said).toContain(`${name} is the first whose root is not that of its leaves`)
    for (const change of [{ amount: deposit.amount + 1n }, { mint: flipped(deposit.mint) }]) {
      const said = `${name} names another note than its leaf`
      expect(findings(replaced(deposit, change))).toEqual({ verdict: 'differs', said })
    }
  })

  test('outputs changed or in another order, and a refund of another amount', () => {
    const batch = batches().find(({ outputs }) => outputs.length > 1)!
    const said = `settlement batch ${batch.batch} is the first whose root is not that of its leaves`
    const [first, ...rest] = batch.outputs
    const changed = [{ ...first!, commitment: flipped(first!.commitment) }, ...rest]
    for (const outputs of [changed, [...batch.outputs].reverse()]) {
      const found = findings(replaced(batch, { outputs }))
      expect(found.verdict).toBe('differs')
      expect(found.said).toContain(said)
    }
  })

  test('a payment changed, left out or invented, and a queue that holds another entry', () => {
    const paid = eventsOfKind(events, 'paid')
    const refunded = paid.find(({ refund }) => refund !== undefined)!
    const name = `the refund at leaf ${refunded.refund!.leaf_index}`
    const amount = refunded.amount + 1n
    expect(findings(replaced(refunded, { amount }))).toEqual({
      verdict: 'differs',
      said: `${name} names another note than its leaf; the payment of entry ${refunded.number} is not of a payout that a batch queued`,
    })
    const transferred = paid.find(({ refund }) => refund === undefined)!
    const lost = `the payment of entry ${transferred.number}`
    expect(findings(without(transferred))).toEqual({ verdict: 'incomplete', said: lost })
    expect(findings([...events, transferred]).said).toContain(`${lost} is not of a payout`)
    const [entry] = vault.queue.entries
    const said = `entry ${entry!.number} of the payout queue is not as a batch queued it`
    for (const change of [{ amount: 1n }, { destination: entry!.mint }, { inner: entry!.mint }]) {
      const queue = { ...vault.queue, entries: [{ ...entry!, ...change }] }
      expect(findings(events, { ...vault, queue })).toEqual({ verdict: 'differs', said })
    }
  })

  test('a nullifier changed, left out, or spent again', () => {
    const [one, two] = batches().filter(({ nullifiers }) => nullifiers.length > 0) as [
      SettledEvent,
      SettledEvent,
    ]
    const first = `settlement batch ${one.batch} is the first whose spent root is not that of its nullifiers`
    const [nullifier, ...rest] = one.nullifiers
    for (const nullifiers of [[flipped(nullifier!), ...rest], rest])
      expect(findings(replaced(one, { nullifiers })).said).toContain(first)
    expect(findings(replaced(two, { nullifiers: [nullifier!] })).said).toContain(
      `settlement batch ${two.batch} spends nullifier ${toHex(nullifier!)} again`,
    )
  })

  test('accounts that hold other roots than the events lead to', () => {
    const { tree, ring } = vault
    const other = { ...vault, tree: { ...tree, root: flipped(tree.root) } }
    expect(findings(events, other).said).toContain('the account holds another root')
    const spent = { ...vault, tree: { ...tree, spent_root: flipped(tree.spent_root) } }
    expect(findings(events, spent).said).toContain('the account holds another spent root')
    const states = ring.states.map((state) => ({ ...state, root: flipped(state.root) }))
    expect(findings(events, { ...vault, ring: { states } }).said).toContain(
      'in the ring is none of this history',
    )
    const logs = ring.states.map((state) => ({ ...state, spent_root: flipped(state.spent_root) }))
    expect(findings(events, { ...vault, ring: { states: logs } }).said).toContain(
      'has a spent root of no batch',
    )
  })
})

const command = (...args: string[]) =>
  said(
    Bun.spawn([process.execPath, CLI, 'audit-chain', ...args], {
      stdout: 'pipe',
      stderr: 'pipe',
      stdin: 'ignore',
    }),
  )

test('the command distinguishes an honest node from one that lies or forgets', async () => {
  const where = ['--rpc', node.url, '--program', program_id]
  const honest = await command(...where)
  expect(honest).toMatchObject({ code: 0, error: '' })
  expect(honest.out).toContain('verdict      agrees')
  expect(honest.out.split(toHex(vault.tree.root))).toHaveLength(3)
  expect(honest.out).toMatch(/full in {4}[\d,]+ years/)

  node.lies = { getSignaturesForAddress: (page) => (page as { err: unknown }[]).slice(1) }
  const forgetful = await command(...where)
  expect([forgetful.code, forgetful.out.includes('missing')]).toEqual([2, true])

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
  const lying = await command(...where, '--json')
  expect(lying.code).toBe(1)
  expect(JSON.parse(lying.out)).toMatchObject({ verdict: 'differs', spent_log: { faults: [] } })
}, 120_000)

test('the command names the missing part', async () => {
  expect((await command('--rpc', node.url)).code).toBe(64)
  expect((await command('--rpc', node.url, '--program', 'no address')).code).toBe(64)
  node.lies = {}
  const elsewhere = await command('--rpc', node.url, '--program', USDC)
  expect(elsewhere).toMatchObject({ code: 3, error: expect.stringContaining('is not on the chain') })
}, 120_000)
