/** A flood of quote requests is rejected with 429 and a time to come back, while every order is answered as before. */
import { afterEach, expect, test } from 'bun:test'
import type { Enclave } from '../../enclave/contract'
import { fromHex } from '../../protocol/bytes'
import type * as wire from '../../protocol/wire/trading'
import { createApp } from '../../server/edge/app'
import { openLog } from '../../server/edge/log'
import { type Listener, listen } from '../../server/tls/listen'
import { type Machine, openMachine, openOn } from '../enclave/machine'
import type { MemoryChain } from '../kit/venue/memory_chain'
import { TestSite } from '../kit/venue/open_test_venue'
import { Trader } from '../kit/venue/trader'

const FLOOD = 32
const ORDERS = 40
/** One quote being made, and those the enclave lets wait. */
const [MADE, WAITING] = [1, 4]

const ends: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function openVenue() {
  const site = new TestSite()
  ends.push(() => site.remove())
  const open = await site.open()
  const machine: Machine = await openMachine()
  ends.push(() => machine.close())
  const limits = { quote_waiting_max: WAITING, quote_wait_ms: 600_000, quote_call_ms: 600_000 }
  const enclave: Enclave = await openOn(machine.agent, { limits })
  ends.push(() => enclave.close())
  await enclave.bind({ venue: fromHex(open.venue.identity().venue, 32)!, epoch: 1, slot: () => 1 })
  const clock = { unixMs: () => Date.now(), monotonicMs: () => Math.floor(performance.now()) }
  const log = openLog(() => undefined, clock.unixMs)
  const app = createApp({ venue: open.venue.parsed, enclave, options: { version: '1', clock, log } })
  const listener = listen(app, { hostname: '127.0.0.1', port: 0, tls: enclave.tls })
  ends.push(() => listener.stop(0))
  const trader = await Trader.provisioned(open, 'alice')
  const requests = Array.from({ length: 2 * ORDERS }, () => trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  return { machine, listener, chain: open.chain, orders: requests.map((deposit) => trader.place(deposit)) }
}

function ask(listener: Listener, path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`${listener.url}${path}`, { ...init, tls: { rejectUnauthorized: false } })
}

/** @returns milliseconds each order took, sorted; every one is accepted. */
async function trade(
  { listener, chain }: { listener: Listener; chain: MemoryChain },
  orders: readonly wire.PlaceRequest[],
): Promise<number[]> {
  const taken: number[] = []
  for (const order of orders) {
    let status = 503
    // The chain of the test has the slots that it is given: after a long pause the venue reopens with them.
    for (let code: string | undefined = 'reopening'; code === 'reopening'; ) {
      await chain.tick()
      const begun = performance.now()
      const answer = await ask(listener, '/orders', {
        method: 'POST',
        headers: { authorization: 'Bearer alice', 'content-type': 'application/json' },
        body: JSON.stringify(order),
      })
      status = answer.status
      code = ((await answer.json()) as { code?: string }).code
      if (code !== 'reopening') taken.push(performance.now() - begun)
    }
    expect(status).toBe(202)
  }
  return taken.sort((a, b) => a - b)
}

test('a quote flood is answered 429 while every order is accepted', async () => {
  const { orders, ...venue } = await openVenue()
  const { machine, listener } = venue
  const quiet = await trade(venue, orders.slice(0, ORDERS))
  // No quote comes back while the flood lasts: callers that wait for hardware get none.
  machine.agent.knobs.quote_delay_ms = 3_600_000
  const refused: { code: string; retry_after: string | null }[] = []
  const held: Promise<unknown>[] = []
  let [ending, other] = [false, 0]
  const flood = Array.from({ length: FLOOD }, async (_, caller) => {
    for (let round = 0; !ending; round += 1) {
      const nonce = (caller * 1e6 + round).toString(16).padStart(64, '0')
      const answered = ask(listener, `/attestation?reportData=${nonce}`).then(async (answer) => {
        const { code } = (await answer.json()) as { code: string }
        if (answer.status === 429) refused.push({ code, retry_after: answer.headers.get('retry-after') })
        else if (!ending) other += 1
      })
      held.push(answered.catch(() => undefined))
      // Those in the queue get no answer; the caller goes on asking.
      await Promise.race([answered.catch(() => undefined), Bun.sleep(5)])
    }
  })
  while (refused.length < FLOOD) await Bun.sleep(1)
  const before = refused.length
  const flooded = await trade(venue, orders.slice(ORDERS))
  expect(refused.length).toBeGreaterThan(before)
  expect(other).toBe(0)
  for (const { code, retry_after } of refused) {
    expect(['quote_busy', 'rate_limited']).toContain(code)
    expect(Number(retry_after)).toBeGreaterThanOrEqual(1)
  }
  ending = true
  await Promise.all(flood)
  // All but those who found a place are rejected, the last ones once their answers arrive.
  while (held.length - refused.length > MADE + WAITING) await Bun.sleep(1)
  expect(held.length - refused.length).toBeLessThanOrEqual(MADE + WAITING)
  const median = (times: number[]) => times[times.length >> 1]!.toFixed(2)
  console.log(
    `median per order ${median(quiet)} ms, under a flood of ${refused.length} refusals ${median(flooded)} ms`,
  )
})
