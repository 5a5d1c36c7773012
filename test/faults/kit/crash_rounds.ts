/** Rounds of load, kill -9 at a random point of the process's life and restart; and the laws of each account after it. */
import { type VenueClient, VenueProblem } from '../../../client/api/venue_client'
import type { AccountEvent, Order, Page } from '../../../protocol/wire/trading'
import { Random } from '../../kit/random'
import { type Command, type LoadTrader, PASSING } from './load_trader'
import { openTrader } from './open_trader'
import { VenueProcess } from './venue_process'

const LIMIT = 500
const DECIDED_MS_MAX = 60_000

async function pages<T>(read: (after: number) => Promise<Page<T>>, from = 0): Promise<T[]> {
  const items: T[] = []
  let after: number | null = from
  while (after !== null) {
    const page: Page<T> = await read(after)
    items.push(...page.items)
    after = page.next_after
  }
  return items
}

/** The events behind seq `from`. */
export function readEvents(client: VenueClient, from = 0): Promise<AccountEvent[]> {
  return pages((after) => client.events({ after, limit: LIMIT }), from)
}

/** The open orders and the events behind those already known, read until no order changed in between. */
async function readAccount(
  client: VenueClient,
  known: readonly AccountEvent[] = [],
): Promise<{ events: AccountEvent[]; open: Order[] }> {
  for (const events = [...known]; ; ) {
    events.push(...(await readEvents(client, events.length)))
    const open = await pages((after) => client.orders({ status: 'open', after, limit: LIMIT }))
    const meanwhile = await readEvents(client, events.length)
    events.push(...meanwhile)
    if (!meanwhile.some(({ kind }) => kind.startsWith('order.'))) return { events, open }
  }
}

function checkGapless(events: readonly AccountEvent[]): string[] {
  const at = events.findIndex((event, i) => event.seq !== i + 1)
  return at === -1 ? [] : [`event ${at + 1} of the list has seq ${events[at]!.seq}`]
}

/** An event is sent only once it is durable, so all events sent before the kill are still there, unchanged. */
export function checkShown(events: readonly AccountEvent[], shown: readonly AccountEvent[]): string[] {
  return shown
    .filter((event) => !Bun.deepEquals(events[event.seq - 1], event, true))
    .map((event) => `event ${event.seq} ${event.kind} was shown and is now another or gone`)
}

const KIND_MADE = {
  place: 'order.accepted',
  modify: 'order.accepted',
  cancel: 'order.cancelled',
  reshape: 'reshape.accepted',
} as const

/** Events by their order or reshape. */
type EventIndex = ReadonlyMap<string, readonly AccountEvent[]>
function indexEvents(events: readonly AccountEvent[]): EventIndex {
  return Map.groupBy(events, ({ data }) => {
    const { order_id, reshape_id } = data as { order_id?: string; reshape_id?: string }
    return order_id ?? reshape_id ?? ''
  })
}

/** The event an accepted command made. */
function madeBy(command: Command, index: EventIndex): AccountEvent | undefined {
  return index.get(command.order_id)?.find(({ kind, data }) => {
    if (kind !== KIND_MADE[command.kind]) return false
    return command.kind !== 'cancel' || (data as Order).reason === 'by_owner'
  })
}

function checkAccepted(index: EventIndex, sent: readonly Command[]): string[] {
  return sent
    .filter(({ fate, seq }) => fate === 'accepted' && seq !== undefined)
    .flatMap((command) => {
      const made = madeBy(command, index)
      if (made?.seq !== command.seq)
        return [`accepted ${command.kind} at seq ${command.seq} is at ${made?.seq}`]
      return command.kind === 'modify' ? checkReplaced(index, command) : []
    })
}

/** Both halves of a modify or neither. */
function checkReplaced(index: EventIndex, command: Command): string[] {
  const old = index.get(command.replaces!) ?? []
  const replaced = old.some(
    ({ kind, data }) => kind === 'order.replaced' && (data as Order).replaced_by === command.order_id,
  )
  const made = madeBy(command, index) !== undefined
  return replaced === made ? [] : [`modify is half there: old replaced ${replaced}, new accepted ${made}`]
}

/** A rejected command left no trace. */
function checkRefused(index: EventIndex, sent: readonly Command[]): string[] {
  return sent
    .filter(({ fate, kind }) => fate === 'refused' && kind !== 'cancel')
    .filter((command) => index.has(command.order_id))
    .map((command) => `refused ${command.kind} (${command.code}) left an event`)
}

