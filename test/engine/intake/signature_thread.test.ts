/** Signatures checked on a thread of their own: the same verdicts, in the order of the calls, and the same venue behind it. */

import { afterEach, expect, test } from 'bun:test'
import fc from 'fast-check'
import { decodeClaims, encodeClaims } from '../../../engine/intake/claim_bytes'
import type { Claim } from '../../../engine/intake/context'
import { SIGNATURES_INLINE, SignatureThread } from '../../../engine/intake/signatures'
import { LIMITS } from '../../../engine/limits'
import { publicKeyOf, sign } from '../../../protocol/sign'
import { bytes } from '../../kit/venue/memory_chain'
import { TestSite } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { Trader } from '../../kit/venue/trader'

const threads: SignatureThread[] = []
const sites: TestSite[] = []
afterEach(async () => {
  for (const thread of threads.splice(0)) thread.close()
  for (const site of sites.splice(0)) await site.remove()
})

function openThread(): SignatureThread {
  const thread = new SignatureThread((error) => {
    throw error
  })
  threads.push(thread)
  return thread
}

async function openVenue() {
  const site = new TestSite()
  sites.push(site)
  return site.open({ signature_thread: true })
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

function claimOf(body: Uint8Array): Claim {
  const seed = bytes(32)
  return { signature: sign(seed, body), body, trading_key: publicKeyOf(seed) }
}

test('claims cross as they are, whatever their number and length', () => {
  const claim = fc.record({
    signature: fc.uint8Array({ minLength: 64, maxLength: 64 }),
    body: fc.uint8Array({ maxLength: 300 }),
    trading_key: fc.uint8Array({ minLength: 32, maxLength: 32 }),
  })
  fc.assert(
    fc.property(fc.array(claim), (claims) => {
      expect(decodeClaims(encodeClaims(claims))).toEqual(claims.map((one) => ({ ...one })))
    }),
  )
})

test('the thread holds exactly what is held on the spot', async () => {
  const thread = openThread()
  const good = claimOf(bytes(224))
  const bent = { ...good, body: bytes(224) }
  const short = { ...good, signature: good.signature.subarray(1) }
  const identity = new Uint8Array(32)
  identity[0] = 1
  const forged = {
    signature: Uint8Array.of(...identity, ...new Uint8Array(32)),
    body: good.body,
    trading_key: identity,
  }
  const calls = [[good], [bent], [short], [forged], [good, good], [good, bent], [bent, good], []]
  const verdicts = await Promise.all(calls.map((claims) => thread.hold(claims)))
  expect(verdicts).toEqual(calls.map((claims) => SIGNATURES_INLINE.hold(claims) as boolean))
  expect(verdicts).toEqual([true, false, false, false, true, false, false, true])
})

test('verdicts come in the order of the calls, over many messages and behind commands of many signatures', async () => {
  const thread = openThread()
  const good = claimOf(bytes(100))
  const order: number[] = []
  const calls = Array.from({ length: 120 }, (_, at) => (at % 40 === 7 ? Array<Claim>(64).fill(good) : [good]))
  calls.push([])
  await Promise.all(calls.map((claims, at) => thread.hold(claims).then(() => order.push(at))))
  expect(order).toEqual(calls.map((_, at) => at))
})

test('few claims are checked on the spot, unless others are under way that they must not overtake', async () => {
  const { Worker } = globalThis
  const sent: Uint8Array[] = []
  class SilentWorker {
    postMessage = (message: Uint8Array) => void sent.push(message)
    terminate() {}
  }
  try {
    Object.assign(globalThis, { Worker: SilentWorker })
    const thread = openThread()
    const good = claimOf(bytes(80))
    const bent = { ...good, body: bytes(80) }
    expect(await Promise.all([thread.hold([good]), thread.hold([bent]), thread.hold([good])])).toEqual([
      true,
      false,
      true,
    ])
    expect(sent.length).toBe(0)
    const answered: string[] = []
    thread.hold([good, good, good, good]).then(
      () => answered.push('many'),
      () => {},
    )
    await turn()
    expect(sent.length).toBe(1)
    thread.hold([good]).then(
      () => answered.push('one'),
      () => {},
    )
    await turn()
    expect(sent.map((message) => decodeClaims(message).length)).toEqual([4, 1])
    expect(answered).toEqual([])
  } finally {
    Object.assign(globalThis, { Worker })
  }
})

test('too many waiting turn clients away, and a socket that goes still takes its turn', async () => {
  const thread = openThread()
  const claim = claimOf(bytes(50))
  const waiting = Array.from({ length: LIMITS.signatures_waiting_max }, () => thread.hold([claim]))
  for (const call of waiting) call.catch(() => undefined)
  expect(() => thread.hold([claim])).toThrow('Matching is not available')
  const gone = refusalOf(thread.hold([]))
  thread.close()
  expect((await gone).code).toBe('matching_unavailable')
})

test('what waits when the thread closes is refused, and so is what comes later', async () => {
  const thread = openThread()
  const waiting = refusalOf(thread.hold([claimOf(bytes(50))]))
  thread.close()
  expect((await waiting).code).toBe('matching_unavailable')
  expect((await refusalOf(thread.hold([]))).code).toBe('matching_unavailable')
})

test('a venue with the thread takes, refuses and proves as one without', async () => {
  const open = await openVenue()
  const trader = await Trader.provisioned(open, 'alice')
  const deposits = Array.from({ length: 5 }, () => trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  const requests = deposits.map((deposit) => trader.place(deposit))
  const bent = { ...requests[0]!, price_limit: '99000000' }
  const forged = refusalOf(open.venue.place('alice', bent))
  const placed = await Promise.all(requests.map((request) => open.venue.place('alice', request)))
  expect((await forged).code).toBe('signature_invalid')
  // Nonces rise in the order of the calls, so a later one that overtook would have refused the earlier.
  expect(placed.map(({ seq }) => seq - placed[0]!.seq)).toEqual([0, 1, 2, 3, 4])
  const again = await refusalOf(open.venue.place('alice', requests[2]!))
  expect(again.code).toBe('order_exists')
  expect(again.facts.result).toEqual(placed[2]!)
})

test('a socket that goes takes along the orders whose signatures still waited', async () => {
  const open = await openVenue()
  const trader = await Trader.provisioned(open, 'alice')
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  await open.venue.armDisconnect('alice', 'socket-1', true)
  const request = trader.place(deposit)
  const placing = open.venue.place('alice', request, 'socket-1')
  await Promise.all([placing, open.venue.disconnected('alice', 'socket-1')])
  const order = await open.venue.order('alice', request.order_id)
  expect(order).toMatchObject({ status: 'cancelled', reason: 'disconnect' })
})
