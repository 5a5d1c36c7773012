/** From cancel-all requests, one or up to 64 keys at once, to one verified command. */
import { concatBytes } from '../../protocol/bytes'
import { encodeCancelAll } from '../../protocol/cancel_all'
import type { CancelAll } from '../commands'
import { LIMITS } from '../limits'
import { arrayOf } from './form'
import { type Intake, requireSignature, rulesFor } from './intake'
import { readCancelAll } from './read_cancel'
import type { Signed } from './signed'

/** Refuses form faults, `instrument_unknown` and `signature_invalid`; checks run over all items, stage by stage. */
export function intakeCancelAll(intake: Intake, account_id: string, value: unknown): Signed<CancelAll> {
  const requests = arrayOf(value, 'body', 1, LIMITS.cancel_all_items_max)
  const items = requests.map((one, index) => readCancelAll(one, requests.length === 1 ? '' : `[${index}]`))
  for (const item of items) if (item.symbol !== undefined) rulesFor(intake, item.symbol)
  const parts = items.flatMap((item) => {
    const body = encodeCancelAll({ ...item, venue: intake.venue, symbol: item.symbol ?? '' })
    requireSignature(item.signature, body, item.trading_key)
    return [body, item.signature]
  })
  return { command: { kind: 'cancel_all', account_id, items }, body_and_signature: concatBytes(...parts) }
}
