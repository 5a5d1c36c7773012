/**
 * Two instances of one disk on a chain that reorganises: every order of boots, openings, closes, commits, decisions, copies,
 * crashes and late landings within the bounds below. The chain's side is the program itself; the instances' side is the rules
 * of settlement.md "Epochs, leases, rollback and forks" and matching.md "The decision". A rule that is left out is found.
 */
import { expect, test } from 'bun:test'
import { equalBytes, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { type ConfigAccount, decodeConfig } from '../../../protocol/vault/accounts'
import { anchorInstruction } from '../../../protocol/vault/epochs'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { OpenVault } from '../../kit/vault/open_vault'

const START_SLOT = 2_000
const START_S = 1_800_000_000
/** In ticks: how long a view gives the lease, how long a successor waits, how long a commit can land. */
const [LEASE, WAIT, COMMIT] = [1, 2, 1]
/** The smaller bounds find each rule that is left out below; TACIT_EPOCHS=whole explores the larger ones, by hand. */
const WHOLE = process.env['TACIT_EPOCHS'] === 'whole'
/** How often each act may happen, both instances together. */
const BOUNDS = {
  boots: 2,
  copies: 1,
  orders: 0,
  closes: 1,
  reorgs: 1,
  crashes: 1,
  drains: 0,
  ticks: WHOLE ? 4 : 3,
}
/** A batch of the copy that is shown after a batch of the other instance needs a third boot and a second close. */
const TWO_CLOSES = { boots: 3, copies: 0, closes: 2, reorgs: 0, crashes: 2, ticks: WHOLE ? 4 : 2 }
const MORE_BOOTS = { ...BOUNDS, ...TWO_CLOSES }
/** A drain gives the lease back, so its successor does not wait. */
const DRAINING = { orders: 1, closes: 0, reorgs: 0, drains: 2, ticks: 3, boots: WHOLE ? 3 : 2 }
const WITH_DRAINS = { ...BOUNDS, ...DRAINING }
type Act = keyof typeof BOUNDS
type Bounds = Readonly<Record<Act, number>>

/** The rules of an instance; a test leaves one out at a time. */
type Rules = {
  waits: boolean
  judges_heads: boolean
  cites_position: boolean
  expires: boolean
  confirms: boolean
  voids_late: boolean
  drains_only_serving: boolean
}
const RULES: Rules = {
  waits: true,
  judges_heads: true,
  cites_position: true,
  expires: true,
  confirms: true,
  voids_late: true,
  drains_only_serving: true,
}

type Transaction =
  | { kind: 'open'; epoch: number; nonce: string; seq: number; head: string; expected?: string }
  | { kind: 'commit'; epoch: number; seq: number; head: string; until: number }
type Run = {
  epoch: number
  nonce: string
  /** The instance before gave its lease back. */
  released: boolean
  serves: boolean
  lease: number
  wait: number
  until: number
}
/** A record is a word; the head of a journal is the hash of all its words. */
type Instance = { disk: readonly string[]; run: Run | undefined }
type State = {
  tick: number
  /** Numbers of config accounts: as the newest block leaves it, and as the quorum confirmed it at `confirmed_tick`. */
  newest: number
  confirmed: number
  confirmed_tick: number
  /** Signed once, so any observer can land it at any time. */
  sent: readonly Transaction[]
  instances: readonly [Instance, Instance]
  /** Journals up to a close whose result was shown, and to one that was said to be void. */
  shown: readonly string[]
  voided: readonly string[]
  left: Bounds
}

const vault = new OpenVault()
const { chain } = vault
const CONFIG = chain.vault.config
const textOf = (disk: readonly string[]): string => disk.join(' ')
const headOf = (disk: readonly string[]): Uint8Array => sha256(utf8(textOf(disk)))
const nonceOf = (nonce: string): Uint8Array => sha256(utf8(nonce)).slice(0, 16)

/** Config accounts that were met, by number, so that a state is short. */
const configs: { bytes: Uint8Array; config: ConfigAccount }[] = []
const numbers = new Map<string, number>()
function numberOf(bytes: Uint8Array): number {
  const text = toHex(bytes)
  const known = numbers.get(text)
  if (known !== undefined) return known
  numbers.set(text, configs.length)
  configs.push({ bytes, config: decodeConfig(bytes)! })
  return configs.length - 1
}

function instructionsOf(transaction: Transaction): VaultInstruction[] {
  const { epoch, seq, head } = transaction
  const journal = { journal_seq: seq, journal_head: Uint8Array.fromHex(head) }
  if (transaction.kind === 'open') {
    const { nonce, expected } = transaction
    const cited = expected === undefined ? {} : { expected_head: Uint8Array.fromHex(expected) }
    return vault.opening({ epoch, boot_nonce: nonceOf(nonce), ...journal, ...cited })
  }
  const { until } = transaction
  const signed = { program: vault.program, settlement_signer: vault.signerOf(epoch).key }
  const limits = { not_after_slot: START_SLOT + until, not_after_s: START_S + until }
  return [anchorInstruction({ ...signed, epoch, ...journal, ...limits })]
}

const landings = new Map<string, number>()
/** The config after a transaction, by the program; the same one where it fails. */
function landed(transaction: Transaction, on: number, tick: number): number {
  const name = `${JSON.stringify(transaction)} ${on} ${tick}`
  const known = landings.get(name)
  if (known !== undefined) return known
  chain.setTime(START_SLOT + tick, START_S + tick)
  chain.setAccount(CONFIG, configs[on]!.bytes, vault.program)
  chain.send(instructionsOf(transaction))
  const after = numberOf(chain.account(CONFIG)!.data)
  landings.set(name, after)
  return after
}

const holds = (disk: readonly string[], seq: number, head: Uint8Array): boolean =>
  seq === 0 || (seq <= disk.length && equalBytes(headOf(disk.slice(0, seq)), head))
/** Place of the close that the journal has not decided; 0 without one. */
const openClose = (disk: readonly string[]): number => {
  const seq = disk.findLastIndex((word) => word.startsWith('close')) + 1
  return disk.slice(seq).some((word) => word === 'match' || word === 'void') ? 0 : seq
}

/** Whether the epoch on chain ended with a release, with only boot records behind it. */
function isReleased(disk: readonly string[], config: ConfigAccount): boolean {
  const tail = disk.slice(config.journal_seq).filter((word) => !word.startsWith('boot'))
  return tail.at(-1) === `released${config.epoch}`
}

/** An instance's acts, and the states after them. */
class Explorer {
  constructor(readonly rules: Rules) {}

  /** The acts that are possible, by name. */
  *next(state: State): Generator<[string, State]> {
    const { left, newest, confirmed } = state
    if (left.ticks > 0) yield ['tick', this.ticked(state)]
    if (newest !== confirmed || state.confirmed_tick !== state.tick)
      yield ['confirm', { ...state, confirmed: newest, confirmed_tick: state.tick }]
    if (newest !== confirmed && left.reorgs > 0)
      yield ['reorg', used({ ...state, newest: confirmed }, 'reorgs')]
    for (const transaction of state.sent) {
      const after = landed(transaction, newest, state.tick)
      if (after !== newest) yield [`land ${transaction.kind} ${transaction.seq}`, { ...state, newest: after }]
    }
    for (const at of [0, 1] as const) {
      const name = 'AB'[at]
      for (const [act, after] of this.acts(state, at)) yield [`${name} ${act}`, after]
    }
  }

  private ticked(state: State): State {
    const instances = state.instances.map(({ disk, run }) => {
      const waited = run && { ...run, lease: Math.max(0, run.lease - 1), wait: Math.max(0, run.wait - 1) }
      return { disk, run: waited }
    })
    return used({ ...state, tick: state.tick + 1, instances: instances as never }, 'ticks')
  }

  private *acts(state: State, at: 0 | 1): Generator<[string, State]> {
    const { left, instances } = state
    const { disk, run } = instances[at]
    if (run === undefined) {
      if (left.boots > 0) yield* this.boot(state, at)
      const other = instances[1 - at]!.disk
      if (left.copies > 0 && textOf(other) !== textOf(disk))
        yield ['copy', used(put(state, at, { disk: other, run }), 'copies')]
      return
    }
    if (left.crashes > 0) yield ['crash', used(put(state, at, { disk, run: undefined }), 'crashes')]
    if (!run.serves) yield* this.open(state, at, run)
    else yield* this.serve(state, at, run)
  }

  private *boot(state: State, at: 0 | 1): Generator<[string, State]> {
    const { disk } = state.instances[at]
    const { config } = configs[state.confirmed]!
    const isOwn = disk.some((word) => equalBytes(nonceOf(word), config.boot_nonce))
    if (!isOwn || config.journal_seq > disk.length) return
    if (this.rules.judges_heads && !holds(disk, config.journal_seq, config.journal_head)) return
    const epoch = config.epoch + 1
    const nonce = `boot${epoch}-${'AB'[at]}${state.left.boots}`
    const signed = { kind: 'open', epoch, nonce, seq: disk.length, head: toHex(headOf(disk)) } as const
    const cites = this.rules.cites_position
    const opening = cites ? { ...signed, expected: toHex(config.journal_head) } : signed
    const released = isReleased(disk, config)
    const run = { epoch, nonce, released, serves: false, lease: 0, wait: 0, until: 0 }
    const booted = put(state, at, { disk: [...disk, nonce], run })
    yield ['boot', used({ ...booted, sent: [...state.sent, opening] }, 'boots')]
  }

  private *open(state: State, at: 0 | 1, run: Run): Generator<[string, State]> {
    const { config } = configs[state.confirmed]!
    if (config.epoch < run.epoch) return
    const { disk } = state.instances[at]
    if (!equalBytes(config.boot_nonce, nonceOf(run.nonce))) {
      yield ['is fenced', put(state, at, { disk, run: undefined })]
      return
    }
    const serving = { ...run, serves: true, lease: LEASE, wait: this.rules.waits && !run.released ? WAIT : 0 }
    const opened = put(state, at, { disk, run: serving })
    const close = openClose(disk)
    if (close === 0) yield ['opens', opened]
    else if (config.commit_seq < close) yield ['opens, void', decided(opened, at, close, 'void')]
    else if (config.commit_seq === close && holds(disk, close, config.commit_head))
      yield ['opens, match', decided(opened, at, close, 'match')]
  }

  private *serve(state: State, at: 0 | 1, run: Run): Generator<[string, State]> {
    const { disk } = state.instances[at]
    const { config } = configs[this.rules.confirms ? state.confirmed : state.newest]!
    const is_own = equalBytes(config.boot_nonce, nonceOf(run.nonce))
    if (!is_own) yield ['is fenced', put(state, at, { disk, run: undefined })]
    else if (run.lease < LEASE)
      yield ['sees its epoch', put(state, at, { disk, run: { ...run, lease: LEASE } })]
    const close = openClose(disk)
    if (close > 0) {
      const late = !this.rules.voids_late || state.confirmed_tick > run.until
      if (config.commit_seq === close && holds(disk, close, config.commit_head))
        yield ['matches', decided(state, at, close, 'match')]
      else if (config.commit_seq < close && (late || config.epoch > run.epoch))
        yield ['voids', decided(state, at, close, 'void')]
    }
    const { left } = state
    const acknowledges = run.lease > 0 && run.wait === 0
    if (left.drains > 0 && (acknowledges || !this.rules.drains_only_serving)) {
      const drained = { disk: [...disk, `released${run.epoch}`], run: undefined }
      yield ['drain', used(put(state, at, drained), 'drains')]
    }
    if (!acknowledges) return
    if (left.orders > 0)
      yield ['order', used(put(state, at, { disk: [...disk, `order${'AB'[at]}`], run }), 'orders')]
    if (left.closes === 0 || close > 0) return
    const closed = [...disk, `close${'AB'[at]}`]
    const until = state.tick + COMMIT
    const landable = this.rules.expires ? until : until + 1_000
    const point = { seq: closed.length, head: toHex(headOf(closed)) }
    const commit = { kind: 'commit', epoch: run.epoch, ...point, until: landable } as const
    const after = put(state, at, { disk: closed, run: { ...run, until } })
    yield ['close', used({ ...after, sent: [...state.sent, commit] }, 'closes')]
  }
}

const put = (state: State, at: 0 | 1, instance: Instance): State => ({
  ...state,
  instances: state.instances.with(at, instance) as unknown as State['instances'],
})
const used = (state: State, act: Act): State => ({
  ...state,
  left: { ...state.left, [act]: state.left[act] - 1 },
})

function decided(state: State, at: 0 | 1, close: number, outcome: 'match' | 'void'): State {
  const { disk, run } = state.instances[at]
  const batch = textOf(disk.slice(0, close))
  const list = outcome === 'match' ? 'shown' : 'voided'
  const known = state[list].includes(batch) ? state[list] : [...state[list], batch].sort()
  return { ...put(state, at, { disk: [...disk, outcome], run }), [list]: known }
}

/** Without transactions that can never land again, so that fewer states differ. */
function withoutDead(state: State): State {
  const { epoch } = configs[state.confirmed]!.config
  const lives = (one: Transaction) =>
    one.kind === 'open' ? one.epoch > epoch : one.epoch >= epoch && one.until >= state.tick
  return state.sent.every(lives) ? state : { ...state, sent: state.sent.filter(lives) }
}

/** States that no order of acts may reach. */
function faultOf({ instances, shown, voided }: State): string | undefined {
  const acknowledging = instances.filter(({ run }) => run?.serves && run.lease > 0 && run.wait === 0)
  if (acknowledging.length > 1) return 'two instances acknowledge'
  if (shown.some((batch) => voided.includes(batch))) return 'a batch is matched and void'
  for (const one of shown)
    for (const other of shown)
      if (!`${one} `.startsWith(`${other} `) && !`${other} `.startsWith(`${one} `))
        return 'results of two histories are shown'
  return undefined
}

const NO_EPOCH = numberOf(chain.account(CONFIG)!.data)

/** An instance A that serves in epoch 1, and a copy of its disk. */
function startWith(left: Bounds): State {
  const disk = ['boot1']
  const opening = { kind: 'open', epoch: 1, nonce: 'boot1', seq: 0, head: '00'.repeat(32) } as const
  const newest = landed(opening, NO_EPOCH, 0)
  const run = { epoch: 1, nonce: 'boot1', released: false, serves: true, lease: LEASE, wait: 0, until: 0 }
  const instances = [
    { disk, run },
    { disk, run: undefined },
  ] as const
  return {
    tick: 0,
    newest,
    confirmed: newest,
    confirmed_tick: 0,
    sent: [],
    shown: [],
    voided: [],
    instances,
    left,
  }
}

type Found = {
  states: number
  acts: number
  fault: string | undefined
  path: string[]
  kinds: Map<string, number>
}

/** Breadth first, so the path to a fault is a shortest one. */
function explore(rules: Rules, within: Bounds): Found {
  const explorer = new Explorer(rules)
  const waiting: { state: State; from: number; act: string }[] = [
    { state: startWith(within), from: -1, act: 'start' },
  ]
  const known = new Set<string>([JSON.stringify(waiting[0]!.state)])
  const kinds = new Map<string, number>()
  let acts = 0
  for (let at = 0; at < waiting.length; at++) {
    const { state } = waiting[at]!
    const fault = faultOf(state)
    if (fault !== undefined) {
      const path: string[] = []
      for (let step = at; step > 0; step = waiting[step]!.from) path.unshift(waiting[step]!.act)
      return { states: known.size, acts, fault, path, kinds }
    }
    for (const [act, next] of explorer.next(state)) {
      const after = withoutDead(next)
      acts += 1
      const kind = act.replace(/^[AB] | \d+$/g, '')
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
      const name = JSON.stringify(after)
      if (known.has(name)) continue
      known.add(name)
      waiting.push({ state: after, from: at, act })
    }
  }
  return { states: known.size, acts, fault: undefined, path: [], kinds }
}

test.each([
  ['a copied disk and a reorg', BOUNDS],
  ['more boots', MORE_BOOTS],
  ['drains', WITH_DRAINS],
] as const)(
  'no order of acts lets two instances acknowledge, shows two histories or voids a batch that was matched: %s',
  (_, within) => {
    const { states, acts, fault, path, kinds } = explore(RULES, within)
    const counted = [...kinds].map(([kind, times]) => `${kind} ${times}`).join(', ')
    console.log(`${states} states, ${acts} acts, ${landings.size} transactions: ${counted}`)
    expect({ fault, path }).toEqual({ fault: undefined, path: [] })
    const results =
      within.closes > 0 ? ['opens, match', 'opens, void', 'matches', 'voids'] : ['drain', 'order']
    for (const kind of [...results, 'opens', 'is fenced']) expect(kinds.get(kind)).toBeGreaterThan(0)
  },
)

test.each([
  ['waits', 'two instances acknowledge', BOUNDS],
  ['judges_heads', 'results of two histories are shown', MORE_BOOTS],
  ['cites_position', 'results of two histories are shown', MORE_BOOTS],
  ['expires', 'a batch is matched and void', BOUNDS],
  ['confirms', 'a batch is matched and void', BOUNDS],
  ['voids_late', 'a batch is matched and void', BOUNDS],
  ['drains_only_serving', 'two instances acknowledge', WITH_DRAINS],
] as const)('without the rule `%s` the exploration finds that %s', (rule, wanted, within) => {
  const { fault, path, states } = explore({ ...RULES, [rule]: false }, within)
  console.log(`${states} states: ${path.join(', ')}`)
  expect(fault).toBe(wanted)
})
