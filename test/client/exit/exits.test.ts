/** With the venue off: a seed and the public chain recover every note, demand its payout and freeze the vault. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import {
  type ChainAccess,
  openChainAccess,
  openChainReader,
  toInstruction,
} from '../../../client/chain/chain_access'
import { currentHistory } from '../../../client/chain/current_history'
import { airdrop } from '../../../client/chain/deposit'
import { closeExit, freezeVault, readProofs, requestExit } from '../../../client/chain/exit_note'
import {
  createAssociatedAccount,
  ownAccount,
  readExitRequest,
  readMintRecord,
  tokenBalance,
} from '../../../client/chain/read_vault'
import { sendInstructions, TransactionFailed } from '../../../client/chain/send_instructions'
import { exitRequestFields, ProofUnavailable, type VaultProofs } from '../../../client/exit/prepare_exit'
import { absorbRecovered, adoptRefunds, nullifierOfNote } from '../../../client/wallet/absorb'
import { type GapLimits, recoverWallet } from '../../../client/wallet/recover'
import { leafFinder } from '../../../client/wallet/vault_history'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { deriveTradingKey } from '../../../protocol/notes/derive'
import { quoteAmount } from '../../../protocol/units'
import { type RequestExitFields, requestExitInstruction } from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { JTO, USDC } from '../../../sandbox/environment'
import { chainFolder } from '../../kit/chain/chain_folder'
import { Random } from '../../kit/random'
import { EmbeddedSite } from '../../kit/venue/embedded_site'
import { bytes } from '../../kit/venue/memory_chain'
import { WalletTrader } from '../wallet_trader'

class Followers {
  private readonly folder = chainFolder()
  private readonly path = join(this.folder.dir, 'wallet.json.history')
  wallets: Wallet[] = []

  constructor(
    private readonly of: { seeds: Uint8Array[]; rpc_url: string; program_id: string; limits: GapLimits },
  ) {
    this.forget()
  }

  /** Nothing is left but the seeds. */
  forget(): void {
    rmSync(this.path, { force: true, recursive: true })
    this.wallets = this.of.seeds.map((seed) => new Wallet(seed))
  }

  /** @returns transactions the node was asked for. */
  async follow(): Promise<number> {
    const { rpc_url, program_id, limits } = this.of
    const from = { folder: this.path }
    const { proofs, read } = await currentHistory(openChainReader(rpc_url), program_id, from)
    const { history, vault } = proofs
    for (const wallet of this.wallets)
      absorbRecovered(wallet, recoverWallet(wallet.seed, history, vault.config.generation, limits), history)
    return read
  }

  remove(): void {
    this.folder.remove()
  }
}

/** The properties of a note, apart from its origin. */
function notesOf(wallet: Wallet) {
  const notes = wallet.state.notes.map(({ origin, ...note }) => note)
  return notes.sort((a, b) => (a.commitment < b.commitment ? -1 : 1))
}

const LOT = 1_000_000n
const PRICE = 100_000_000n
const TICK = 10_000n
/** A withdrawal costs this, and pays at least ten times as much. */
const WITHDRAW_FEE = 100n
const WITHDRAW_MIN = 1_000n

type Destinations = { good: Record<string, string>; unusable: string }

/** Counts executed steps, so that a session without any is seen. */
type Tally = Record<string, number>

class RandomSession {
  readonly tally: Tally = {}
  constructor(
    private readonly traders: readonly WalletTrader[],
    private readonly random: Random,
    private readonly destinations: Destinations,
  ) {}

  /** Sides are swapped half way, so that proceeds are spent again; no account trades with itself. */
  async play(actions: number): Promise<void> {
    for (let at = 0; at < actions; at++) {
      const second_half = at * 2 >= actions
      if (at * 2 === actions) for (const trader of this.traders) await this.cancelAll(trader)
      const index = this.random.below(this.traders.length)
      const trader = this.traders[index]!
      await trader.pass(1)
      await trader.sync()
      await this.act(trader, (index % 2 === 1) === second_half ? USDC : JTO)
    }
  }

