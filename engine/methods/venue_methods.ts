/** Implements the `Venue` interface over the assembled engine. */
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { Engine } from '../boot/assemble'
import { close, drain } from '../boot/stop'
import { checkOrder } from '../intake/requests'
import { LIMITS } from '../limits'
import { VERSIONS } from '../machine/state/state'
import { noncesOf } from '../reads/own_reads'
import { arming } from '../sequencer/disconnect_grace'
import { subscribe } from '../streams/hub'
import type { Caller, Lead, Venue } from '../venue'
import { admit, listAccounts, rebind, setCredential, viewAccount } from './account_methods'
import {
  activate,
  changeInstrument,
  exportBatch,
  gaugesOf,
  latenciesOf,
  postReference,
  readinessOf,
} from './operator'
import { passedTo, untilEnded } from './passed'
import { laneOf, laneOfToken, Waits } from './passing'

export function venueOf(engine: Engine): Venue {
  const { accounts, availability, writes, own, tree, settlement, instruments, metrics } = engine
  const identity = identityOf(engine)
  const hold = openHold(engine)
  const status = openStatus(engine, identity.genesis_hash)
  let closing: Promise<void> | undefined
  return {
    place: async (account_id, request, origin) => writes.place(account_id, request, origin),
    cancel: async (account_id, request, answers) => writes.cancel(account_id, request, answers),
    modify: async (account_id, request, origin, answers) =>
      writes.modify(account_id, request, origin, answers),
    cancelAll: async (account_id, items) => writes.cancelAll(account_id, items),
    deadMan: async (account_id, request) => writes.deadMan(account_id, request),
    withdraw: async (account_id, request) => writes.withdraw(account_id, request),
    reshape: async (account_id, request) => writes.reshape(account_id, request),
    check: (_account_id, request) => {
      availability.requireRunning()
      checkOrder(engine.intake, engine.state, availability.unavailable(), request)
    },
    nonces: (account_id, trading_key) => {
      const nonces = noncesOf(engine.state, account_id, trading_key)
      const durable = engine.sequencer.durable(true)
      return Bun.peek.status(durable) === 'fulfilled' ? nonces : durable.then(() => nonces)
    },
    own,
    readUnits: () => engine.loaded.history.units(),
    treeInclusion: (leaf) => tree.inclusion(leaf),
    treeLeaves: (from, limit) => tree.leaves(from, limit),
    settlementHealth: () => settlement.health(),
    settlementBatch: async (batch) => settlement.batch(batch),
    settlementOfOrder: async (account_id, order_id) => own.settlementOfOrder(account_id, order_id),
    subscribe: (session, after, sink, gap) => subscribe(engine.hub, accounts, session, after, sink, gap),
    instruments: () => instruments.all(),
    instrument: (symbol) => engine.market.instrument(symbol),
    statistics: (symbol, page) => engine.market.statistics(symbol, page),
    treeRoot: () => tree.root(),
    transparency: () => engine.transparency.read(),
    status,
    time: () => {
      const { slot, slot_ms } = engine.chain.view()
      return { slot, unix_ms: engine.clock.unixMs(), slot_ms }
    },
    lead: () => leadOf(engine, status),
    versions: () => ({ version: engine.state.version, carried: VERSIONS }),
    caughtUp: () => undefined,
    handedOver: hold.handedOver,
    late: hold.late,
    epochLed: () => engine.state.epoch,
    async passed(passed, costOf, isOver) {
      const late = hold.ofPassed()
      if (late !== undefined) {
        await late
        if (isOver()) throw new Refusal('outcome_unknown')
      }
      return passedTo(engine, passed, costOf)
    },
    identity: () => ({ ...identity, epoch: engine.state.epoch }),
    metrics: () => [...readinessOf(engine), ...metrics.read(gaugesOf(engine)), ...latenciesOf(engine)],

    postReference: async (price) => postReference(engine, price),
    exportBatch: async (name) => exportBatch(engine, name),
    activate: async (request) => activate(engine, request),
    changeInstrument: async (change) => changeInstrument(engine, change),
    ...socketCalls(engine),
    ...accountCalls(engine),

    drain: () => drain(engine),
    close: () => (closing ??= close(engine)),
  }
}

type SocketCalls = 'armDisconnect' | 'disconnected' | 'isArmed' | 'nodeLost' | 'nodeBack'

function socketCalls({ armed, availability, grace, sequencing }: Engine): Pick<Venue, SocketCalls> {
  return {
    armDisconnect: (account_id, origin, arms) =>
      arming(armed, { account_id, origin, armed: arms }, () =>
        sequencing.armDisconnect(account_id, origin, arms),
      ),
    async disconnected(account_id, origin) {
      armed.delete(origin)
      await sequencing.disconnected(account_id, origin)
    },
    isArmed: (origin) => armed.has(origin),
    nodeLost: (node, alive_ms) => grace.nodeLost(node, alive_ms),
    async nodeBack(node, open) {
      availability.requireRunning()
      return grace.nodeBack(node, open)
    },
  }
}

type AccountCalls = 'admit' | 'setCredential' | 'rebind' | 'account' | 'listAccounts' | keyof Sessions
type Sessions = Pick<Venue, 'login' | 'authenticate' | 'revoke' | 'refresh' | 'takeLimit' | 'chargeRead'>

