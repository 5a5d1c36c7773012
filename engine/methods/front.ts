/** Serves clients on a node that follows: reads by its own replica, everything else by the leading node (cluster.md "Front nodes"). */
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { JournalSeq } from '../../protocol/units'
import type * as wire from '../../protocol/wire/trading'
import { clockOf, type Views } from '../boot/assemble'
import { venueOf } from '../boot/check_chain'
import type { Loaded } from '../boot/load_state'
import type { ClusterNode } from '../cluster/cluster_node'
import type { EngineConfig } from '../config'
import type { KnownNotes } from '../intake/context'
import { checkOrder, intakeCredential, intakeRebind } from '../intake/requests'
import { LIMITS } from '../limits'
import type { ChainPort, ClockPort, LeaderPort, VaultConfig, VaultMint } from '../ports'
import { noncesOf } from '../reads/own_reads'
import { MarketReads, SettlementReads } from '../reads/public_reads'
import { TransparencyReads } from '../reads/transparency'
import { arming } from '../sequencer/disconnect_grace'
import { openIntake, Writes } from '../sequencer/writes'
import { subscribe } from '../streams/hub'
import type { Caller, FollowingNode, NodeVenue, Right } from '../venue'
import { viewOf } from './account_methods'
import { bytesOf, laneOf, laneOfToken, Passing, Waits } from './passing'
import { Turns } from './turns'

/** The node's copy of the venue. */
export type Replica = {
  loaded: Loaded
  /** @throws Refusal `lease_lost` before the chain has shown who wrote the journal */
  views(): Views
  isShown(): boolean
  /** Calls `opened` with them, also with existing ones. */
  onViews(opened: (views: Views) => void): void
  known: KnownNotes
  applied(): JournalSeq
  /** Epoch of the state. */
  epoch(): number
  /** Whether the journal of this node has this end. */
  isAt(right: Pick<Right, 'seq' | 'head'>): boolean
  /** Resolves once `seq` is applied. @throws Refusal `lease_lost` after `ms` */
  untilApplied(seq: JournalSeq, ms: number): Promise<void>
  status(): wire.SystemStatus
  lag(): { records: number; age_ms: number }
  versions(): ReturnType<NodeVenue['versions']>
}
type FrontParts = {
  replica: Replica
  leader: LeaderPort
  config: EngineConfig
  chain: ChainPort
  clock: ClockPort
  first: { config: VaultConfig; mints: VaultMint[] }
}

/** The right to answer, and the newest state that each account was answered with. */
class Rights {
  /** By account, the newest seq that an answer of the leading node may depend on; infinite if unknown. */
  private readonly given = new Map<string, JournalSeq>()
  private readonly waits = new Waits()
  /** One wait for the next leading node, shared by all waiting requests. */
  private next: Promise<void> | undefined
  /** End of the newest right of this node; before it had one, of the leading node's first answer. */
  private until_ms = Number.NEGATIVE_INFINITY

  constructor(private readonly parts: Pick<FrontParts, 'replica' | 'leader' | 'clock'>) {}

  /**
   * The newest answer of the leading node that this node has reached; undefined if it may answer nothing. In an epoch one boot
   * writes one log: with the same epoch and an end of that log, this node's records are from it. Once the next leading node has
   * answered, answers of the one before no longer count.
   */
  current(): Right | undefined {
    const { replica, leader, clock } = this.parts
    const rights = leader.rights()
    const right = rights.findLast(({ seq }) => seq <= replica.applied())
    const first_ms = rights[0]?.until_ms ?? Number.NEGATIVE_INFINITY
    if (this.until_ms === Number.NEGATIVE_INFINITY && clock.monotonicMs() < first_ms) this.until_ms = first_ms
    if (right === undefined || clock.monotonicMs() >= right.until_ms) return undefined
    const is_led = right.epoch === rights.at(-1)!.epoch && right.epoch === replica.epoch()
    if (!is_led || !replica.isAt(right)) return undefined
    this.until_ms = Math.max(this.until_ms, right.until_ms)
    return right
  }

