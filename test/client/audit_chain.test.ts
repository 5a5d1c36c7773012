/** Both roots follow from public events alone; an event list or an account that was tampered with is found out. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { auditChain } from '../../client/audit/chain_audit'
import { openChainReader } from '../../client/chain/chain_access'
import { readVaultEvents } from '../../client/chain/read_history'
import { readVaultState, type VaultState } from '../../client/chain/read_vault'
import { encodeBase58 } from '../../protocol/base58'
import { EMPTY_SUBTREES, TREE_DEPTH } from '../../protocol/notes/merkle_tree'
import { EMPTY_SPENT_ROOT } from '../../protocol/notes/spent_tree'
import type { DepositedEvent, SettledEvent, VaultEvent } from '../../protocol/vault/events'
import { seededRandom } from '../faults/kit/random'
import { EmbeddedSite, JTO, USDC } from '../kit/venue/embedded_site'
import { LyingNode } from './lying_node'
import { fundTraders, RandomSession } from './random_session'
import { WalletTrader } from './wallet_trader'

const CLI = join(import.meta.dir, '../../client/cli/audit_chain.ts')
const SEED = Number(process.env['SESSION_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const ACTIONS = 30

const site = new EmbeddedSite()
let node: LyingNode
let program_id: string
let events: VaultEvent[]
let vault: VaultState

beforeAll(async () => {
  await site.openChain()
  await site.openVenue()
  program_id = encodeBase58(site.chain.program_id!)
  const traders = await Promise.all(['ada', 'bob'].map((name) => WalletTrader.open(site, name)))
  await fundTraders(traders)
  const good = { [USDC]: await site.payee(USDC), [JTO]: await site.payee(JTO) }
  const unusable = encodeBase58(crypto.getRandomValues(new Uint8Array(32)))
  const session = new RandomSession(traders, seededRandom(SEED), { good, unusable })
  await session.play(ACTIONS)
  console.log(`session seed ${SEED}:`, session.tally)
  // One payout that comes back as a refund, and two batches that spend.
  for (const trader of traders) {
    await session.windUp(trader)
    const note = trader.wallet.state.notes.find(
      ({ state, amount }) => state === 'free' && BigInt(amount) > 5_000n,
    )
    expect(await trader.withdraw(note!, unusable, 2_000n)).toBeUndefined()
    await session.windUp(trader)
  }
  await site.venue.drain()
  await site.venue.close()
  node = new LyingNode(site.chain.url)
  const reader = openChainReader(site.chain.url)
  vault = await readVaultState(reader, program_id)
  events = await readVaultEvents(reader, program_id)
}, 60_000)
afterAll(async () => {
  await node?.stop()
  await site.chain?.close()
})

const isSettled = (event: VaultEvent): event is SettledEvent => event.kind === 'settled'
const isDeposit = (event: VaultEvent): event is DepositedEvent => event.kind === 'deposited'
const batches = () => events.filter(isSettled).sort((a, b) => a.batch - b.batch)
const flipped = (bytes: Uint8Array): Uint8Array => bytes.map((byte, at) => (at === 31 ? byte ^ 1 : byte))
/** The list with one event put in the place of another. */
const replaced = <E extends VaultEvent>(old: E, change: Partial<E>): VaultEvent[] =>
  events.map((event) => (event === old ? { ...old, ...change } : event))
const without = (old: VaultEvent) => events.filter((event) => event !== old)
const findings = (list: readonly VaultEvent[], state = vault) => {
  const { verdict, note_tree, spent_tree } = auditChain(list, state)
  const all = [note_tree, spent_tree].flatMap(({ faults, missing }) => [...faults, missing ?? ''])
  return { verdict, said: all.filter((one) => one !== '').join('; ') }
}

test('the events of a session lead to the roots of the accounts, in any order', () => {
  const audit = auditChain(events, vault)
  expect(audit).toMatchObject({ verdict: 'agrees', slot: vault.slot })
  expect(audit.note_tree).toMatchObject({ found: vault.tree.root, count: vault.tree.leaf_count, faults: [] })
  expect(audit.spent_tree).toMatchObject({ found: vault.config.spent_root, faults: [] })
  expect(audit.spent_tree.count).toBeGreaterThan(3)
  expect(batches().some(({ payouts }) => payouts.some(({ refund }) => refund !== undefined))).toBe(true)
  expect(vault.ring.states.length).toBeGreaterThan(0)
  const random = seededRandom(SEED)
  const mixed = events.map((event) => ({ event, at: random.integer(1_000_000) })).sort((a, b) => a.at - b.at)
  expect(
    auditChain(
      mixed.map(({ event }) => event),
      vault,
    ).verdict,
  ).toBe('agrees')
})

