/** The world of a simulation: traders with wallets, vault, venue, and the points that a long run must reach. */
import type { Command } from '../../engine/commands'
import type { Note } from '../../engine/machine/state/note'
import type { State } from '../../engine/machine/state/state'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../protocol/notes/notes'
import { publicKeyOf } from '../../protocol/sign'
import { TOKEN_PROGRAM, vaultTokenAddress } from '../../protocol/vault/addresses'
import type { EventOf, VaultEvent } from '../../protocol/vault/events'
import { depositInstruction } from '../../protocol/vault/exits'
import { associatedTokenAddress } from '../../sandbox/chain/faucet'
import type { Random } from '../kit/random'
import { admission } from '../kit/venue/machine_world'
import { BatchLaws, Holdings, OrderLedger } from './batch_laws'
import { DEATHS, Died, FAIR, Relay, type Weather } from './relay'
import { FINALIZED_DEPTH, MACHINE, MINTS, SimChain, SimVenue, simSettings } from './sim_venue'

/** Half of the payees of a mint can be paid; the others are missing, the vault itself, and of another mint. */
async function fundWallet({ chain, wallet, payees, random }: Simulation): Promise<void> {
  const { faucet } = chain.chain
  const owner = encodeBase58(wallet.key)
  await faucet.airdrop(owner, 10n ** 15n)
  const paid: Uint8Array[] = []
  for (const mint of MINTS) {
    await faucet.mintTo(mint, owner, 10n ** 17n)
    paid.push(decodeBase58(await associatedTokenAddress(owner, mint), 32)!)
  }
  MINTS.forEach((mint, at) => {
    const bytes = decodeBase58(mint, 32)!
    const usable = paid[at]!
    const other = paid[(at + 1) % paid.length]!
    const vault = vaultTokenAddress(chain.program, bytes)
    payees.set(toHex(bytes), [usable, usable, usable, random.bytes(32), vault, other])
  })
}

export const TRADERS = 8
const KEPT_SPENT = 64
const OPENINGS_MAX = 5
/** No settlement while it is up. */
const SILENT: Weather = { ...FAIR, silent: true }

/** Opens a note of the venue's. */
export type KnownNote = Pick<Note, 'owner' | 'mint' | 'amount' | 'commitment' | 'blinding' | 'leaf_index'>
type SimTrader = { account_id: string; seed: Uint8Array; key: Uint8Array }

export class Simulation {
  readonly chain = new SimChain()
  readonly holdings = new Holdings()
  readonly orders = new OrderLedger()
  readonly laws: BatchLaws
  readonly traders: SimTrader[]
  /** By mint, hex: token accounts that can be paid, and addresses that cannot. */
  readonly payees = new Map<string, Uint8Array[]>()
  /** Blindings of the refund notes that exit requests name, by nullifier. */
  readonly refund_blindings = new Map<string, { owner: number; blinding: Uint8Array }>()
  /** Notes that batches spent lately, as they were. */
  readonly spent: KnownNote[] = []
  /** Counts of done operations, of rejections by cause, and of operations without an object. */
  readonly counts = new Map<string, number>()
  /** How often each point was reached. */
  readonly reached = new Map<string, number>()
  readonly landings = { landed: 0, refunded: 0, exits_served: 0 }
  readonly wallet: { seed: Uint8Array; key: Uint8Array }
  /** Of even and odd epochs: each boot has another key than the epoch before. */
  readonly #settlement_seeds: readonly [Uint8Array, Uint8Array]
  #opening = false
  #lawful = { tip: 0, seq: 0 }
  venue!: SimVenue
  relay!: Relay

  constructor(readonly random: Random) {
    const seed = random.bytes(32)
    this.wallet = { seed, key: publicKeyOf(seed) }
    this.#settlement_seeds = [random.bytes(32), random.bytes(32)]
    this.traders = Array.from({ length: TRADERS }, (_, at) => {
      const own = random.bytes(32)
      return { account_id: `trader${at}`, seed: own, key: publicKeyOf(own) }
    })
    this.laws = new BatchLaws(
      new Map(this.traders.map(({ account_id, key }) => [account_id, encodeBase58(key)])),
    )
  }

  count(name: string): void {
    this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
  }

  reach(points: readonly string[]): void {
    for (const point of points) this.reached.set(point, (this.reached.get(point) ?? 0) + 1)
  }