  /** It had a right lately, and this node does not lead: the leading node may be slow, or be replaced. */
  private isLate(): boolean {
    const { leader, clock } = this.parts
    if (this.current() !== undefined || leader.rights().length === 0) return false
    return clock.monotonicMs() < this.until_ms + LIMITS.handover_ms
  }

  require(): Right {
    // Waiting requests go first.
    return (this.next === undefined ? this.current() : undefined) ?? notHere()
  }

  caughtUp(account_id?: string, seq = 0): Promise<void> | undefined {
    const given = account_id === undefined ? Number.POSITIVE_INFINITY : this.given.get(account_id)
    const needed = Math.max(given ?? 0, seq)
    const right = this.require()
    // This node has reached everything below the newest answer.
    if (needed <= Math.max(right.seq, this.parts.replica.applied())) this.forget(account_id, given)
    else return bounded(this.wait(needed)).then(() => this.forget(account_id, given))
    return undefined
  }

  /**
   * While the leading node gives its term away, or is silent for a while, nothing is rejected here either.
   * @param lane of the caller
   */
  handedOver(lane: string): Promise<void> | undefined {
    return this.isAwaited() ? this.waits.run(lane, this.untilNext) : undefined
  }

  /** The same for messages of a socket. @throws Refusal `lease_lost` where too much waits already */
  late(lane: string): Promise<void> | undefined {
    if (this.next === undefined && this.current() !== undefined) return undefined
    return this.isAwaited() ? this.waits.require(lane, this.untilNext) : undefined
  }

  /** Also while older requests still wait: newer ones come behind them. */
  private isAwaited(): boolean {
    return this.next !== undefined || this.parts.leader.handing() !== undefined || this.isLate()
  }

  private readonly untilNext = () =>
    (this.next ??= this.untilReached().finally(() => {
      this.next = undefined
    }))

  /** Resolves once this node may answer again, or leads, or the wait is over. */
  private async untilReached(): Promise<void> {
    const { leader, replica } = this.parts
    do {
      await leader.handing()
      const seq = leader.rights().at(-1)?.seq
      if (seq !== undefined) await replica.untilApplied(seq, LIMITS.right_ms).catch(() => undefined)
      if (this.arrived()) return
      await Bun.sleep(LIMITS.log_poll_ms)
    } while (leader.handing() !== undefined || this.isLate())
  }

  arrived(): boolean {
    if (this.current() === undefined) return false
    this.parts.leader.arrived()
    return true
  }

  /** The account has seen everything durable then. */
  gave(account_id: string, seq: JournalSeq): void {
    this.given.set(account_id, Math.max(seq, this.given.get(account_id) ?? 0))
  }

  /** Unless more was answered meanwhile. */
  private forget(account_id: string | undefined, given: JournalSeq | undefined): void {
    if (account_id !== undefined && this.given.get(account_id) === given) this.given.delete(account_id)
  }

  private async wait(needed: JournalSeq): Promise<void> {
    const { replica, leader } = this.parts
    const { seq } = await leader.ask()
    // No record of this venue has a seq ahead of the leading node's.
    if (Number.isFinite(needed) && needed > seq) throw new Refusal('lease_lost')
    await replica.untilApplied(Math.min(needed, seq), LIMITS.right_ms)
    this.require()
  }
}

/** @throws Refusal `lease_lost` after LIMITS.right_ms, or the error of `work` */
async function bounded(work: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Refusal('lease_lost')), LIMITS.right_ms)
  await Promise.race([work, promise]).finally(() => clearTimeout(timer))
}

/** Methods of the process while this node follows. */
export function followingNode(
  node: ClusterNode,
  replica: Replica,
  config: EngineConfig,
  { chain, clock }: Pick<FrontParts, 'chain' | 'clock'>,
  [vault, mints]: readonly [VaultConfig, VaultMint[]],
): FollowingNode {
  const first = { config: vault, mints }
  return {
    venue: toHex(venueOf(chain, vault)),
    leaderUrl: () => node.leader_url || undefined,
    leave: () => node.leave(),
    front: (leader) => frontVenue({ replica, leader, config, chain, clock, first }),
    lag: () => replica.lag(),
    applied: () => ({ seq: replica.applied(), epoch: replica.epoch() }),
    isShown: () => replica.isShown(),
    versions: () => replica.versions(),
    status: () => replica.status(),
  }
}