  /** Resolves once everything of this trader is final on chain. */
  async windUp(trader: WalletTrader): Promise<void> {
    await this.cancelAll(trader)
    await trader.until(() => trader.settled)
  }

  private async cancelAll(trader: WalletTrader): Promise<void> {
    await trader.sync()
    for (const order of trader.wallet.state.orders)
      if (order.open) this.count('cancel', await trader.cancel(order.order_id))
  }

  private async act(trader: WalletTrader, offers: string): Promise<void> {
    const free = trader.wallet.state.notes.filter(({ state }) => state === 'free')
    const note = free.length > 0 ? this.random.pick(free) : undefined
    const live = trader.wallet.state.orders.filter((order) => order.open)
    const open = live.length > 0 ? this.random.pick(live) : undefined
    const dice = this.random.below(20)
    if (dice < 2 && open !== undefined) this.count('cancel', await trader.cancel(open.order_id))
    else if (note === undefined) return
    else if (dice < 14 && note.mint === offers) await this.place(trader, note)
    else if (dice < 16 && dice >= 14) await this.withdraw(trader, note)
    else if (dice >= 16) await this.reshape(trader, note)
  }

  private count(what: string, refused: string | undefined): void {
    const name = refused === undefined ? what : `${what} ${refused}`
    this.tally[name] = (this.tally[name] ?? 0) + 1
  }

  private async place(trader: WalletTrader, note: WalletNote): Promise<void> {
    const sells = note.mint === JTO
    const better = BigInt(this.random.below(9) - 2) * TICK
    const price_limit = sells ? PRICE - better : PRICE + better
    const most = sells ? BigInt(note.amount) : (BigInt(note.amount) * 990_000_000n) / price_limit
    const lots = Number(most / LOT)
    if (lots < 1) return
    const amount = BigInt(1 + this.random.below(Math.min(lots, 2_000))) * LOT
    if (quoteAmount(amount, price_limit, 9) === 0n) return
    const type = this.random.pick(['limit', 'limit', 'ioc'] as const)
    const answer = await trader.place(note, { side: sells ? 'sell' : 'buy', type, amount, price_limit })
    this.count('place', 'code' in answer ? answer.code : undefined)
  }

  /** In part or whole, to an account that can be paid or not. */
  private async withdraw(trader: WalletTrader, note: WalletNote): Promise<void> {
    const whole = BigInt(note.amount) - WITHDRAW_FEE
    if (whole < WITHDRAW_MIN) return
    const amount = this.random.below(2) === 0 ? whole : WITHDRAW_MIN + (whole - WITHDRAW_MIN) / 3n
    const { good, unusable } = this.destinations
    const destination = this.random.below(2) === 0 ? good[note.mint]! : unusable
    const kind = destination === unusable ? 'withdraw unpayable' : 'withdraw'
    this.count(kind, await trader.withdraw(note, destination, amount))
  }

  private async reshape(trader: WalletTrader, note: WalletNote): Promise<void> {
    const alike = trader.wallet.state.notes.filter(
      (one) => one.state === 'free' && one.mint === note.mint && one.key_index === note.key_index,
    )
    if (alike.length > 1 && this.random.below(2) === 0) {
      const merged = alike.slice(0, 2 + this.random.below(3))
      const sum = merged.reduce((total, one) => total + BigInt(one.amount), 0n)
      this.count('merge', await trader.reshape(merged, [sum]))
      return
    }
    const part = BigInt(note.amount) / 3n
    if (part > 0n)
      this.count('split', await trader.reshape([note], [part, part, BigInt(note.amount) - 2n * part]))
  }
}

/** Two traders with two keys each: the first rich in USDC, the second in JTO, and both have some of each. */
async function fundTraders(traders: readonly WalletTrader[]): Promise<void> {
  const rich: Record<string, bigint> = { [USDC]: 400_000_000n, [JTO]: 4_000_000_000n }
  await Promise.all(
    traders.map(async (trader, at) => {
      const [much, little] = at % 2 === 0 ? ([USDC, JTO] as const) : ([JTO, USDC] as const)
      await trader.deposit(much, 0, ...[1n, 2n, 4n, 5n, 8n].map((part) => rich[much]! / part))
      await trader.deposit(little, 1, rich[little]! / 8n, rich[little]! / 8n)
    }),
  )
}