  async open(): Promise<void> {
    const { chain } = this
    await chain.open(this.#settlement_seeds)
    await fundWallet(this)
    chain.advance()
    this.venue = new SimVenue()
    this.venue.onAccepted = (command, outcome) => {
      this.reach(reachedBy(`command ${nameOfCommand(command)}`, this.venue.state))
      this.orders.seen(command, outcome)
      this.laws.check(this.venue.state)
    }
    this.venue.must({ kind: 'configure', settings: simSettings(this.traders[0]!.key) })
    this.venue.must({ kind: 'slot', reopens_slot: 0, slot: chain.tip })
    for (const { account_id } of this.traders) {
      this.venue.must(admission(account_id, { orders_live_max: 1_000 }))
    }
    await this.boot()
  }

  /** One slot, and the law; `seen` gets the slot's events before the law is checked. */
  async tick(
    weather: Weather = this.#weather(),
    seen: (event: VaultEvent) => void = () => {},
  ): Promise<VaultEvent[]> {
    this.#rememberSpent()
    const { chain } = this
    const before = chain.tip
    let died: Died | undefined
    await this.relay.tick(this.#opening ? SILENT : weather).catch((error: unknown) => {
      if (!(error instanceof Died)) throw error
      died = error
    })
    const events = chain.tip > before ? chain.eventsIn(chain.tip) : []
    for (const event of events) {
      seen(event)
      this.holdings.landed(event)
      if (event.kind === 'paid') this.#refunded(event)
    }
    if (died !== undefined) await this.die(died.message)
    this.law()
    return events
  }

  /** Asked again only of changed accounts. */
  lawOfNew(): void {
    const { chain, venue } = this
    if (this.#lawful.tip !== chain.tip || this.#lawful.seq !== venue.seq) this.law()
  }

  law(): void {
    this.#lawful = { tip: this.chain.tip, seq: this.venue.seq }
    this.holdings.check(this.venue.state, this.chain)
    this.orders.check(this.venue.state)
  }

  #weather(): Weather {
    const { random } = this
    const decides = random.chance(0.4) ? undefined : random.chance(0.1) ? 'void' : 'committed'
    return { ...FAIR, dropped: random.chance(0.2), doubled: random.chance(0.03), decides }
  }

  /** Ticks until nothing is under way and the newest leaf is final. */
  async quiesce(): Promise<void> {
    for (let slots = 0; slots < 400; slots++) {
      const { settlement, leaves } = this.venue.state
      const { tree } = this.chain.vault()
      const { batches, payouts_open } = settlement
      if (batches.size === 0 && payouts_open === 0 && leaves.size === tree.leaf_count) return
      await this.tick(FAIR)
    }
    throw new Error('the chain and the venue never come to rest')
  }

  fork(depth: number): void {
    const lost = this.chain.fork(depth)
    for (const event of lost) {
      this.holdings.lost(event)
      this.count(`lost in forks: ${event.kind}`)
      this.reach(reachedBy(`fork without ${event.kind}`, this.venue.state))
    }
    this.relay.undone(lost)
    this.law()
  }

  /** The process is gone; meanwhile the chain goes on, and its signed transactions may still arrive. */
  async die(at: string): Promise<void> {
    const { random, chain, venue } = this
    this.count(`died: ${at}`)
    this.reach(reachedBy(`death ${at}`, venue.state))
    const { last_wire } = this.relay
    const deepest = Math.min(6, chain.tip - chain.finalized)
    if (deepest >= 1 && random.chance(0.25)) {
      for (const event of chain.fork(random.between(1, deepest))) this.holdings.lost(event)
      this.count('forked while down')
    }
    if (last_wire !== undefined && random.chance(0.3)) chain.enqueue(last_wire, true)
    venue.bootFromJournal()
    if (venue.state.leaves.size < 5_000 && random.chance(0.2)) venue.trees = venue.rebuildTrees()
    await this.boot()
    if (last_wire !== undefined && random.chance(0.3)) chain.enqueue(last_wire, true)
  }

  async deposit(owner: number, mint: Uint8Array, amount: bigint): Promise<void> {
    const blinding = this.random.element()
    const inner = noteInner(this.traders[owner]!.key, blinding)
    const source = this.payees.get(toHex(mint))![0]!
    const { key: depositor, seed } = this.wallet
    const { program } = this.chain
    const fields = { program, depositor, source, mint, token_program: TOKEN_PROGRAM, amount, inner }
    await this.chain.send(depositInstruction(fields), [seed])
    await this.tick(undefined, (event) => {
      if (event.kind !== 'deposited') return
      const { leaf_index, commitment } = event
      const own = depositCommitment({ mint, amount, inner, leaf_index })
      if (toHex(own) !== toHex(commitment)) throw new Error('the program made another commitment')
      const nullifier = nullifierOf(commitment, blinding)
      const note = { owner, mint, amount, blinding, leaf_index, commitment, nullifier }
      this.holdings.unopened.set(toHex(commitment), note)
    })
  }

