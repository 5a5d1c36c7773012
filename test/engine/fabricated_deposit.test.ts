/** An endpoint invents a deposit: the venue stops, the vault pays nothing, and the way back works. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { join } from 'node:path'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { concatBytes, toHex, u64Le } from '../../protocol/bytes'
import { MerkleTree } from '../../protocol/notes/merkle_tree'
import { depositCommitment, noteInner } from '../../protocol/notes/notes'
import { vaultAddresses } from '../../protocol/vault/addresses'
import { decodeEvent } from '../../protocol/vault/events'
import { USDC } from '../../sandbox/environment'
import { announceRestore } from '../kit/vault/open_vault'
import { EmbeddedTrading, soon } from '../kit/venue/embedded_site'
import { type Deposit, element, type Trader } from '../kit/venue/trader'

type Fabricated = {
  leaf_index: number
  mint: Uint8Array
  amount: bigint
  inner: Uint8Array
  commitment: Uint8Array
}

/** Where the note tree account keeps its count; the root follows. */
const LEAF_COUNT_AT = 8
const ROOT_AT = 16

type Call = { method: string; params: unknown[] }
type Reply = { result: unknown }

class LyingRpc {
  private lie:
    | (Fabricated & { root: Uint8Array; signature: string; slot: number; transaction: unknown })
    | undefined
  private readonly server: ReturnType<typeof Bun.serve>

  constructor(
    private readonly truth_url: string,
    private readonly tree: string,
  ) {
    this.server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: (request) => this.answer(request) })
  }

  get url(): string {
    return `http://127.0.0.1:${this.server.port}`
  }

  /** From now on the tree has one leaf more: `leaves` are the real ones. */
  async tell(deposit: Fabricated, leaves: readonly Uint8Array[]): Promise<void> {
    const tree = new MerkleTree()
    tree.append([...leaves, deposit.commitment])
    const page = (await this.truth({ method: 'getSignaturesForAddress', params: [this.tree] })).result
    const [{ signature: real, slot }] = page as [{ signature: string; slot: number }]
    const config = { commitment: 'finalized', encoding: 'base64', maxSupportedTransactionVersion: 1 }
    const { result } = await this.truth({ method: 'getTransaction', params: [real, config] })
    const signature = encodeBase58(crypto.getRandomValues(new Uint8Array(64)))
    const root = tree.root()
    this.lie = { ...deposit, root, signature, slot, transaction: withEvent(result, deposit, root) }
  }

  tellTruth(): void {
    this.lie = undefined
  }

  async stop(): Promise<void> {
    await this.server.stop(true)
  }

  private async truth(call: Call): Promise<Reply> {
    const reply = await fetch(this.truth_url, post({ jsonrpc: '2.0', id: 1, ...call }))
    return (await reply.json()) as Reply
  }

  private async answer(request: Request): Promise<Response> {
    const text = await request.text()
    const call = JSON.parse(text) as Call
    const { lie } = this
    if (
      lie === undefined ||
      !['getMultipleAccounts', 'getSignaturesForAddress', 'getTransaction'].includes(call.method)
    ) {
      return fetch(this.truth_url, post(text))
    }
    if (call.method === 'getTransaction' && call.params[0] === lie.signature) {
      return Response.json({ jsonrpc: '2.0', id: 1, result: lie.transaction })
    }
    const reply = await this.truth(call)
    if (call.method === 'getMultipleAccounts') this.bendTree(lie, call.params[0] as string[], reply)
    const from_newest = (call.params[1] as { before?: string } | undefined)?.before === undefined
    if (call.method === 'getSignaturesForAddress' && call.params[0] === this.tree && from_newest) {
      const { signature, slot } = lie
      const entry = {
        signature,
        slot,
        err: null,
        memo: null,
        blockTime: null,
        confirmationStatus: 'finalized',
      }
      ;(reply.result as unknown[]).unshift(entry)
    }
    return Response.json(reply)
  }

  /** An answer under way stays false, also when later answers are true. */
  private bendTree(lie: { leaf_index: number; root: Uint8Array }, addresses: string[], reply: Reply): void {
    const at = addresses.indexOf(this.tree)
    const account =
      at === -1 ? undefined : (reply.result as { value: { data: [string, string] }[] }).value[at]
    if (account === undefined) return
    const data = Buffer.from(account.data[0], 'base64')
    data.set(u64Le(lie.leaf_index + 1), LEAF_COUNT_AT)
    data.set(lie.root, ROOT_AT)
    account.data[0] = data.toString('base64')
  }
}