/** @throws Refusal `lease_lost` from every method that needs the right to answer */
function frontVenue(parts: FrontParts): NodeVenue {
  const { replica, leader, clock } = parts
  const rights = new Rights(parts)
  const passing = new Passing(leader, rights, () => replica.applied())
  const turns = new Turns(replica.known, rights)
  let views: Views | undefined
  leader.watch({
    sockets: () => views?.armed.keys() ?? [],
    unarmed(origins) {
      for (const one of origins) views?.armed.delete(one)
    },
    answered() {
      rights.arrived()
      views?.hub.resume()
    },
  })
  replica.onViews((opened) => {
    views = opened
    views.right.is_fronted = true
    views.right.mayPush = () => rights.current() !== undefined
    views.record.submit = async (command, access) => {
      const { seq } = await passing.record(command, access)
      // It is executed, even if this node reads the record late.
      await replica.untilApplied(seq, LIMITS.right_ms).catch(() => {
        throw new Refusal('outcome_unknown')
      })
    }
  })
  return {
    ...commandsOf(parts, passing, rights, turns),
    ...recordsOf(parts, passing, rights, turns),
    ...readsOf(parts, passing, rights),
    ...sessionsOf(parts, passing, rights),
    get own() {
      return replica.views().own
    },
    isArmed: (origin) => views?.armed.has(origin) ?? false,
    caughtUp: (account_id, seq) => rights.caughtUp(account_id, seq),
    epochLed: () => rights.current()?.epoch,
    handedOver: (token) => rights.handedOver(laneOfToken(() => replica.views().accounts, token)),
    late: (caller) => rights.late(laneOf(caller)),
    status: () => {
      const status = rights.current()?.status ?? replica.status()
      return { ...status, chain: replica.status().chain }
    },
    metrics() {
      const { records, age_ms } = replica.lag()
      const left_ms = (rights.current()?.until_ms ?? 0) - clock.monotonicMs()
      return [
        gauge('tacit_node_lag_records', 'Records of the log that this node has yet to read.', records),
        gauge('tacit_node_log_age_ms', 'Age of the newest reading of the log.', Math.min(age_ms, 86_400_000)),
        gauge('tacit_node_right_ms', 'Time for which this node may answer.', Math.max(0, left_ms)),
        gauge('tacit_journal_seq', 'Newest durable journal record.', replica.applied()),
        gauge('tacit_streams', 'Open event streams.', replica.views().hub.size()),
      ]
    },
    versions: () => replica.versions(),
    ...NOT_HERE,
    async drain() {
      const { promise: over, resolve } = Promise.withResolvers<void>()
      await passing.drain(over)
      views?.hub.bye('upgrade', LIMITS.handover_retry_after_ms)
      resolve()
    },
    close: async () => views && unfront(views),
  }
}

/** Streams continue under this node, which leads. */
function unfront({ hub, right }: Views): void {
  right.is_fronted = false
  hub.resume()
}

function gauge(name: string, help: string, value: number): ReturnType<NodeVenue['metrics']>[number] {
  return { name, help, type: 'gauge', value }
}

/** Calls of the operator and of other nodes. */
const notHere = () => {
  throw new Refusal('lease_lost')
}
const NOT_HERE = {
  admit: notHere,
  listAccounts: notHere,
  postReference: notHere,
  exportBatch: notHere,
  changeInstrument: notHere,
  activate: notHere,
  lead: notHere,
  passed: notHere,
  nodeLost: () => undefined,
  nodeBack: notHere,
} satisfies Partial<NodeVenue>

type Records = 'armDisconnect' | 'disconnected' | 'setCredential' | 'rebind'
type Commands = 'place' | 'cancel' | 'modify' | 'cancelAll' | 'deadMan' | 'withdraw' | 'reshape' | 'check'