  /** A process comes up: reads the chain, takes the next epoch, and settles once that is final. */
  async boot(): Promise<void> {
    const { chain, venue, random } = this
    const { config } = chain.vault()
    const epoch = config.epoch + 1
    const settlement_seed = this.#settlement_seeds[epoch % 2]!
    this.relay = new Relay(chain, venue, settlement_seed, epoch, this.landings)
    this.relay.rewind()
    this.relay.learn()
    const boot_nonce = random.bytes(16)
    const settlement_key = publicKeyOf(settlement_seed)
    const signed = { settlement_key, signature: new Uint8Array(64).fill(2), transaction: new Uint8Array(1) }
    venue.must({ kind: 'epoch_intended', epoch, boot_nonce, generation: 0, ...signed })
    const position = { journal_seq: venue.seq, journal_head: venue.head }
    const identity = { program: chain.program, settlement_signer: settlement_key }
    const terms = { epoch, boot_nonce, restore: false, generation: 0 }
    this.#opening = true
    // A batch of the last process may land first: then the opening names an old batch, and is made again.
    for (let tries = 0; chain.vault().config.epoch < epoch; tries++) {
      if (tries === OPENINGS_MAX) throw new Error(`epoch ${epoch} did not open`)
      const { config, tree } = chain.vault()
      const { last_batch, journal_head: expected_head } = config
      const seen = { last_batch, expected_head, spent_root: tree.spent_root }
      const cited = { cited_leaf_count: tree.leaf_count, cited_root: tree.root }
      const opening = MACHINE.opening({ ...identity, ...terms, ...position, ...seen, ...cited }, config.venue)
      chain.enqueue(await chain.sign(opening, [settlement_seed, MACHINE.authority_seed]), true)
      await this.tick()
    }
    for (let slots = 0; slots < FINALIZED_DEPTH; slots++) await this.tick()
    this.#opening = false
    venue.must({ kind: 'epoch_opened', epoch, slot: chain.tip, signature: signed.signature })
  }

  async close(): Promise<void> {
    await this.chain.close()
  }

  /** Refunded exits belong to their owners again, as notes the venue does not know. */
  #refunded({ nullifier, refund, mint, amount }: EventOf<'paid'>): void {
    const known = nullifier && this.refund_blindings.get(toHex(nullifier))
    if (!known || !refund) return
    const { commitment, leaf_index } = refund
    const own = { mint, amount, leaf_index, commitment, nullifier: nullifierOf(commitment, known.blinding) }
    this.holdings.unopened.set(toHex(commitment), { ...known, ...own })
  }

  #rememberSpent(): void {
    const batches = [...this.venue.state.settlement.batches.values()]
    for (const { owner, mint, amount, commitment, blinding, leaf_index } of batches.flatMap(
      ({ inputs }) => inputs,
    ))
      this.spent.push({ owner, mint, amount, commitment, blinding, leaf_index })
    this.spent.splice(0, Math.max(0, this.spent.length - KEPT_SPENT))
  }
}

const SITUATIONS: readonly (readonly [name: string, holds: (state: State) => boolean])[] = [
  ['a batch is closed', ({ closed }) => closed !== undefined],
  ['a settlement is not final', ({ settlement }) => settlement.batches.size > 0],
  ['a payout is open', ({ settlement }) => settlement.payouts_open > 0],
  ['an exit is open', ({ settlement }) => settlement.exits.size > 0],
]
const STAGES = ['submitted', 'confirmed', 'finalized'] as const
const COMMANDS = [
  ...['place', 'modify', 'cancel', 'cancel_all', 'dead_man', 'withdraw', 'reshape', 'arm_disconnect'],
  ...[
    'disconnected',
    'reference',
    'instrument_status',
    'slot',
    'closed',
    'decided committed',
    'decided void',
    'hashed',
  ],
  ...['leaves', 'epoch_intended', 'epoch_opened', 'batch_signed'],
  ...STAGES.map((stage) => `batch_stage ${stage}`),
  ...STAGES.map((stage) => `payout_stage ${stage}`),
  ...['confirmed', 'finalized', 'vanished'].map((stage) => `exit_requested ${stage}`),
]
const LOST = ['deposited', 'settled', 'paid', 'exit_requested', 'exit_closed', 'exit_refused']

const of = (what: string, situation: string) => `${what} while ${situation}`

/** A decision ends the closed batch, and the slots that an opening waits for decide one. */
const ABSENT = new Set(
  ['decided committed', 'decided void', 'epoch_opened'].map((name) =>
    of(`command ${name}`, 'a batch is closed'),
  ),
)

/** @param operations names of everything a simulation does */
export function pointsOf(operations: readonly string[]): string[] {
  const happens = [
    ...operations.map((name) => `operation ${name}`),
    ...COMMANDS.map((name) => `command ${name}`),
    ...DEATHS.map((at) => `death ${at}`),
    ...LOST.map((kind) => `fork without ${kind}`),
  ]
  const all = happens.flatMap((what) => SITUATIONS.map(([situation]) => of(what, situation)))
  return all.filter((point) => !ABSENT.has(point))
}

export const reachedBy = (what: string, state: State): string[] =>
  SITUATIONS.filter(([, holds]) => holds(state)).map(([situation]) => of(what, situation))

function nameOfCommand(command: Command): string {
  if (command.kind === 'decided') return `decided ${command.outcome}`
  if (command.kind === 'batch_stage' || command.kind === 'payout_stage')
    return `${command.kind} ${command.stage.stage}`
  return command.kind === 'exit_requested' ? `exit_requested ${command.request.stage}` : command.kind
}