/** The transaction of a real deposit with another deposit's event in it. */
function withEvent(real: unknown, deposit: Fabricated, root: Uint8Array): unknown {
  const copy = structuredClone(real) as {
    meta: { innerInstructions: { instructions: { data: string }[] }[] }
  }
  const { leaf_index, mint, amount, inner, commitment } = deposit
  const data = concatBytes(
    Uint8Array.of(255, 1),
    u64Le(leaf_index),
    mint,
    u64Le(amount),
    inner,
    commitment,
    root,
    mint,
  )
  const told = decodeEvent(data)
  if (told?.kind !== 'deposited' || toHex(told.commitment) !== toHex(commitment))
    throw new Error('not an event')
  const events = copy.meta.innerInstructions.flatMap(({ instructions }) => instructions)
  events.at(-1)!.data = encodeBase58(data)
  return copy
}

function post(body: unknown): RequestInit {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { method: 'POST', headers: { 'content-type': 'application/json' }, body: text }
}

const world = new EmbeddedTrading()
const { site } = world
let rpc: LyingRpc
beforeAll(async () => {
  await site.openChain()
  rpc = new LyingRpc(site.chain.url, encodeBase58(vaultAddresses(site.chain.program_id!).tree))
  site.rpc_urls = [rpc.url]
  await site.openVenue()
  await site.issue('alice')
  world.alice = world.trader('alice')
}, 120_000)
afterAll(async () => {
  await site.remove()
  await rpc.stop()
})

/** A deposit that only the endpoint knows of. */
async function fabricate(trader: Trader, amount: bigint): Promise<Deposit> {
  const mint = decodeBase58(USDC, 32)!
  const { leaf_count: leaf_index } = site.hash.root()
  const blinding = element()
  const inner = noteInner(trader.key, blinding)
  const commitment = depositCommitment({ mint, amount, inner, leaf_index })
  await rpc.tell({ leaf_index, mint, amount, inner, commitment }, await site.hash.leaves(0, leaf_index))
  const opening = { mint: USDC, amount: `${amount}`, blinding: toHex(blinding), leaf_index }
  return { commitment: toHex(commitment), opening }
}

const usdc = async () => {
  const found = (await site.port.readMints()).find(({ mint }) => encodeBase58(mint) === USDC)!
  return [found.balance, found.liabilities]
}

test('a fabricated deposit is never paid; the truth stops the venue, and a restore from chain goes on', async () => {
  const { venue } = site
  const real = await world.deposited(world.alice, USDC, 5_000_000n)
  const fake = await fabricate(world.alice, 5_000_000n)
  while (venue.treeRoot().leaf_count < 2) await soon()
  while (!(await venue.treeInclusion(1)).usable) await soon()
  const destination = await world.payee(USDC)
  const { withdrawal_id } = await venue.withdraw(
    'alice',
    world.alice.withdrawal(fake, 4_000_000n, destination),
  )
  const later = site.chain.slot() + 60
  while (site.chain.slot() < later) await soon()
  expect(['accepted', 'submitted']).toContain((await venue.withdrawal('alice', withdrawal_id)).status)
  expect(await usdc()).toEqual([5_000_000n, 5_000_000n])

  rpc.tellTruth()
  await site.deposit(world.alice, USDC, 1_000_000n)
  while (venue.status().matching !== 'stopped') await soon()
  expect(venue.status().reasons.join()).toContain('the note tree on chain, or what was spent, differs')
  expect(world.balance(destination)).toBe(1n)
  await venue.close()

  site.chain.warpTime(await announceRestore(site.chain))
  site.chain.advance(1)
  await site.openVenue(join(site.dir, 'restored'))
  expect(site.venue.status()).toMatchObject({ ready: true })
  await site.issue('alice')
  const { seed, key, trading_key } = world.alice
  const alice = Object.assign(world.trader('alice'), { seed, key, trading_key })
  while (site.venue.treeRoot().leaf_count < 2) await soon()
  while (!(await site.venue.treeInclusion(1)).usable) await soon()
  const kept = await site.venue.withdraw('alice', alice.withdrawal(real, 4_000_000n, destination))
  while ((await site.venue.withdrawal('alice', kept.withdrawal_id)).status !== 'paid') await soon()
  expect(world.balance(destination)).toBe(4_000_001n)
  expect(await usdc()).toEqual([2_000_000n, 2_000_000n])
  expect(site.fatal).toEqual([])
}, 120_000)