function commandsOf(
  { replica, config, chain, first }: FrontParts,
  passing: Passing,
  rights: Rights,
  turns: Turns,
): Pick<NodeVenue, Commands> {
  const { known } = replica
  const intake = openIntake(config, known, chain, first.config.generation)
  const writesAt = (seq: JournalSeq, judged: number | undefined) =>
    new Writes(intake, async ({ command, body_and_signature: signed, answers }) => {
      const caller: Caller = { account_id: command.account_id, access: 'trade' }
      const bytes = bytesOf(command)
      const passed = { kind: 'command', seq, access: 'trade', command: bytes, signed, answers } as const
      return (await passing.of(caller, passed, judged)).value
    })
  /** In the turn in which the caller's token was verified; so is the signature. */
  const inTurn = <T>(
    account_id: string,
    commitments: readonly Uint8Array[],
    command: (writes: Writes) => Promise<T>,
  ): Promise<T> => {
    const writes = writesAt(replica.applied(), rights.current()?.epoch)
    return turns.run(account_id, commitments, () => command(writes))
  }
  const opened = (commitment: Uint8Array, opening: unknown) => (opening ? [commitment] : [])
  return {
    place: async (account_id, request, origin) =>
      inTurn(account_id, opened(request.collateral_commitment, request.opening), (writes) =>
        writes.place(account_id, request, origin),
      ),
    cancel: async (account_id, request, answers) =>
      inTurn(account_id, [], (writes) => writes.cancel(account_id, request, answers)),
    modify: async (account_id, request, origin, answers) => {
      const { collateral_commitment, opening } = request.replacement
      return inTurn(account_id, opened(collateral_commitment, opening), (writes) =>
        writes.modify(account_id, request, origin, answers),
      )
    },
    cancelAll: async (account_id, items) =>
      inTurn(account_id, [], (writes) => writes.cancelAll(account_id, items)),
    deadMan: async (account_id, request) =>
      inTurn(account_id, [], (writes) => writes.deadMan(account_id, request)),
    withdraw: async (account_id, request) =>
      inTurn(account_id, opened(request.commitment, request.opening), (writes) =>
        writes.withdraw(account_id, request),
      ),
    reshape: async (account_id, request) =>
      inTurn(account_id, request.openings === undefined ? [] : request.inputs, (writes) =>
        writes.reshape(account_id, request),
      ),
    check(_account_id, request) {
      const { unavailable } = rights.require()
      checkOrder(intake, known.state, unavailable ?? undefined, request)
    },
  }
}

/** For sockets, credentials and keys, which no receipt covers. */
function recordsOf(
  { replica, config, chain, first }: FrontParts,
  passing: Passing,
  rights: Rights,
  turns: Turns,
): Pick<NodeVenue, Records> {
  const { venue } = openIntake(config, replica.known, chain, first.config.generation)
  return {
    async armDisconnect(account_id, origin, armed) {
      const [seq, judged] = [replica.applied(), rights.current()?.epoch]
      const call = { account_id, origin, armed }
      return turns.run(account_id, [], async () => {
        rights.require()
        await arming(replica.views().armed, call, () =>
          passing.record({ kind: 'arm_disconnect', ...call }, 'trade', seq, judged),
        )
      })
    },
    async disconnected(account_id, origin) {
      const views = replica.views()
      views.armed.delete(origin)
      passing.unsent.add(origin)
      // A later order would stay open.
      await turns.behind(account_id)
      for (;;) {
        const sent = views.record.submit({ kind: 'disconnected', account_id, origin }, 'trade')
        passing.unsent.delete(origin)
        const failed = await sent.then(
          () => false,
          () => true,
        )
        if (!failed) return
        passing.unsent.add(origin)
        await Bun.sleep(LIMITS.right_ms)
      }
    },
    async setCredential(account_id, request) {
      const command = intakeCredential(venue, request)
      if (account_id !== undefined && command.account_id !== account_id) throw new Refusal('account_unknown')
      return (await passing.record(command)).value as wire.CredentialResult
    },
    rebind: async (account_id, request) =>
      (await passing.record(intakeRebind(venue, account_id, request))).value as wire.RebindResult,
  }
}

type Reads =
  | ('nonces' | 'account' | 'settlementHealth' | 'settlementBatch' | 'settlementOfOrder' | 'subscribe')
  | ('treeInclusion' | 'treeLeaves' | 'treeRoot' | 'statistics' | 'readUnits')
  | ('instruments' | 'instrument' | 'transparency' | 'time' | 'identity')