/** The newest event of each order decides whether it is open; the list of open orders says the same. */
function checkOpen(events: readonly AccountEvent[], open: readonly Order[]): string[] {
  const newest = new Map<string, Order>()
  for (const { kind, data } of events) {
    if (kind.startsWith('order.') && 'status' in data) newest.set((data as Order).order_id, data as Order)
  }
  const live = [...newest.values()].filter(
    ({ status }) => status === 'accepted' || status === 'partially_filled',
  )
  const line = (order: Order) => `${order.order_id} ${order.status} ${order.remaining_amount}`
  const [told, listed] = [live.map(line).sort(), open.map(line).sort()]
  return Bun.deepEquals(told, listed)
    ? []
    : [`open orders ${JSON.stringify(listed)} where events say ${JSON.stringify(told)}`]
}

/** A modify that waits for a batch uses its nonces before the batch rejects it: the event is its only trace. */
async function wasRefusedByItsBatch(trader: LoadTrader, { order_id }: Command): Promise<boolean> {
  const events = await readEvents(trader.client)
  return events.some(
    ({ kind, data }) =>
      kind === 'order.replace_refused' && (data as { replacement: string }).replacement === order_id,
  )
}

/** Sends it, and again while chain or lease are late on a busy machine. */
async function onceDecided(trader: LoadTrader, command: Command): Promise<void> {
  const end_ms = performance.now() + DECIDED_MS_MAX
  for (;;) {
    command.fate = 'unknown'
    delete command.code
    await trader.send(command)
    if (!PASSING.includes(command.code ?? '') || performance.now() > end_ms) return
    await Bun.sleep(20)
  }
}

/** A command whose answer was lost is wholly there or wholly absent; a resend of the same bytes shows which. */
async function resendUnknown(trader: LoadTrader, index: EventIndex, command: Command): Promise<string[]> {
  const made = madeBy(command, index)
  const faults = command.kind === 'modify' ? checkReplaced(index, command) : []
  if (command.kind === 'place' || command.kind === 'modify') {
    const known = await trader.client.order(command.order_id).catch((error: VenueProblem) => error)
    const is_known = !(known instanceof VenueProblem)
    if (!is_known && known.code !== 'order_unknown') faults.push(`a lost order answers ${known.code}`)
    if (is_known !== (made !== undefined)) faults.push(`order readable ${is_known}, in events ${made?.seq}`)
  }
  command.resent = true
  await onceDecided(trader, command)
  const { fate, code, seq } = command
  if (code === 'nonce_stale' && !(await wasRefusedByItsBatch(trader, command)))
    faults.push(`a lost ${command.kind} used its nonces and left no event`)
  if (made === undefined) {
    if (fate === 'unknown' || code === 'order_exists')
      faults.push(`an absent ${command.kind} answers ${code}`)
    return faults
  }
  if (command.kind === 'cancel') {
    if (code !== 'order_final') faults.push(`a cancel that is there answers ${code}`)
    Object.assign(command, { fate: 'accepted', seq: made.seq })
  } else if (code !== 'order_exists' || seq !== made.seq) {
    faults.push(`a ${command.kind} at seq ${made.seq} answers ${code} ${seq}`)
  }
  return faults
}

const ACCOUNTS = ['ada', 'bob', 'cyd']
const KEYS = 4
const NOTES = 2
/** Of one mint, over all accounts. */
export const notesPerMint = ACCOUNTS.length * KEYS * NOTES

const LOAD_MS_MAX = 700
const TIGHT_LIMITS = new URL('./tight_limits.ts', import.meta.url).pathname
/** Kills reach this far beyond the last duration of the phase. */
const BEYOND = 1.2
/** A look reads new events; every so many rounds it reads the whole list again. */
const WHOLE_EVERY = 20

export type CrashSite = {
  venue: VenueProcess
  traders: LoadTrader[]
  seed: number
  /** Commands whose answer a kill took, by outcome. */
  lost: { there: number; absent: number }
  /** How lives ended: killed under load, while draining, on the way up, just up; or stopped before the kill came. */
  ends: Record<'load' | 'drain' | 'start' | 'served' | 'stopped', number>
  /** Durations of the newest whole start and the newest whole stop. */
  start_ms: number
  drain_ms: number
  /** REST's list at the last look. */
  listed: Map<LoadTrader, AccountEvent[]>
}

export async function openCrashSite(
  seed: number,
  { slot_ms = 20, preloaded = [TIGHT_LIMITS], settings = {} } = {},
): Promise<CrashSite> {
  const venue = new VenueProcess({ TACIT_SLOT_MS: `${slot_ms}`, ...settings }, preloaded)
  await venue.start()
  const traders = await Promise.all(
    ACCOUNTS.map((name) => openTrader(venue, name, { keys: KEYS, notes: NOTES })),
  )
  return {
    venue,
    traders,
    seed,
    lost: { there: 0, absent: 0 },
    ends: { load: 0, drain: 0, start: 0, served: 0, stopped: 0 },
    start_ms: 1_000,
    drain_ms: 600,
    listed: new Map(traders.map((trader) => [trader, []])),
  }
}