const SEED = Number(process.env['SESSION_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const ACTIONS = 90
const PARTS = 3
/** A small wallet leaves small gaps. */
const LIMITS = { keys: 2, deposits: 20, commands: 60 }
const EXIT_DELAY_S = 7 * 86_400
const BOND_LAMPORTS = 20_000_000n

const site = new EmbeddedSite()
let followers: Followers
let traders: WalletTrader[] = []
let program_id: string
/** Recovered from seeds alone; everything after the first test is theirs. */
const wallets: Wallet[] = []
/** Pays all fees; a fresh key that no other part uses. */
let chain: ChainAccess
let proofs: VaultProofs

beforeAll(async () => {
  await site.openChain()
  await site.openVenue()
  program_id = encodeBase58(site.chain.program_id!)
  traders = await Promise.all(['ada', 'bob'].map((name) => WalletTrader.open(site, name)))
  await fundTraders(traders)
  const good = { [USDC]: await site.payee(USDC), [JTO]: await site.payee(JTO) }
  const unusable = encodeBase58(crypto.getRandomValues(new Uint8Array(32)))
  const session = new RandomSession(traders, new Random(SEED), { good, unusable })
  const seeds = traders.map(({ wallet }) => wallet.seed)
  followers = new Followers({ seeds, rpc_url: site.chain.url, program_id, limits: LIMITS })
  for (let part = 0; part < PARTS; part++) {
    await session.play(ACTIONS / PARTS)
    await followers.follow()
  }
  console.log(`session seed ${SEED}:`, session.tally)
  for (const trader of traders) await session.windUp(trader)
  await site.venue.drain()
  await site.venue.close()
  chain = await openChainAccess(site.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await airdrop(chain, 10_000_000_000n)
  site.chain.advance(2)
  const accounts = [USDC, JTO].map((mint) => createAssociatedAccount(chain, payer(), decodeBase58(mint, 32)!))
  await sendInstructions(chain, accounts, 'confirmed')
}, 180_000)
afterAll(async () => {
  await site.chain?.close()
  followers?.remove()
})

const payer = (): Uint8Array => decodeBase58(chain.payer.address, 32)!
const destinationOf = (note: WalletNote): Uint8Array => ownAccount(chain, note.mint).bytes
const unspent = (wallet: Wallet): WalletNote[] => wallet.state.notes.filter(({ state }) => state !== 'spent')

/** The vault's refusal of an instruction the owner of `signer`'s key signs, or `landed`. */
async function verdictOn(instruction: VaultInstruction, signer: Uint8Array): Promise<string> {
  const owner = await createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(signer))
  return refusalOf(sendInstructions(chain, [toInstruction(instruction, [owner, chain.payer])], 'confirmed'))
}
async function refusalOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer
    return 'landed'
  } catch (error) {
    if (error instanceof TransactionFailed) return error.facts.refusal ?? error.message
    if (error instanceof ProofUnavailable) return error.facts.reason
    throw error
  }
}

test('a wallet recovered from its seed has exactly the notes it had', async () => {
  proofs = await readProofs(chain, program_id)
  const { history, vault } = proofs
  for (const { wallet } of traders) {
    await adoptRefunds(wallet, leafFinder(history))
    const recovered = recoverWallet(wallet.seed, history, vault.config.generation, LIMITS)
    expect(notesOf(recovered)).toEqual(notesOf(wallet))
    wallets.push(recovered)
  }
  // The same from a history read piece by piece, and from nothing again once that is lost.
  const whole = wallets.map(notesOf)
  const rest = await followers.follow()
  expect(followers.wallets.map(notesOf)).toEqual(whole)
  followers.forget()
  expect(await followers.follow()).toBeGreaterThan(rest)
  expect(followers.wallets.map(notesOf)).toEqual(whole)
  const origins = wallets.flatMap(({ state }) => state.notes.map(({ origin }) => origin))
  expect(new Set(origins).size).toBeGreaterThan(1)
}, 120_000)

