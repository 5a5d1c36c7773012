/** A venue whose one account stream the test plays by hand. */
import type { EventSink, OwnTexts, Session, Subscription, Venue } from '../../../engine/venue'
import { Refusal } from '../../../protocol/refusals'
import type { AccountEvent, Order } from '../../../protocol/wire/trading'
import { STATUS } from '../../routes/answers'
import { ORDER } from '../../routes/bodies'
import { only } from './harness'

/** An account's stream that the test plays by hand. */
export class Stream {
  sink!: EventSink
  gap!: (from: number, to: number) => void
  after: number | undefined
  renewed: Session[] = []
  closed = 0
  seq_first = 1
  seq_last = 0
  subscription(): Subscription {
    return {
      seq_first: this.seq_first,
      seq_last: this.seq_last,
      seqNow: () => this.seq_last,
      renew: (renewed) => void this.renewed.push(renewed),
      close: () => {
        this.closed += 1
      },
    }
  }
  tell(event: AccountEvent): void {
    this.sink.events([{ event, text: JSON.stringify(event) }])
  }
  venue(more: Partial<Venue> = {}): Partial<Venue> {
    return {
      status: () => STATUS,
      time: () => ({ slot: 309, unix_ms: 1, slot_ms: 400 }),
      subscribe: async (_session, after, sink, gap) => {
        if (after !== undefined && after > this.seq_last) throw new Refusal('after_invalid')
        this.after = after
        this.sink = sink
        this.gap = gap
        return this.subscription()
      },
      ...snapshotOf(() => ({ seq: this.seq_last, orders: [ORDER] })),
      ...more,
    }
  }
}

/** A venue that gives this snapshot. */
export function snapshotOf(snapshot: () => { seq: number; orders: Order[] }): Partial<Venue> {
  return {
    own: only<OwnTexts>('venue.own', {
      async snapshot() {
        const { seq, orders } = snapshot()
        return { seq, orders: JSON.stringify(orders) }
      },
    }),
  }
}
