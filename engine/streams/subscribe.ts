/** A stream bound to a token: it ends when the token dies, and lives on when a newer token takes its place. */
import type { AccountsPort } from '../loop/accounts_port'
import type { EventSink, Session, Subscription } from '../venue'
import type { Hub } from './hub'

/** Refuses `after_invalid` and `connection_limit`. */
export async function subscribe(
  hub: Hub,
  accounts: AccountsPort,
  session: Session,
  after: number | undefined,
  sink: EventSink,
  gap: (seq_from: number, seq_to: number) => void,
): Promise<Subscription> {
  const { end, close, ...stream } = hub.subscribe(session.account_id, after, sink, gap)
  let stopListening = accounts.onEnded(session.token_id, end)
  return {
    ...stream,
    renew: (renewed) => {
      stopListening()
      stopListening = accounts.onEnded(renewed.token_id, end)
    },
    close: () => {
      stopListening()
      close()
    },
  }
}
