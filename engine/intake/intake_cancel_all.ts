/** From cancel-all requests, one or up to 64 keys at once, to one command. */
import { concatBytes } from '../../protocol/bytes'
import { encodeCancelAll } from '../../protocol/cancel_all'
import type { CancelAll } from '../commands'
import { LIMITS } from '../limits'
import { arrayOf } from './form'
import { type Intake, rulesFor } from './intake'
import { readCancelAll } from './read_cancel'
import type { Signed } from './signed'

/** Refuses form faults and `instrument_unknown`; checks run over all items, stage by stage. */
export function intakeCancelAll(intake: Intake, account_id: string, value: unknown): Signed<CancelAll> {
  const requests = arrayOf(value, 'body', 1, LIMITS.cancel_all_items_max)
  const items = requests.map((one, index) => readCancelAll(one, requests.length === 1 ? '' : `[${index}]`))
  for (const item of items) if (item.symbol !== undefined) rulesFor(intake, item.symbol)
  const claims = items.map(({ signature, trading_key, ...item }) => {
    const symbol = item.symbol ?? ''
    const body = encodeCancelAll({ ...item, trading_key, venue: intake.venue, symbol })
    return { signature, body, trading_key }
  })
  return {
    claims,
    command: () => ({ kind: 'cancel_all', account_id, items }),
    body_and_signature: concatBytes(...claims.flatMap(({ body, signature }) => [body, signature])),
  }
}
