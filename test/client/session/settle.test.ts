/** A venue that answers nonsense leaves a request open, and neither hurries nor holds the one who waits. */
import { expect, test } from 'bun:test'
import { VenueClient } from '../../../client/api/venue_client'
import { settleRequest } from '../../../client/session/settle'
import { ReceiptRefused } from '../../../client/verify/verify_receipt'

const LOGIN = { api_key: 'k', api_secret: 's', passphrase: 'p', account_id: 'aa'.repeat(32) }
const SENT = { id: '11'.repeat(16), key_index: 0, after_seq: 0, kind: 'place', request: {} } as never
const limited = { code: 'rate_limited', message: 'later', status: 429, applied: 'no' }

test('answers without sense end as unknown when the patience is over', async () => {
  for (const answer of [
    ...['soon', '1e999', Number.NaN, null, -1, {}, [], true, 1e300].map((retry_after_ms) => ({
      ...limited,
      retry_after_ms,
    })),
    ...[
      null,
      7,
      'no',
      [],
      {},
      { code: 'order_exists' },
      { applied: 'no' },
      { ...limited, code: 'never_heard' },
    ],
  ]) {
    let asked = 0
    const transport = {
      base_url: 'https://venue.test',
      webSocket: () => new WebSocket('wss://venue.test'),
      fetch: async (path: string) => {
        if (path === '/auth/token')
          return Response.json({ access_token: 'T', expires_in: 900, account_id: LOGIN.account_id })
        asked += 1
        return Response.json(answer, { status: 429 })
      },
    }
    const waits = {
      patience_ms: 200,
      sent_before: true,
      isOver: () => false,
      isAwaited: () => false,
      isSameProcess: async () => false,
    }
    const outcome = await settleRequest(new VenueClient(transport, LOGIN), SENT, waits)
    const is_known = Object(answer)['code'] === 'order_exists'
    expect([JSON.stringify(answer), outcome.status]).toEqual([
      JSON.stringify(answer),
      is_known ? 'accepted' : 'unknown',
    ])
    // The wait doubles from 50 ms.
    expect(asked).toBeLessThanOrEqual(4)
    // On the first attempt the process that took the command has its receipt.
    if (!is_known) continue
    const first = settleRequest(new VenueClient(transport, LOGIN), SENT, {
      ...waits,
      sent_before: false,
      isSameProcess: async () => true,
    })
    expect(await first.catch((error: unknown) => error)).toBeInstanceOf(ReceiptRefused)
  }
}, 120_000)