function readsOf(parts: FrontParts, passing: Passing, rights: Rights): Pick<NodeVenue, Reads> {
  const { replica, config, chain, first } = parts
  const clock = clockOf(parts)
  const { venue } = openIntake(config, replica.known, chain, first.config.generation)
  const made = new WeakMap<Views, ReturnType<typeof openReads>>()
  const openReads = (views: Views) => {
    const { facts, instruments, state } = views
    return {
      market: new MarketReads({ instruments, statistics: facts.statistics, venue, clock, signer: notHere }),
      settlement: new SettlementReads(chain, facts.landed),
      transparency: new TransparencyReads(
        { settings: config, venue, chain, clock, facts, exits: () => state.settlement.exits.values() },
        first,
      ),
    }
  }
  const reads = () => {
    const views = replica.views()
    const known = made.get(views) ?? openReads(views)
    made.set(views, known)
    return known
  }
  return {
    nonces: (account_id, trading_key) => noncesOf(replica.views().state, account_id, trading_key),
    account: async (account_id) => viewOf(replica.views().state, account_id),
    settlementHealth: () => ({ ...reads().settlement.health(), status: rights.require().status.settlement }),
    settlementBatch: async (batch) => reads().settlement.batch(batch),
    settlementOfOrder: async (account_id, order_id) =>
      replica.views().own.settlementOfOrder(account_id, order_id),
    async subscribe(session, after, sink, gap) {
      rights.require()
      const { hub, accounts } = replica.views()
      return subscribe(hub, accounts, session, after, sink, gap)
    },
    treeRoot: () => passing.treeRoot() as Promise<wire.TreeRoot>,
    treeLeaves: (from, limit, caller) =>
      passing.page(caller, { kind: 'tree_leaves', from, limit }) as Promise<wire.TreeLeaves>,
    treeInclusion: (leaf, caller) =>
      passing.read(caller, {
        kind: 'tree_inclusion',
        leaf: typeof leaf === 'number' ? leaf : toHex(leaf),
      }) as Promise<wire.TreeInclusion>,
    statistics: (symbol, page, caller) =>
      passing.page(caller, { kind: 'statistics', symbol, ...page }) as Promise<wire.Statistics>,
    readUnits: () => replica.loaded.history.units(),
    instruments: () => replica.views().instruments.all(),
    instrument: (symbol) => reads().market.instrument(symbol),
    transparency: () => reads().transparency.read(),
    time: () => {
      const { slot, slot_ms } = chain.view()
      return { slot, unix_ms: clock.unixMs(), slot_ms }
    },
    // Epoch 0: this boot may never open one.
    identity: () => ({
      venue: toHex(venue),
      config_account: encodeBase58(chain.config_account),
      program_id: encodeBase58(chain.program_id),
      genesis_hash: encodeBase58(chain.genesis_hash),
      generation: first.config.generation,
      epoch: 0,
      exit_delay_s: first.config.exit_delay_s,
    }),
  }
}

type Sessions = 'login' | 'authenticate' | 'revoke' | 'refresh' | 'takeLimit' | 'chargeRead'

function sessionsOf({ replica }: FrontParts, passing: Passing, rights: Rights): Pick<NodeVenue, Sessions> {
  const accounts = () => replica.views().accounts
  /** A node takes its share of the limits for reads. */
  const share = () => Math.max(1, rights.current()?.nodes ?? 1)
  return {
    async login(request) {
      rights.require()
      return accounts().login(request)
    },
    authenticate(token) {
      rights.require()
      return accounts().authenticate(token)
    },
    revoke: async (session) => accounts().revoke(session),
    refresh(session, token) {
      rights.require()
      return accounts().refresh(session, token)
    },
    takeLimit(caller, cost, of = 'read') {
      if (of === 'read') return accounts().takeLimit(caller, cost * share())
      // The leading node charges it again; this one spends no more on verification than that would allow.
      const own = accounts().takeLimit(caller, cost)
      return passing.limitsOf(caller) ?? own
    },
    chargeRead: (caller, units) => accounts().chargeRead(caller, units * share()),
  }
}