test('an exit request shows its own note, its owner and a true path', async () => {
  const [wallet, other] = wallets as [Wallet, Wallet]
  const note = unspent(wallet)[0]!
  const terms = {
    program: site.chain.program_id!,
    payer: payer(),
    destination: destinationOf(note),
    refund_blinding: bytes(32),
  }
  const good = exitRequestFields(wallet, note, proofs, terms)
  const verdict = (
    change: Partial<RequestExitFields>,
    signer = deriveTradingKey(wallet.seed, note.key_index),
  ) => verdictOn(requestExitInstruction({ ...good, ...change }), signer)
  const forged = [...good.path.slice(1), good.refund_inner]
  expect(await verdict({ path: forged })).toBe('invalid_inclusion')
  expect(await verdict({ opening: { ...good.opening, amount: 1n << 40n } })).toBe('invalid_inclusion')
  expect(await verdict({ owner: other.tradingKey(0) }, deriveTradingKey(other.seed, 0))).toBe(
    'invalid_inclusion',
  )
  expect(await verdict({ cited_root: good.refund_inner })).toBe('unknown_state')
  const spent = wallet.state.notes.find(({ state }) => state === 'spent')!
  const to = { program_id, destination: destinationOf(spent), proofs }
  expect(await refusalOf(requestExit(chain, wallet, spent, to))).toBe('spent')
}, 120_000)

test('a request can freeze the vault only after its deadline', async () => {
  const [wallet] = wallets as [Wallet]
  const requested = unspent(wallet)[0]!
  const nullifier = nullifierOfNote(requested)
  expect(await refusalOf(freezeVault(chain, program_id, nullifier))).toContain('there is no exit request')
  const to = { program_id, destination: destinationOf(requested), proofs }
  await requestExit(chain, wallet, requested, to)
  expect(requested.state).toBe('pending')
  expect(await refusalOf(requestExit(chain, wallet, requested, to))).toBe('exit_already_requested')
  const open = await readExitRequest(chain, program_id, nullifier)
  expect(open).toMatchObject({ nullifier, amount: BigInt(requested.amount), destination: to.destination })
  expect(await refusalOf(freezeVault(chain, program_id, nullifier))).toBe('deadline_not_reached')
  expect(await refusalOf(closeExit(chain, program_id, nullifier))).toBe('exit_open')
  site.chain.warpTime(EXIT_DELAY_S + 60)
  // The clock is that of the newest slot.
  site.chain.advance(1)
  const { value: before } = await chain.rpc
    .getBalance(chain.payer.address, { commitment: 'confirmed' })
    .send()
  await freezeVault(chain, program_id, nullifier)
  await closeExit(chain, program_id, nullifier)
  const { value: after } = await chain.rpc.getBalance(chain.payer.address, { commitment: 'confirmed' }).send()
  expect(after - before).toBeGreaterThan(BOND_LAMPORTS - 100_000n)
  const fresh = await readProofs(chain, program_id, { commitment: 'confirmed' })
  expect(fresh.vault.config.frozen).toBe(true)
  const second = unspent(wallet)[1]!
  expect(await refusalOf(requestExit(chain, wallet, second, { ...to, proofs: fresh }))).toBe('vault_frozen')
  proofs = fresh
}, 120_000)

test("notes and unissued fees sum to the vault's debts and balance", async () => {
  for (const mint of [USDC, JTO]) {
    const paid = traders.flatMap(({ wallet }) => wallet.state.fees.filter((fee) => fee.mint === mint))
    const fees = paid.reduce((sum, fee) => sum + BigInt(fee.amount), 0n)
    const owned = wallets.reduce((sum, wallet) => sum + wallet.balance(mint), 0n)
    const record = await readMintRecord(chain, program_id, mint)
    expect([record.liabilities, record.queued]).toEqual([owned + fees, 0n])
    expect(await tokenBalance(chain, record.vault_token)).toBe(owned + fees)
  }
}, 120_000)
