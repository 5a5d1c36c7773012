/** A venue, or a cluster of three, on the vault program: relayer, watcher, quorum reads and accounts, on three RPC nodes. */
import { mkdirSync } from 'node:fs'
import type { Login } from '../../../client/api/venue_client'
import type { Wallet } from '../../../client/wallet/wallet'
import { AgentFailure } from '../../../enclave/agent'
import { KEY_PATHS } from '../../../enclave/contract'
import { openEnclave } from '../../../enclave/index'
import type { Engine } from '../../../engine/boot/assemble'
import { ChainUnavailable } from '../../../engine/chain/client/rpc_pool'
import { openChain } from '../../../engine/index'
import { EpochTaken } from '../../../engine/ports'
import type { NodeVenue } from '../../../engine/venue'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { fromHex, toHex } from '../../../protocol/bytes'
import { deriveDepositBlinding } from '../../../protocol/notes/derive'
import { noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { Refusal } from '../../../protocol/refusals'
import { publicKeyOf } from '../../../protocol/sign'
import type { Collateral } from '../../../protocol/tdx/collateral'
import { decodeConfig, decodeMintRecord } from '../../../protocol/vault/accounts'
import { mintRecordAddress, TOKEN_PROGRAM, vaultAddresses } from '../../../protocol/vault/addresses'
import type { VaultEvent } from '../../../protocol/vault/events'
import { depositInstruction } from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { openStandInAgent, type StandInAgent } from '../../../sandbox/enclave/agent'
import { machinePolicy } from '../../../sandbox/environment'
import { announcedOf } from '../../../sandbox/open_sandbox'
import { joinProcess } from '../../../server/join_process'
import type { AcmeConfig, Config } from '../../../server/settings/config'
import type { Random } from '../../kit/random'
import { embeddedConfig } from '../../kit/venue/embedded_site'
import { jsonVenue } from '../../kit/venue/json_venue'
import { accountId, testCredential } from '../../kit/venue/test_login'
import { type Life, run } from '../awaits'
import { booksBroken, type Deposit } from '../campaign_check'
import type { Focus } from '../guide'
import { inVenue, type SimulatedTime } from '../simulated_time'
import { frontHost, linkHost, silentLog } from './fronts'
import { lostNotes } from './lost_disks'
import { exitingOf, type Maker, NOTE, newMakers, noteToExit, POOL, placeOrder, requestExit } from './makers'
import type { Network } from './network'
import { NODES, Providers } from './providers'
import { RolledLog, type RolledMoment } from './rolled_log'
import { acmeOf, simulateAuthority } from './simulated_authority'
import { type ChainMoment, DEPTH, SimulatedChain } from './simulated_chain'
import { type EtcdMoment, SimulatedEtcd } from './simulated_etcd'
import { listening } from './simulated_listen'
import { administer, announceRestore, registrationOf } from './vault_admin'
import { type DepositTerms, type Hooks, MARKET_ACCOUNT, type Opened, termsOf, type World } from './world'

/** Of the starts one in so many is shown accounts that are some slots old. */
const BEHIND = 3
const MEMBERS = ['etcd-0.test', 'etcd-1.test', 'etcd-2.test']
type Moment = {
  etcd: EtcdMoment
  rolled: RolledMoment
  chain: ChainMoment
  deposits: Deposit[]
  makers: { used: number; notes: number }[]
  exits: number
}

/** The engine of each process; `instrument.ts` has it reported. */
const engines = new WeakMap<Life, Engine>()
const edges = new WeakMap<Life, Hooks['edge']>()
Object.assign(globalThis, {
  $opened: (engine: Engine) => engines.set((run.current()?.life ?? run.venue)!, engine),
  $edge: (venue: NodeVenue) => edges.get(run.current()!.life)!(venue),
})
/** Exits that only one provider showed are taken back by a start. */
const isLie = (error: unknown): boolean => /exits that were never requested/.test(String(error))

export class ChainWorld implements World {
  readonly keeps_tokens = true
  private readonly dirs: string[]
  private readonly etcd = new SimulatedEtcd()
  private readonly rolled: RolledLog
  /** Of a cluster: a node, by its newest process, that reaches no etcd until this time. */
  private cut: { life: Life; until_ms: number } | undefined
  private readonly lives: Life[] = []
  private now!: Opened
  private deposits: Deposit[] = []
  private readonly makers: [Maker, Maker]
  private exit_count = 0
  private is_lost = false
  is_aged = false
  /** Every disk was lost, and no venue was restored yet. */
  private restores = false
  private readonly providers: Providers
  /** Another sender's registration of the machine, which comes before that of the first start. */
  private rival: readonly VaultInstruction[] | undefined
  private drops = 0
  /** No transaction lands before this slot. */
  private drops_until = 0
  private calm = true
  /** Questions for collateral that are not answered, of a venue without an earlier answer, and those of them that are left. */
  private readonly silence: number
  private silent: number
  /** Half of the venues say that they are degraded, as their vault announced no second build. */
  private readonly successors_needed: boolean
  /** Half of the venues have a public certificate. */
  private readonly acme: AcmeConfig | undefined

  private constructor(
    private readonly time: SimulatedTime,
    readonly network: Network,
    readonly chain: SimulatedChain,
    private readonly agent: StandInAgent,
    private collateral: Collateral,
    readonly nodes: number,
    dir: string,
  ) {
    const authority = time.random.pick(['dns-01', 'tls-alpn-01', undefined, undefined] as const)
    this.acme = authority && acmeOf(authority)
    this.silence = time.random.below(6)
    this.silent = this.silence
    this.successors_needed = time.random.below(2) === 0
    this.dirs = Array.from({ length: nodes }, (_, at) => (nodes === 1 ? dir : `${dir}-node${at}`))
    for (const own of this.dirs) mkdirSync(own)
    this.makers = newMakers()
    this.providers = new Providers(chain)
    this.rolled = new RolledLog(
      this.etcd,
      time,
      MEMBERS.map((host) => `https://${host}`),
    )
    for (const host of NODES)
      network.hosts.set(host, (_, { body }, from) => this.providers.answer(host, String(body), from?.life))
    for (const host of MEMBERS)
      network.hosts.set(host, (path, { body }, from) => this.etcd.answer(path, String(body), from?.life))
    network.fault = (host, from) => {
      // The reads of a restore are asked again where they fail.
      const is_restore = this.restores && NODES.includes(host)
      if (this.calm && !is_restore) return undefined
      const is_cut = this.cut !== undefined && time.now_ms < this.cut.until_ms
      if (is_cut && MEMBERS.includes(host) && from?.life.isOf(this.cut!.life)) return 'before'
      if (this.providers.isAway(host)) return 'before'
      const { random } = time
      return random.below(is_restore ? 10 : 40) > 0
        ? undefined
        : random.pick(['before', 'after', 'late', 'twice', 'busy', 'garbled'] as const)
    }
    chain.faults.drop = () =>
      !this.calm && (chain.machine.tip < this.drops_until || (this.drops > 0 && this.drops-- > 0))
  }
  /** @param nodes several are a cluster over one log */
  static async prepare(
    time: SimulatedTime,
    network: Network,
    dir: string,
    nodes: number,
  ): Promise<ChainWorld> {
    const agent = await openStandInAgent({ data_dir: `${dir}-agent`, app_compose: '{}' })
    network.fault = () => undefined
    simulateAuthority(network, () => 1_700_000_000_000 + time.passed_ms)
    const enclave = await time.wait(
      openEnclave({ kind: 'development', agent: { socket: agent.socket }, tls: { names: [] } }),
    )
    const fee_seed = await time.wait(enclave.deriveKey(KEY_PATHS.fees))
    const announced = await time.wait(announcedOf(enclave))
    const nothing = { venue: new Uint8Array(32), epoch: 1, boot_nonce: new Uint8Array(16) }
    const { parsed } = await time.wait(enclave.quoteEpoch(nothing))
    await enclave.close()
    const chain = await SimulatedChain.open({ announced, fee_payer: publicKeyOf(fee_seed) })
    const world = new ChainWorld(time, network, chain, agent, agent.collateral(), nodes, dir)
    if (time.random.below(2) === 0) world.rival = registrationOf(chain, parsed.pck_chain)
    return world
  }

  dirOf(node: number): string {
    return this.dirs[node]!
  }
  moveTo(node: number, dir: string): void {
    this.dirs[node] = dir
  }

  get mints() {
    const { base, quote } = this.chain
    return { base, quote }
  }
  readonly statement_key = undefined

  async open(node: number, { exits, edge, drains, follows }: Hooks): Promise<Opened> {
    const { chain, time } = this
    const { life } = run.current()!
    this.lives[node] = life
    this.rolled.replace(node, (of) => this.dirOf(of))
    if (time.random.below(BEHIND) === 0) this.providers.fallBehind(time.random, life)
    edges.set(life, edge)
    const clock = {
      unixMs: () => 1_700_000_000_000 + Math.floor(time.passed_ms),
      monotonicMs: () => Math.floor(time.passed_ms),
    }
    const cluster = {
      url: `https://${linkHost(node)}`,
      endpoints: MEMBERS.map((host) => `https://${host}`),
      tls: { ca: '', cert: '', key: '' },
    }
    const engine = embeddedConfig(this.dirOf(node))
    const config: Config = {
      listen: { hostname: frontHost(node), port: 443 },
      operator_listen: { hostname: linkHost(node), port: 443 },
      dstack_socket: this.agent.socket,
      tls_names: ['venue.test'],
      acme: this.acme,
      swagger: true,
      rpc_urls: undefined,
      rpc_send_urls: [],
      program_id: chain.program,
      slot_ms: 400,
      engine: {
        ...engine,
        ...termsOf(engine),
        ...(this.nodes === 1 ? {} : { cluster }),
      },
    }
    const fatal: Error[] = []
    const running = await joinProcess({
      ...{ config, clock, version: '1', log: silentLog(clock), drain: drains, following: follows },
      fatal: (error) => {
        if (this.isExpected(error, life)) exits()
        else fatal.push(error)
      },
      self_check: { policy: machinePolicy(this.agent.root_pem), collect: async () => this.collect(node) },
      openChain: async (enclave, hash) =>
        openChain({
          rpc_urls: NODES.map((host) => `http://${host}`),
          ...{ program_id: chain.program, slot_ms: 400, hash, monotonicMs: clock.monotonicMs },
          settlement_seed: enclave.settlement_seed,
          authority_seed: await enclave.deriveKey(KEY_PATHS.epoch_authority),
          quoteEpoch: (bound) => enclave.quoteEpoch(bound),
          fee_seed: await enclave.deriveKey(KEY_PATHS.fees),
          successors_needed: this.successors_needed,
        }),
    })
    const venue = jsonVenue(running.venue)
    return { venue, engine: engines.get(life)!, fatal, close: () => running.stop() }
  }
  /** A start or a process that ends so is made again. */
  isExpected(error: unknown, life: Life): boolean {
    const expected = [ChainUnavailable, EpochTaken, AgentFailure]
    const { name } = error as Error
    // Another node took the term, as the beat or the journal says, or restored the venue after this one had read the chain.
    const is_late =
      (name === 'Deposed' && !this.etcd.isLed(life)) || (name === 'VenueRestored' && this.is_lost)
    const is_agent = error instanceof Refusal && error.code === 'enclave_unavailable'
    return (
      this.rolled.isExpected(error as Error, this.lives.indexOf(life)) ||
      (is_late && this.nodes > 1) ||
      is_agent ||
      (this.providers.has_lied && isLie(error)) ||
      expected.some((one) => error instanceof one)
    )
  }
  /** A service that may not answer at first: without an earlier answer a start waits, and proves its key meanwhile. */
  private collect(node: number): Collateral {
    if (this.silent-- <= 0) return this.collateral
    const { life } = run.current()!
    const asks = () =>
      listening.get(frontHost(node))?.app.fetch(new Request('https://venue.test/attestation'))
    this.time.at(50, asks, inVenue(life))
    throw new TypeError('connection lost')
  }
  served(opened: Opened): string | undefined {
    this.now = opened
    const { matching, reasons } = opened.venue.status()
    return opened.engine.availability.isStopped() ? `${matching}: ${reasons.join()}` : undefined
  }

  slot(random: Random, calm: boolean, up: boolean): void {
    const { chain } = this
    this.calm = calm
    if (calm) chain.pays_from = 0
    this.restores = this.is_lost && this.config('processed').pending_restore_at_s > 0
    const slots = calm || this.providers.isBehind ? 1 : random.pick([1, 1, 1, 1, 1, 1, 0, 2])
    const dice = random.below(60)
    this.providers.step(random, calm, up)
    administer(chain, this.config('processed').paused, random, calm)
    chain.faults.landing_delay_slots = 0
    if (this.rival !== undefined && chain.machine._pending.length > 0) {
      void chain.overtake(this.rival)
      this.rival = undefined
    }
    if (this.nodes > 1) this.rolled.step(random, calm, this.lives)
    if (!calm) {
      if (dice === 1 && this.nodes > 1)
        this.cut = { life: random.pick(this.lives), until_ms: this.time.now_ms + 200 + random.below(5_000) }
      // While one follows another opens its epoch.
      if (dice === 11 && this.nodes > 1) this.providers.fallBehind(random, random.pick(this.lives))
      if (dice < 5) this.drops = 1 + random.below(2)
      if (dice < 10) chain.faults.landing_delay_slots = random.below(4)
      // A commit is taken back, and does not land again before it is void.
      if (dice >= 53 && dice < 56 && up && this.isCommitted()) this.fork(random, DEPTH.finalized)
      // Deeper ones take the blockhash of an opening, whose start waits for its end.
      if (dice >= 56) this.fork(random, 1 + random.below(random.below(up ? DEPTH.finalized : 2) + 1))
    }
    chain.advance(slots)
  }
  /** By a commit that is not final. */
  private isCommitted(): boolean {
    return this.config('processed').commit_seq > this.config().commit_seq
  }
  private fork(random: Random, depth: number): void {
    const { machine } = this.chain
    const target = machine.tip - depth
    // Final facts are not taken back, nor the opening of a cluster's epoch (cluster.md "Takeover": all nodes end `chain_unknown`).
    if (target < machine.slotAt('finalized') || (this.nodes > 1 && this.chain.opensAfter(target))) return
    const is_committed = this.isCommitted()
    machine.fork(depth)
    // A commit, batch or payout that it took back is late then, past its last slot or blockhash.
    if (random.below(is_committed ? 2 : 6) === 0) this.drops_until = machine.tip + random.below(40)
  }
  stops(): void {}
  /** As on SIGTERM, or at once, as a process that reports an error does. */
  async stop({ venue, close }: Opened, random: Random): Promise<void> {
    await (random.below(3) > 0 ? close() : venue.close())
  }
  ended(): void {}
  gone(life: Life): void {
    this.network.ended(life)
  }

  private account<T>(
    address: Uint8Array,
    decode: (data: Uint8Array) => T | undefined,
    level: 'finalized' | 'processed' = 'finalized',
  ): T {
    return decode(this.chain.machine.accountAt(encodeBase58(address), level)!.data)!
  }
  private config(level?: 'processed') {
    return this.account(vaultAddresses(this.chain.program).config, decodeConfig, level)
  }
  get rests(): boolean {
    const { engine } = this.now
    const { closed, settlement, leaves } = engine.state
    const { last_batch, landed, queued, exits } = settlement
    if (!this.now.venue.status().ready) return false
    if (closed !== undefined || (landed?.batch_id ?? 0) !== last_batch) return false
    if (queued.size > 0 || exits.size > 0 || this.chain.requests().length > 0) return false
    const shown = [this.config(), this.config('processed')]
    return shown.every((one) => one.last_batch === last_batch) && leaves.size === this.facts().leaves.size
  }

  async deposit(wallet: Wallet, { side, amount, key_index }: DepositTerms): Promise<void> {
    const { chain } = this
    const text = this.mints[side]
    const mint = decodeBase58(text, 32)!
    const blinding = deriveDepositBlinding(wallet.seed, key_index, wallet.counters(key_index).deposits++)
    const inner = noteInner(wallet.tradingKey(key_index), blinding)
    const { program, depositor } = chain
    const source = decodeBase58(chain.account(text), 32)!
    const landed = await chain.land(
      depositInstruction({ program, depositor, source, mint, token_program: TOKEN_PROGRAM, amount, inner }),
    )
    const event = landed.find((one) => one.kind === 'deposited')!
    const { commitment, leaf_index } = event as Extract<VaultEvent, { kind: 'deposited' }>
    const nullifier = nullifierOf(commitment, blinding)
    this.deposits.push({ mint: toHex(mint), amount, leaf_index, commitment, nullifier })
    wallet.addNote({
      commitment: toHex(commitment),
      ...{ key_index, mint: text, amount: String(amount), blinding: toHex(blinding), leaf_index },
      ...{ state: 'free', origin: 'deposit' },
    })
  }
  async depositsShown(): Promise<void> {
    await this.until(() =>
      this.deposits.every(({ leaf_index }) => leaf_index < this.now.engine.state.leaves.size),
    )
  }
  private async until(holds: () => boolean): Promise<void> {
    while (!holds()) await new Promise((resolve) => void this.time.at(50, () => resolve(undefined)))
  }
  async admit(account_id: string): Promise<void> {
    const { venue, engine } = this.now
    const [{ name }] = this.makers
    // One that was restored from the chain knows no account.
    if (account_id !== name && !engine.state.accounts.has(accountId(name))) await this.prepareMarket()
    await venue.provision({ account_id, version: 1, orders_live_max: 1_000, keys_max: 100 })
    await venue.setCredential(undefined, this.credential(account_id).request)
  }
  private credential(account: string) {
    return testCredential(account, fromHex(this.now.venue.identity().venue, 32)!)
  }
  loginOf(account: string): Login {
    return this.credential(account).login
  }

  marketLogin(): Login {
    return this.loginOf(MARKET_ACCOUNT)
  }
  async prepareMarket(): Promise<void> {
    for (const maker of this.makers) {
      const { name, side, wallet } = maker
      maker.used = wallet.state.notes.length
      await this.admit(name)
      for (let made = 0; made < POOL; made++)
        await this.deposit(wallet, {
          side: side === 'buy' ? 'quote' : 'base',
          amount: NOTE[side],
          key_index: 0,
        })
    }
    await this.depositsShown()
  }
  market(random: Random, broken: (law: string) => void, focus: Focus): void {
    const dice = random.below(focus === 'exits' ? 14 : 30)
    if (dice < 9) placeOrder(this.now.venue, random.pick(this.makers), random, broken)
    else if (dice === 9 || dice === 13) this.exit(random.pick(this.makers), random)
    if (focus !== 'exits') return
    const { chain } = this
    if (random.below(15) === 0) chain.pays_from = chain.machine.tip + 10 + random.below(40)
    if (dice !== 12) return
    const maker = random.pick(this.makers)
    const note = exitingOf(maker)
    // An order spends the same note.
    if (note !== undefined && this.providers.inventExit(random, note) === 'another')
      placeOrder(this.now.venue, maker, random, broken)
  }
  /** Asks on chain for a note of a maker, which may be in an order. */
  private exit(maker: Maker, random: Random): void {
    const note = noteToExit(maker, random)
    if (note === undefined) return
    this.exit_count++
    void requestExit(this.chain, this.now.engine.hash, { maker, note, random })
  }

  payee(mint: string): string {
    return this.chain.account(mint)
  }
  facts() {
    return this.chain.facts()
  }
  booksBroken(): string[] {
    const { spent, refunded } = this.facts()
    const liabilities = new Map<string, bigint>()
    for (const text of Object.values(this.mints)) {
      const mint = decodeBase58(text, 32)!
      const record = this.account(mintRecordAddress(this.chain.program, mint), decodeMintRecord)
      liabilities.set(toHex(mint), record.liabilities)
    }
    const settled = [{ nullifiers: [...spent].map((one) => fromHex(one, 32)!) }]
    return booksBroken(this.now.engine.state, { config: this.config(), settled, liabilities }, [
      ...this.deposits,
      ...refunded,
    ])
  }

  async lose(): Promise<void> {
    this.deposits = lostNotes(this.now.engine.state, this.deposits)
    await announceRestore(this.chain, this.config('processed').exit_delay_s)
    this.etcd.putBack({ pairs: new Map(), revision: 1 })
    for (const dir of this.dirs) mkdirSync(dir)
    this.is_lost = true
  }

  ages(): void {
    this.is_aged = true
    this.chain.advance()
    this.collateral = this.agent.collateral()
  }

  moment(): Moment {
    const { chain, deposits, makers, exit_count: exits } = this
    return {
      etcd: this.etcd.moment(),
      rolled: this.rolled.moment(),
      chain: chain.moment(),
      deposits: [...deposits],
      makers: makers.map(({ used, wallet }) => ({ used, notes: wallet.state.notes.length })),
      exits,
    }
  }
  putBack({ etcd, rolled, chain, deposits, makers, exits }: Moment): void {
    this.etcd.putBack(etcd)
    this.rolled.putBack(rolled)
    this.cut = undefined
    this.chain.putBack(chain)
    this.deposits = [...deposits]
    for (const [at, maker] of this.makers.entries()) {
      maker.used = makers[at]!.used
      const { state } = maker.wallet
      state.orders.length = 0
      state.notes.length = makers[at]!.notes
      for (const note of state.notes) note.state = 'free'
    }
    this.exit_count = exits
    if (this.is_lost) this.silent = this.silence
    this.calm = true
    this.providers.recover()
    this.drops = 0
    this.drops_until = 0
  }
  mark(): string {
    const { machine, landed } = this.chain
    const used = this.makers.map((maker) => maker.used)
    const { tip, _forks, _pending } = machine
    return [this.etcd.revision, tip, _forks, landed.length, _pending.length, ...used].join(' ')
  }
}
