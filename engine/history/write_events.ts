/** Writes events and what follows from them into the tables; runs in the history's worker. */
import type { Database } from 'bun:sqlite'
import type * as wire from '../../protocol/wire'
import { eventRow, fillRow, isFinalPayment, isOpen, orderRow, paymentRow } from './rows'
import type { Names, Sealer } from './seal'

export type EventWriter = {
  write(events: [account_id: string, event: wire.AccountEvent][], watermark: number): void
}

/** Accounts whose names are kept; the map is emptied beyond it. */
const NAMES_KEPT = 10_000

/** Last event wins: events come in journal order, and what is fed again after a crash replaces itself. */
export function eventWriter(db: Database, names: Names, sealer: Sealer): EventWriter {
  const account = db.query(
    `INSERT INTO accounts VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET seq_last = max(seq_last, ?3)`,
  )
  const event = db.query('INSERT OR REPLACE INTO events VALUES (?, ?, ?, ?)')
  const order = db.query(
    `INSERT INTO orders VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
     ON CONFLICT (id) DO UPDATE SET open = ?4, status = ?5, unix_ms = ?7, sealed = ?8`,
  )
  const fill = db.query(
    `INSERT INTO fills VALUES (?1, ?2, ?3, ?4, ?5, ?6)
     ON CONFLICT (id, fill_index) DO UPDATE SET unix_ms = ?5, sealed = ?6`,
  )
  const payment = db.query(
    'INSERT INTO payments VALUES (?1, ?2, ?3, ?4) ON CONFLICT (id) DO UPDATE SET final = ?2, unix_ms = ?3, sealed = ?4',
  )
  const watermark_is = db.query("UPDATE meta SET value = ? WHERE name = 'watermark'")
  const nameOf = rememberedNames(names)

  function writeOrder(account_id: string, { seq, unix_ms }: wire.AccountEvent, data: wire.Order): void {
    const id = names.of('order', data.order_id)
    order.run(
      id,
      nameOf('account', account_id),
      seq,
      isOpen(data.status) ? 1 : 0,
      nameOf('status', account_id, data.status),
      nameOf('symbol', account_id, data.symbol),
      unix_ms,
      sealer.seal(orderRow(id), JSON.stringify({ account_id, order: data })),
    )
  }

  function writeFill(account_id: string, { seq, unix_ms }: wire.AccountEvent, data: wire.Fill): void {
    const id = names.of('order', data.order_id)
    fill.run(
      id,
      data.fill_index,
      nameOf('account', account_id),
      seq,
      unix_ms,
      sealer.seal(fillRow(id, data.fill_index), JSON.stringify(data)),
    )
  }

  function writePayment(
    kind: 'withdrawal' | 'reshape',
    account_id: string,
    { unix_ms, data }: wire.AccountEvent,
  ) {
    const resource = data as wire.Withdrawal | wire.Reshape
    const id = 'withdrawal_id' in resource ? resource.withdrawal_id : resource.reshape_id
    payment.run(
      names.of(kind, id),
      isFinalPayment(resource.status) ? 1 : 0,
      unix_ms,
      sealer.seal(paymentRow(kind, id), JSON.stringify({ account_id, [kind]: resource })),
    )
  }

  function writeOne(account_id: string, one: wire.AccountEvent): void {
    event.run(
      nameOf('account', account_id),
      one.seq,
      one.unix_ms,
      sealer.seal(eventRow(account_id, one.seq), JSON.stringify(one)),
    )
    const subject = one.kind.slice(0, one.kind.indexOf('.'))
    if (subject === 'order') writeOrder(account_id, one, one.data as wire.Order)
    else if (subject === 'fill') writeFill(account_id, one, one.data as wire.Fill)
    else if (subject === 'withdrawal' || subject === 'reshape') writePayment(subject, account_id, one)
  }

  return {
    write: db.transaction((events: [string, wire.AccountEvent][], watermark: number) => {
      for (const [account_id, one] of events) writeOne(account_id, one)
      for (const [account_id, { first, last }] of spans(events))
        account.run(nameOf('account', account_id), first, last)
      watermark_is.run(watermark)
    }),
  }
}

/** First and last seq of each account among the events. */
function spans(events: [string, wire.AccountEvent][]): Map<string, { first: number; last: number }> {
  const found = new Map<string, { first: number; last: number }>()
  for (const [account_id, { seq }] of events) {
    const span = found.get(account_id)
    if (span === undefined) found.set(account_id, { first: seq, last: seq })
    else span.last = seq
  }
  return found
}

/** Names that repeat from event to event are hashed once. */
function rememberedNames(names: Names): (...parts: string[]) => Uint8Array {
  const known = new Map<string, Uint8Array>()
  return (...parts) => {
    const text = parts.join('\u0000')
    let name = known.get(text)
    if (name === undefined) {
      if (known.size >= NAMES_KEPT) known.clear()
      name = names.of(...parts)
      known.set(text, name)
    }
    return name
  }
}