/** @returns everything that did not hold after the restart. */
export async function crashRound(site: CrashSite, round: number): Promise<string[]> {
  const random = new Random(site.seed + round)
  const faults = await live(site, round, random)
  faults.push(...(await restart(site, random)))
  const whole = round % WHOLE_EVERY === 0
  const seen = await Promise.all(site.traders.map((trader) => lookAt(site, trader, whole))).catch((cause) => {
    const printed = site.venue.output.slice(-4_000)
    throw new Error(`seed ${site.seed} round ${round}: a look failed; the venue printed\n${printed}`, {
      cause,
    })
  })
  return [...faults, ...seen.flat()].map((fault) => `seed ${site.seed} round ${round}: ${fault}`)
}

/** Commands on every key, without a kill, until every account has a fill: short rounds may end before a match. */
export async function tradeUntilFilled({ traders, seed }: CrashSite): Promise<void> {
  const random = new Random(seed)
  const isUnfilled = ({ trading }: LoadTrader) => !trading.events.some(({ kind }) => kind === 'fill.matched')
  const goesOn = (): boolean => traders.some(isUnfilled)
  await Promise.all(traders.flatMap((trader) => tradeOnEveryKey(trader, random, goesOn)))
}

function tradeOnEveryKey(trader: LoadTrader, random: Random, goesOn: () => boolean): Promise<void>[] {
  return Array.from({ length: trader.keys }, (_, key_index) =>
    trader.trade(key_index, new Random(random.below(2 ** 32)), goesOn),
  )
}

/** Commands on every key and sockets that come and go, until the kill. */
async function live(site: CrashSite, round: number, random: Random): Promise<string[]> {
  const { venue, traders } = site
  let loaded = true
  const goesOn = (): boolean => loaded
  const workers = traders.flatMap((trader, account) => {
    trader.lean = account + round
    trader.draining = false
    return [
      ...tradeOnEveryKey(trader, random, goesOn),
      ...trader.streams.map((stream) => stream.comeAndGo(new Random(random.below(2 ** 32)), goesOn)),
    ]
  })
  await Bun.sleep(random.below(LOAD_MS_MAX))
  const drains = random.below(3) === 0
  const faults = drains ? await killDraining(site, random) : []
  if (!drains) site.ends.load++
  venue.signal('SIGKILL')
  loaded = false
  await Promise.all(workers)
  await venue.ended()
  if (!drains && venue.ended_by !== 'SIGKILL') faults.push('the process ended by itself under load')
  return faults
}

/** SIGTERM, and the kill somewhere on the way down. */
async function killDraining(site: CrashSite, random: Random): Promise<string[]> {
  const { venue, traders, ends } = site
  for (const trader of traders) trader.draining = true
  const began_ms = performance.now()
  venue.signal('SIGTERM')
  const late = Bun.sleep(random.below(site.drain_ms * BEYOND)).then(() => 'late' as const)
  const code = await Promise.race([late, venue.ended()])
  ends[code === 'late' ? 'drain' : 'stopped']++
  if (code === 'late') return []
  site.drain_ms = performance.now() - began_ms
  return code === 0 ? [] : [`a stop ended with code ${code}`]
}

/** One start in two is killed on its way up or just after; the next one must serve. */
async function restart(site: CrashSite, random: Random): Promise<string[]> {
  const { venue, ends } = site
  const faults: string[] = []
  if (random.below(2) === 0) {
    const killed = Promise.withResolvers<void>()
    const after_ms = random.below(site.start_ms * BEYOND)
    setTimeout(() => {
      venue.signal('SIGKILL')
      killed.resolve()
    }, after_ms)
    const served = await venue.launch()
    await killed.promise
    await venue.ended()
    if (venue.ended_by !== 'SIGKILL') faults.push('a start ended by itself')
    ends[served ? 'served' : 'start']++
  }
  const began_ms = performance.now()
  await venue.start()
  site.start_ms = performance.now() - began_ms
  return faults
}

/** Every broken law of an account; sends commands without an answer again. */
export async function lookAt(site: CrashSite, trader: LoadTrader, whole: boolean): Promise<string[]> {
  const known = whole ? [] : site.listed.get(trader)!
  const shown = trader.trading.events.slice(known.length)
  await trader.connect()
  const { events, open } = await readAccount(trader.client, known)
  site.listed.set(trader, events)
  const index = indexEvents(events)
  const faults = [
    ...checkGapless(events),
    ...checkShown(events, shown),
    ...checkAccepted(index, trader.sent),
    ...checkRefused(index, trader.sent),
    ...checkOpen(events, open),
  ]
  for (const command of trader.sent.filter(({ fate }) => fate === 'unknown')) {
    site.lost[madeBy(command, index) === undefined ? 'absent' : 'there']++
    faults.push(...(await resendUnknown(trader, index, command)))
  }
  return [...faults, ...trader.faults.splice(0)].map((fault) => `${trader.name}: ${fault}`)
}