function accountCalls(engine: Engine): Pick<Venue, AccountCalls> {
  const { accounts, node } = engine
  /** Another node may have taken over, and a revocation with it. */
  const requireRight = () => {
    if (node !== undefined && rightMs(engine) === 0) throw new Refusal('lease_lost')
  }
  return {
    admit: async (request) => admit(engine, request),
    setCredential: async (account_id, request) => {
      const result = await setCredential(engine, account_id, request)
      await untilEnded(engine)
      return result
    },
    rebind: async (account_id, request) => rebind(engine, account_id, request),
    account: async (account_id) => viewAccount(engine, account_id),
    listAccounts: async () => listAccounts(engine),
    login: async (request) => accounts.login(request),
    authenticate(token) {
      requireRight()
      return accounts.authenticate(token)
    },
    async revoke(session) {
      await accounts.revoke(session)
      await untilEnded(engine)
    },
    refresh(session, token) {
      requireRight()
      return accounts.refresh(session, token)
    },
    takeLimit: (caller, cost) => accounts.takeLimit(caller, cost),
    chargeRead: (caller, units) => accounts.chargeRead(caller, units),
  }
}

/** How long a node of a cluster may answer reads of accounts: while etcd and chain show that no other one leads. */
function rightMs({ chain, config, node }: Engine): number {
  const leased_ms = config.lease_ms - chain.lease().age_ms
  return Math.max(0, Math.floor(Math.min(node?.rightMs() ?? 0, leased_ms)))
}

/**
 * On a busy machine a node of a cluster learns late, by etcd and by the chain, that it leads: requests that come meanwhile
 * wait. So do requests that come while it gives its term away; they are sent again to the next leading node.
 */
function openHold(engine: Engine) {
  const { accounts, availability, clock, node } = engine
  const isHeld = () => node !== undefined && !availability.isEnding()
  const isLate = () => rightMs(engine) === 0 || availability.barred() === 'lease_lost'
  const waits = new Waits()
  let back: Promise<void> | undefined
  const untilRight = async () => {
    const until_ms = clock.monotonicMs() + LIMITS.handover_ms
    while (isLate() && isHeld() && clock.monotonicMs() < until_ms) await Bun.sleep(LIMITS.release_look_ms)
    back = undefined
  }
  const untilBack = () => {
    back ??= untilRight()
    return back
  }
  const untilSentAgain = async () => {
    await availability.handing
    throw new Refusal('outcome_unknown')
  }
  return {
    /** @throws Refusal `lease_lost` where too much waits already */
    late: (caller: Caller) =>
      isHeld() && (back || isLate()) ? waits.require(laneOf(caller), untilBack) : undefined,
    handedOver(token: string | undefined): Promise<void> | undefined {
      const lane = laneOfToken(() => accounts, token)
      if (availability.handing !== undefined) return waits.run(lane, untilSentAgain)
      return isHeld() ? waits.run(lane, untilBack) : undefined
    },
    /** For requests that another node passed on, which bounds them, and for those behind a waiting one. */
    ofPassed: (): Promise<void> | undefined => (isHeld() && (back || isLate()) ? untilBack() : undefined),
  }
}

function leadOf(engine: Engine, status: Venue['status']): Omit<Lead, 'nodes'> {
  const { availability, loaded, state } = engine
  availability.requireRunning()
  const right_ms = rightMs(engine)
  if (right_ms === 0) throw new Refusal('lease_lost')
  const { seq, head } = loaded.journal.head()
  const unavailable = availability.unavailable() ?? null
  return {
    epoch: state.epoch,
    seq,
    head: toHex(head),
    right_ms,
    status: status(),
    unavailable,
  }
}

/** Frozen; the same object while its content is unchanged. */
function openStatus(engine: Engine, genesis_hash: string): Venue['status'] {
  const { chain, config, availability } = engine
  let shown: ReturnType<Venue['status']> | undefined
  return () => {
    const { slot, lag_ms } = chain.view()
    const own = availability.status()
    const is_shown =
      shown !== undefined &&
      shown.chain.slot === slot &&
      shown.chain.lag_ms === lag_ms &&
      shown.ready === own.ready &&
      shown.matching === own.matching &&
      shown.settlement === own.settlement &&
      shown.draining === own.draining &&
      shown.reopens_slot === own.reopens_slot &&
      shown.reasons.length + own.reasons.length === 0
    if (!is_shown)
      shown = Object.freeze({ ...own, chain: { slot, lag_ms, genesis_hash }, enclave: config.enclave })
    return shown!
  }
}

/** Constant for the life of the process, except for the epoch. */
function identityOf(engine: Engine): ReturnType<Venue['identity']> {
  const { chain, intake, state, vault } = engine
  return {
    venue: toHex(intake.venue),
    config_account: encodeBase58(chain.config_account),
    program_id: encodeBase58(chain.program_id),
    genesis_hash: encodeBase58(chain.genesis_hash),
    generation: vault.generation,
    epoch: state.epoch,
    exit_delay_s: vault.exit_delay_s,
  }
}
