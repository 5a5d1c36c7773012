/** Identity, quotes and evidence: served from memory, and limited by kind and caller. */

import { afterEach, expect, test } from 'bun:test'
import type { Enclave } from '../../enclave/contract'
import { fromHex, toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import { quotedNonce } from '../../protocol/tdx/quote'
import type * as wire from '../../protocol/wire/trading'
import { createApp } from '../../server/edge/app'
import { openLog } from '../../server/edge/log'
import { SharedQuotes } from '../../server/edge/shared_quotes'
import { QUOTE_CALLERS_MAX, QUOTE_CALLERS_WAITING_MAX, SHARED_QUOTE_MS } from '../../server/limits'
import { type Listener, listen } from '../../server/tls/listen'
import { type Machine, openMachine, openOn } from '../enclave/machine'
import { type Harness, openHarness } from '../kit/server/harness'
import type { MemoryChain } from '../kit/venue/memory_chain'
import { TestSite } from '../kit/venue/open_test_venue'
import { Trader } from '../kit/venue/trader'
import { ATTESTATION } from '../routes/answers'
import { HASH, KEY } from '../routes/bodies'

let harness: Harness
afterEach(() => harness.stop())
const NONCE = 'ab'.repeat(32)
const ENCLAVE = {
  identity: {
    app_id: 'app',
    instance_id: 'instance',
    compose_hash: HASH,
    app_compose: '{}',
    kind: 'development',
    tee_pubkey: new Uint8Array(32).fill(1),
  },
  attestation: async () => ATTESTATION,
} as const

const IDENTITY = {
  venue: HASH,
  config_account: KEY,
  program_id: KEY,
  genesis_hash: KEY,
  generation: 0,
  epoch: 3,
  exit_delay_s: 604_800,
}

test('/info joins facts of the enclave and the engine', async () => {
  harness = openHarness({
    venue: { identity: () => IDENTITY },
    enclave: ENCLAVE,
  })
  const { status, json } = await harness.call('GET', '/info', { token: null })
  expect(status).toBe(200)
  expect(json).toEqual({
    app_id: 'app',
    instance_id: 'instance',
    compose_hash: HASH,
    tee_pubkey: KEY,
    tacit_version: '1.2.3',
    ...IDENTITY,
  })
})

test('/attestation/leader is /info and /attestation of the node that leads: its own, or through a node that follows', async () => {
  harness = openHarness({ venue: { identity: () => IDENTITY }, enclave: ENCLAVE })
  const asked = (path: string) => harness.call('GET', path, { token: null })
  const [leader, info] = [await asked(`/attestation/leader?nonce=${NONCE}`), (await asked('/info')).json]
  expect(leader.json).toEqual({ info, attestation: { ...ATTESTATION, nonce_path: [] } })
  await harness.stop()

  const nonces: (string | undefined)[] = []
  const other = { info: { ...info, tee_pubkey: '1'.repeat(32), epoch: 4 }, attestation: ATTESTATION }
  const leads = async (nonce?: string) => {
    nonces.push(nonce)
    if (nonces.length > 2) throw new Refusal('lease_lost')
    return other
  }
  const following = { ...IDENTITY, epoch: 0 }
  harness = openHarness({
    venue: { identity: () => following },
    enclave: ENCLAVE,
    options: { leader: () => leads },
  })
  expect((await asked('/info')).json.epoch).toBe(0)
  expect((await asked(`/attestation/leader?nonce=${NONCE}`)).json).toEqual(other)
  expect((await asked('/attestation/leader')).json).toEqual(other)
  expect(nonces).toEqual([NONCE, undefined])
  expect(await asked('/attestation/leader')).toMatchObject({ status: 503, json: { code: 'lease_lost' } })
})

test('callers who share a quote are not limited, and those who come while it is made share the next one', async () => {
  const quoted: string[] = []
  const held = Promise.withResolvers<void>()
  harness = openHarness({
    enclave: {
      ...ENCLAVE,
      attestation: async (nonce, is_shared) => {
        quoted.push(`${nonce} ${is_shared}`)
        if (quoted.length === 1) await held.promise
        return ATTESTATION
      },
    },
    venue: { identity: () => IDENTITY },
  })
  const nonces = Array.from({ length: 60 }, (_, at) => at.toString(16).padStart(64, '0'))
  const ask = (nonce: string, path = '/attestation') =>
    harness.call('GET', `${path}?nonce=${nonce}`, { token: null })
  const first = ask(nonces[0]!)
  while (quoted.length === 0) await Bun.sleep(1)
  const later = nonces
    .slice(1)
    .map((nonce, at) => ask(nonce, at % 2 ? '/attestation' : '/attestation/leader'))
  await Bun.sleep(SHARED_QUOTE_MS)
  expect(quoted).toHaveLength(1)
  held.resolve()
  expect((await first).json.nonce_path).toEqual([])
  const answers = await Promise.all(later)
  expect(answers.map(({ status }) => status)).toEqual(later.map(() => 200))
  expect(quoted[0]).toBe(`${nonces[0]} true`)
  const ends = answers.map(({ json }, at) => {
    const path = (json.attestation ?? json).nonce_path.map((one: string) => fromHex(one, 32)!)
    return `${toHex(quotedNonce(fromHex(nonces[at + 1]!, 32)!, path))} true`
  })
  expect(new Set(ends)).toEqual(new Set(quoted.slice(1)))
  expect(quoted.length).toBeLessThan(5)
})

test('callers without an answer are bounded, served in their order, and those of a node that follows go first', async () => {
  const made: { nonce: string; done: (answer: { nonce: string }) => void }[] = []
  const quotes = new SharedQuotes(
    (nonce) => new Promise<{ nonce: string }>((done) => made.push({ nonce, done })),
    (answered) => answered,
  )
  const order: string[] = []
  const asked: Promise<unknown>[] = []
  const ask = (at: number, is_node = false) => {
    const nonce = at.toString(16).padStart(64, '0')
    const answer = quotes.ask(nonce, is_node).then(({ answer, path }) => {
      order.push(`${at}`)
      const end = quotedNonce(
        fromHex(nonce, 32)!,
        path.map((one) => fromHex(one, 32)!),
      )
      expect(toHex(end)).toBe(answer.nonce)
    })
    asked.push(answer)
    return answer
  }
  for (let at = 0; at < QUOTE_CALLERS_WAITING_MAX; at += 1) void ask(at)
  await expect(quotes.ask(NONCE)).rejects.toMatchObject({
    code: 'quote_busy',
    facts: { retry_after_ms: expect.any(Number) },
  })
  void ask(1_000_000, true)
  const batches = 1 + Math.ceil((QUOTE_CALLERS_WAITING_MAX - 1) / QUOTE_CALLERS_MAX)
  for (let batch = 0; batch < batches; batch += 1) {
    while (made.length <= batch) await Bun.sleep(0)
    made[batch]!.done({ nonce: made[batch]!.nonce })
  }
  await Promise.all(asked)
  const callers = Array.from({ length: QUOTE_CALLERS_WAITING_MAX }, (_, at) => `${at}`)
  expect(order).toEqual(['0', '1000000', ...callers.slice(1)])
  expect(made).toHaveLength(batches)
  const last = ask(7)
  while (made.length === batches) await Bun.sleep(0)
  made.at(-1)!.done({ nonce: made.at(-1)!.nonce })
  await last
})

test('a quote that fails fails for the callers who share it, and for none after them', async () => {
  let fails = true
  harness = openHarness({
    enclave: {
      attestation: async () => {
        if (fails) throw new Refusal('enclave_unavailable', { subsystem: 'enclave' })
        return ATTESTATION
      },
    },
  })
  const ask = async () => (await harness.call('GET', `/attestation?nonce=${NONCE}`, { token: null })).status
  expect(await Promise.all([ask(), ask()])).toEqual([503, 503])
  fails = false
  expect(await ask()).toBe(200)
})

test('quotes without a nonce are never limited', async () => {
  harness = openHarness({ enclave: { attestation: async () => ATTESTATION } })
  for (let call = 0; call < 30; call += 1) {
    expect((await harness.call('GET', '/attestation', { token: null })).status).toBe(200)
  }
})

test('strangers asking for quotes cannot lock out callers with a token', async () => {
  const nonces: (string | undefined)[] = []
  harness = openHarness({
    enclave: {
      attestation: async (nonce) => {
        nonces.push(nonce)
        return ATTESTATION
      },
    },
  })
  const ask = (token: string | null) =>
    harness.call('GET', `/attestation?reportData=${NONCE}`, token === null ? { token } : { token })
  for (let call = 0; call < 10; call += 1) expect((await ask(null)).status).toBe(200)
  const refused = await ask(null)
  expect([refused.status, refused.json.code]).toEqual([429, 'quote_busy'])
  expect(refused.headers.get('retry-after')).toBe('1')
  expect((await ask('a-good-token')).status).toBe(200)
  harness.clock.ms += 1_000
  expect((await ask(null)).status).toBe(200)
  expect(new Set(nonces)).toEqual(new Set([NONCE]))
})

test('a nonce is 64 lowercase hex digits', async () => {
  harness = openHarness({ enclave: { attestation: async () => ATTESTATION } })
  for (const nonce of ['', 'AB'.repeat(32), 'ab'.repeat(31), 'zz'.repeat(32), `0x${'ab'.repeat(31)}`]) {
    const { status, json } = await harness.call('GET', `/attestation?reportData=${nonce}`, { token: null })
    expect([status, json.code, json.field]).toEqual([400, 'field_invalid', 'reportData'])
  }
  const both = await harness.call('GET', `/attestation?nonce=${NONCE}&reportData=${NONCE}`, { token: null })
  expect([both.status, both.json.code, both.json.field]).toEqual([400, 'field_invalid', 'nonce'])
  const { json } = await harness.call('GET', '/attestation?report_data=1', { token: null })
  expect([json.code, json.field]).toEqual(['field_unknown', 'report_data'])
})

test('quotes are public with any token: an invalid one counts as none', async () => {
  harness = openHarness({ enclave: { attestation: async () => ATTESTATION } })
  const ask = async (authorization: string, query = '') =>
    (await harness.call('GET', `/attestation${query}`, { headers: { authorization } })).status
  const useless = [
    'Bearer wrong',
    'Bearer an-expired-token',
    'Bearer a-revoked-token',
    'Basic abc',
    'Bearer <',
  ]
  for (const authorization of useless)
    expect([authorization, await ask(authorization)]).toEqual([authorization, 200])
  // They share the bucket of callers without a token.
  const nonce = `?reportData=${NONCE}`
  for (let call = 0; call < 10; call += 1) expect(await ask('Bearer wrong', nonce)).toBe(200)
  expect(await ask('Bearer an-expired-token', nonce)).toBe(429)
  expect(await ask(`Bearer a-good-token`, nonce)).toBe(200)
})

test('an agent that does not answer is 503 and named', async () => {
  harness = openHarness({
    enclave: {
      attestation: async () => {
        throw new Refusal('enclave_unavailable', { subsystem: 'enclave' })
      },
    },
  })
  const { status, json } = await harness.call('GET', '/attestation', { token: null })
  expect([status, json.code, json.subsystem]).toEqual([503, 'enclave_unavailable', 'enclave'])
})

test('evidence files are served as they are, others are unknown', async () => {
  const files: Record<string, { content_type: string; body: string }> = {
    'quote.json': { content_type: 'application/json', body: '{"quote":"ab"}' },
    'cert.pem': { content_type: 'application/x-pem-file', body: '-----BEGIN' },
  }
  harness = openHarness({ enclave: { evidence: (name) => files[name] } })
  for (const [name, { content_type, body }] of Object.entries(files)) {
    const { status, headers, text } = await harness.call('GET', `/evidences/${name}`, { token: null })
    expect([status, headers.get('content-type'), text]).toEqual([200, content_type, body])
  }
  for (const name of ['key.pem', '..%2fkey.pem', '%00']) {
    const { status, json } = await harness.call('GET', `/evidences/${name}`, { token: null })
    expect([status, json.code]).toEqual([404, 'evidence_unknown'])
  }
  expect((await harness.call('GET', '/evidences/a/b', { token: null })).json.code).toBe('route_unknown')
})

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

test('a quote has no more callers than its bound', async () => {
  let quotes = 0
  const shared = new SharedQuotes(
    async () => Object.freeze({ quotes: ++quotes }),
    (answered) => answered,
  )
  // The first one has a quote alone, and the last one has.
  const nonces = Array.from({ length: QUOTE_CALLERS_MAX + 2 }, (_, at) => at.toString(16).padStart(64, '0'))
  await Promise.all(nonces.map((nonce) => shared.ask(nonce)))
  expect(quotes).toBe(3)
})
