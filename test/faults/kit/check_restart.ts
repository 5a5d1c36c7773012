/** What must hold of an account after its venue was killed and started again; each function returns what does not. */
import { type VenueClient, VenueProblem } from '../../../client/api/venue_client'
import type { AccountEvent, Order, Page } from '../../../protocol/wire/trading'
import type { Command } from './load_commands'
import { type LoadTrader, PASSING } from './load_trader'

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
export async function readAccount(
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

export function checkGapless(events: readonly AccountEvent[]): string[] {
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
export function indexEvents(events: readonly AccountEvent[]): EventIndex {
  return Map.groupBy(events, ({ data }) => {
    const { order_id, reshape_id } = data as { order_id?: string; reshape_id?: string }
    return order_id ?? reshape_id ?? ''
  })
}

/** The event an accepted command made. */
export function madeBy(command: Command, index: EventIndex): AccountEvent | undefined {
  return index.get(command.order_id)?.find(({ kind, data }) => {
    if (kind !== KIND_MADE[command.kind]) return false
    return command.kind !== 'cancel' || (data as Order).reason === 'by_owner'
  })
}

export function checkAccepted(index: EventIndex, sent: readonly Command[]): string[] {
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
export function checkRefused(index: EventIndex, sent: readonly Command[]): string[] {
  return sent
    .filter(({ fate, kind }) => fate === 'refused' && kind !== 'cancel')
    .filter((command) => index.has(command.order_id))
    .map((command) => `refused ${command.kind} (${command.code}) left an event`)
}

/** The newest event of each order decides whether it is open; the list of open orders says the same. */
export function checkOpen(events: readonly AccountEvent[], open: readonly Order[]): string[] {
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
export async function resendUnknown(
  trader: LoadTrader,
  index: EventIndex,
  command: Command,
): Promise<string[]> {
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
