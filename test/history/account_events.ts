/** Makes events as the engine emits them, and folders to keep a history in. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { History, NewEvent } from '../../engine/history/contract'
import { openHistory } from '../../engine/history/open_history'
import type * as wire from '../../protocol/wire'

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

export const open = (dir: string, key = KEY): Promise<History> =>
  openHistory({ dir, key, retention_days: 30 })

/** Opens a history, runs `body`, closes it. */
export async function withHistory(dir: string, body: (history: History) => Promise<void>): Promise<void> {
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
  readonly #seq_last = new Map<string, number>()
  constructor(
    private readonly history: History,
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
    return { seq, kind, slot: 6, unix_ms, data: numbered as wire.AccountEvent['data'] }
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

  all(events: NewEvent[]): void {
    this.history.record(++this.journal_seq, events)
  }
}
