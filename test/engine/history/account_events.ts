/** Makes events as the engine emits them, and folders to keep a history in. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { History, LoggedEvents, OrderFilter, Owned } from '../../../engine/history/contract'
import { LoggedBatch } from '../../../engine/history/event_log'
import { withTexts } from '../../../engine/history/event_text'
import { openHistory } from '../../../engine/history/open_history'
import { Layer } from '../../../engine/history/overlay'
import type { ChainPoint } from '../../../protocol/units'
import type * as wire from '../../../protocol/wire/trading'

export const KEY = new Uint8Array(32).fill(5)
export const START_MS = 1_760_000_000_000
export const DAY_MS = 86_400_000

export async function withFolder(body: (dir: string) => Promise<void>): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-history-'))
  try {
    await body(dir)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

/** The place behind the record `seq` of a journal that exists here only by its heads. */
export const pointAt = (seq: number): ChainPoint => ({
  seq,
  head: new Bun.CryptoHasher('sha256').update(`${seq}`).digest(),
})

/** The events as the thread of the history gets them. */
export function logged(events: Parameters<typeof withTexts>[0]): LoggedEvents {
  const layer = new Layer()
  for (const one of withTexts(events)) layer.add(one)
  return layer.events()
}

/** The texts of an account. */
export function textsOf(events: LoggedEvents, account_id: string): string[] {
  const batch = new LoggedBatch(events)
  const own = batch.accounts().find((one) => one.account_id === account_id)!
  return own.events.map((at) => {
    const text = Buffer.alloc(batch.bytes(at))
    batch.copyText(at, text, 0)
    return text.toString()
  })
}

/** The history, whose reads return objects. */
export type ParsedHistory = ReturnType<typeof parsed>

export async function open(dir: string, key = KEY): Promise<ParsedHistory> {
  return parsed(await openHistory({ dir, key, retention_days: 30 }))
}

function parsed(history: History) {
  const page = <T>({ items, next_after }: wire.Page<string>): wire.Page<T> => {
    return { items: items.map((text) => JSON.parse(text) as T), next_after }
  }
  const owned = (found: Owned | undefined) =>
    found === undefined ? undefined : { account_id: found.account_id, data: JSON.parse(found.text) }
  return {
    history,
    /** One record, which is one group. */
    record(seq: number, events: { account_id: string; event: wire.AccountEvent }[]) {
      history.record(seq, withTexts(events))
      history.seal(pointAt(seq))
    },
    watermark: () => history.watermark(),
    backlog: () => history.backlog(),
    seqFirst: (account_id: string) => history.seqFirst(account_id),
    seqLast: (account_id: string) => history.seqLast(account_id),
    events(account_id: string, after: number, limit: number) {
      const { items, next_after } = history.events(account_id, after, limit)
      return page<wire.AccountEvent>({ items: items.map(({ text }) => text), next_after })
    },
    order(order_id: string, account_id = 'alice') {
      const found = history.order(account_id, order_id)
      return found === undefined ? undefined : (JSON.parse(found) as wire.Order)
    },
    orders: (account_id: string, filter: OrderFilter) => page<wire.Order>(history.orders(account_id, filter)),
    fills: (account_id: string, after: number, limit: number) =>
      page<wire.Fill>(history.fills(account_id, after, limit)),
    withdrawal(id: string) {
      const found = owned(history.withdrawal(id))
      return found && { account_id: found.account_id, withdrawal: found.data as wire.Withdrawal }
    },
    reshape(id: string) {
      const found = owned(history.reshape(id))
      return found && { account_id: found.account_id, reshape: found.data as wire.Reshape }
    },
    prune: (now_unix_ms: number) => history.prune(now_unix_ms),
    flush: () => history.flush(),
    close: () => history.close(),
  }
}

/** Opens a history, runs `body`, closes it. */
export async function withHistory(
  dir: string,
  body: (history: ParsedHistory) => Promise<void>,
): Promise<void> {
  const history = await open(dir)
  try {
    await body(history)
  } finally {
    await history.close()
  }
}

export const id = (n: number): string => n.toString(16).padStart(32, '0')

export function order(n: number, status: wire.OrderStatus, more: Partial<wire.Order> = {}): wire.Order {
  return {
    order_id: id(n),
    trading_key: 'FvwEAhmxKfeiG8SnEvq42hc6whRyY3EFYAvebMqDNDGCgxN5Z',
    symbol: 'SOL-USDC',
    side: 'buy',
    type: 'limit',
    amount: '1000',
    filled_amount: '0',
    remaining_amount: '1000',
    price_limit: '77',
    min_fill: '0',
    expiry_slot: 900,
    arrival_slot: 5,
    status,
    fills: [],
    seq: 0,
    ...more,
  }
}

export function fill(n: number, fill_index: number, stage: wire.FillStage): wire.Fill {
  return {
    seq: 0,
    order_id: id(n),
    fill_index,
    symbol: 'SOL-USDC',
    side: 'buy',
    price: '77',
    amount: '10',
    quote_amount: '770',
    fee: '1',
    batch: 3,
    stage,
    anchor_index: fill_index,
    proceeds_commitment: 'ab'.repeat(32),
    slot: 6,
  }
}

/** Numbers events per account as the engine does and records them, one journal record each. */
export class Recorder {
  journal_seq: number
  /** Of the events that follow. */
  slot = 6
  readonly #seq_last = new Map<string, number>()
  constructor(
    private readonly history: ParsedHistory,
    journal_seq = 0,
  ) {
    this.journal_seq = journal_seq
  }

  event(
    account_id: string,
    kind: wire.EventKind,
    data: wire.AccountEvent['data'],
    unix_ms = START_MS,
  ): wire.AccountEvent {
    const seq = (this.#seq_last.get(account_id) ?? 0) + 1
    this.#seq_last.set(account_id, seq)
    const numbered = 'order_id' in data ? { ...data, seq } : data
    return { seq, kind, slot: this.slot, unix_ms, data: numbered as wire.AccountEvent['data'] }
  }

  record(
    account_id: string,
    kind: wire.EventKind,
    data: wire.AccountEvent['data'],
    unix_ms?: number,
  ): wire.AccountEvent {
    const event = this.event(account_id, kind, data, unix_ms)
    this.all([{ account_id, event }])
    return event
  }

  all(events: { account_id: string; event: wire.AccountEvent }[]): void {
    this.history.record(++this.journal_seq, events)
  }
}