test('an empty vault agrees with no events', () => {
  const tree = { ...vault.tree, leaf_count: 0, root: EMPTY_SUBTREES[TREE_DEPTH]! }
  const config = { ...vault.config, last_batch: 0, spent_count: 0, spent_root: EMPTY_SPENT_ROOT }
  const ring = { states: [], spent_roots: [] }
  expect(findings([], { ...vault, tree, config, ring })).toEqual({ verdict: 'agrees', said: '' })
})

test('what the chain did after the accounts were read is left out', () => {
  const earlier = vault.ring.states.at(-1)!
  const { verdict, note_tree } = auditChain(events, { ...vault, tree: { ...vault.tree, ...earlier } })
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
    const refunded = batches().find(({ payouts }) => payouts.some(({ refund }) => refund !== undefined))!
    const payouts = refunded.payouts.map((payout) => ({ ...payout, amount: payout.amount + 1n }))
    expect(findings(replaced(refunded, { payouts }))).toEqual({
      verdict: 'differs',
      said: `settlement batch ${refunded.batch} names another note than its leaf`,
    })
  })

  test('a nullifier changed, left out, or spent again', () => {
    const [one, two] = batches().filter(({ nullifiers }) => nullifiers.length > 0) as [
      SettledEvent,
      SettledEvent,
    ]
    const first = `settlement batch ${one.batch} is the first whose spent root is not that of its nullifiers`
    const [nullifier, ...rest] = one.nullifiers
    const lowered = nullifier!.map((_, at) => (at === 31 ? 1 : 0))
    for (const nullifiers of [[lowered, ...rest], rest])
      expect(findings(replaced(one, { nullifiers }))).toEqual({ verdict: 'differs', said: first })
    expect(findings(replaced(two, { nullifiers: [nullifier!] }))).toEqual({
      verdict: 'differs',
      said: `settlement batch ${two.batch}: a nullifier is zero or already spent`,
    })
    const destination = new Uint8Array(32)
    const escaped = {
      kind: 'escaped',
      nullifier: nullifier!,
      mint: destination,
      amount: 1n,
      destination,
    } as const
    expect(findings([...events, escaped]).said).toContain('was settled and escaped too')
  })

  test('accounts that hold other roots than the events lead to', () => {
    const { tree, config, ring } = vault
    const other = { ...vault, tree: { ...tree, root: flipped(tree.root) } }
    expect(findings(events, other).said).toContain('the account holds another root')
    const spent = { ...vault, config: { ...config, spent_root: flipped(config.spent_root) } }
    expect(findings(events, spent).said).toContain('the account holds another spent root')
    const states = ring.states.map((state) => ({ ...state, root: flipped(state.root) }))
    expect(findings(events, { ...vault, ring: { ...ring, states } }).said).toContain('in the ring')
  })
})

async function command(...args: string[]): Promise<{ code: number; out: string; error: string }> {
  const child = Bun.spawn([process.execPath, CLI, ...args], {
    stdout: 'pipe',
    stderr: 'pipe',
    stdin: 'ignore',
  })
  const texts = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()])
  const [code, [out, error]] = await Promise.all([child.exited, texts])
  return { code, out, error }
}

test('the command tells an honest node from one that lies or forgets', async () => {
  const where = ['--rpc', node.url, '--program', program_id]
  const honest = await command(...where)
  expect(honest).toMatchObject({ code: 0, error: '' })
  expect(honest.out).toContain('verdict      agrees')
  const root = Buffer.from(vault.tree.root).toString('hex')
  expect(honest.out.split(root)).toHaveLength(3)

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
  expect(JSON.parse(lying.out)).toMatchObject({ verdict: 'differs', spent_tree: { faults: [] } })
}, 30_000)

test('the command says what it lacks', async () => {
  expect((await command('--rpc', node.url)).code).toBe(64)
  expect((await command('--rpc', node.url, '--program', 'no address')).code).toBe(64)
  node.lies = {}
  const elsewhere = await command('--rpc', node.url, '--program', USDC)
  expect(elsewhere).toMatchObject({ code: 3, error: expect.stringContaining('is not on the chain') })
}, 30_000)
