/** A trader's session against a real venue process, over a network that loses answers. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type VenueClient, WrongAccount } from '../../../client/api/venue_client'
import { openChainAccess } from '../../../client/chain/chain_access'
import { NodeLeft, OtherVenue, type SessionVenue } from '../../../client/session/live_venue'
import { Session } from '../../../client/session/session'
import { NoNote, type SessionOptions } from '../../../client/session/session_options'
import { InexactValue } from '../../../client/session/units'
import { FaultyTransport } from '../../../client/testing/index'
import { VerificationFailed } from '../../../client/verified_venue'
import { EvidenceUnavailable } from '../../../client/verify/collect/collect_evidence'
import { ReceiptRefused, verifyReceiptProof } from '../../../client/verify/verify_receipt'
import { ReceiptFile } from '../../../client/wallet/receipt_file'
import { Wallet } from '../../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../../client/wallet/wallet_file'
import { InUse, NotWritten } from '../../../client/whole_file'
import { REFUSAL_BY_CODE } from '../../../protocol/refusals'
import type { Attestation, Info, PlaceResult, Receipt } from '../../../protocol/wire/trading'
import { USDC } from '../../../sandbox/environment'
import { fundTrader, openAccount } from '../../faults/kit/open_trader'
import { VenueProcess, venueTransport } from '../../faults/kit/venue_process'

const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-session-'))
const path = join(folder, 'wallet.json')
const ORDER = { symbol: 'SOL-USDC', side: 'buy', amount: '1', price: '140' } as const
let faults: FaultyTransport
let options: SessionOptions
let asked: VenueClient
let session: Session

beforeAll(async () => {
  await venue.start()
  const { client, credentials } = await openAccount(venue, 'ada')
  asked = client
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const amounts = new Map([[USDC, 200_000_000n]])
  await fundTrader({ chain, wallet, client, keys: 1 } as never, venue.facts.program_id, amounts, 4)
  saveWallet(path, wallet)
  faults = new FaultyTransport(venueTransport(venue))
  const given = { url: venue.facts.url, policy: '', login: credentials, account_id: credentials.account_id }
  options = { ...given, wallet: path, patience_ms: 3_000, open_venue: openVenue, policy: {} as never }
  session = await Session.open(options)
}, 180_000)
afterAll(async () => {
  session?.close()
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

async function openVenue(): Promise<SessionVenue> {
  const read = async <T>(of: string) => (await (await venueTransport(venue).fetch(of)).json()) as T
  const info = await read<Info>('/info')
  const attestation = await read<Attestation>(`/attestation?reportData=${'11'.repeat(32)}`)
  const { fetch, webSocket } = {
    fetch: faults.fetch.bind(faults),
    webSocket: faults.webSocket.bind(faults),
  }
  return { base_url: faults.base_url, fetch, webSocket, info, attestation }
}
const openOrders = async () => (await asked.orders({ status: 'open' })).items.map((one) => one.order_id)
const failureOf = (call: Promise<unknown>): Promise<unknown> => call.then(String, (error: unknown) => error)
async function untilFree(): Promise<void> {
  await session.until(({ state }) =>
    state.notes.every((note) => note.state !== 'pending') ? true : undefined,
  )
}

test('a login of another account than the wallet’s own is refused before anything is sent', async () => {
  const { account_id: _, ...own } = {
    ...options,
    wallet: { wallet: loadWallet(path)!, save: () => undefined },
  }
  const before = faults.arrived.length
  expect(await failureOf(Session.open(own))).toBeInstanceOf(WrongAccount)
  const foreign = { ...own, account_id: '00'.repeat(32) }
  expect(await failureOf(Session.open(foreign))).toBeInstanceOf(WrongAccount)
  expect(faults.arrived.length).toBe(before)
})

/** The venue, whose login answers as `login` does; undefined for its own answer. */
const venueWhere = (login: () => Response | undefined) => async () => {
  const real = await openVenue()
  const fetch: SessionVenue['fetch'] = async (of, init) =>
    (of === '/auth/token' ? login() : undefined) ?? real.fetch(of, init)
  return { ...real, fetch }
}

test.each(['lease_lost', 'quote_busy'] as const)(
  'a venue that is %s is asked again at the opening, within the patience',
  async (code) => {
    session.close()
    const { status, message } = REFUSAL_BY_CODE.get(code)!
    let away = 2
    const open_venue = venueWhere(() => {
      if (away === 0) return undefined
      away -= 1
      return Response.json({ code, status, message, applied: 'no' }, { status })
    })
    const opened = await Session.open({ ...options, open_venue })
    expect(away).toBe(0)
    opened.close()
    away = Number.POSITIVE_INFINITY
    const failed = await failureOf(Session.open({ ...options, open_venue, patience_ms: 200 }))
    expect(failed).toMatchObject({ code })
    session = await Session.open(options)
  },
)

test('a login that one node leaves unanswered while another begins to lead is sent again at the opening', async () => {
  session.close()
  let left = 2
  const open_venue = venueWhere(() => {
    if (left-- > 0) throw new NodeLeft()
    return undefined
  })
  session = await Session.open({ ...options, open_venue })
  expect(left).toBe(-1)
})

test('an address that shows another venue ends the session', async () => {
  session.close()
  let shown = 0
  const open_venue = async () => {
    const real = await openVenue()
    const fetch: SessionVenue['fetch'] = async (of, init) => {
      if (of === '/info' || of === '/time') throw new TypeError('the TLS key is another one')
      return real.fetch(of, init)
    }
    return shown++ === 0 ? { ...real, fetch } : { ...real, info: { ...real.info, venue: '00'.repeat(32) } }
  }
  const moved = await Session.open({ ...options, open_venue })
  expect(await failureOf(moved.place(ORDER))).toBeInstanceOf(TypeError)
  expect(await failureOf(moved.place(ORDER))).toBeInstanceOf(OtherVenue)
  moved.close()
  session = await Session.open(options)
})

test('a venue whose chain is away when it is judged again is judged until it answers', async () => {
  session.close()
  let judged = 0
  const open_venue = async () => {
    const real = await openVenue()
    judged += 1
    if (judged === 2)
      throw new VerificationFailed({ checks: [] } as never, { missing: { chain: 'away' } } as never)
    if (judged === 3) return real
    const fetch: SessionVenue['fetch'] = async (of, init) => {
      if (of === '/info' || of === '/time') throw new TypeError('the connection is lost')
      return real.fetch(of, init)
    }
    return { ...real, fetch }
  }
  const ended: unknown[] = []
  const waiting = await Session.open({ ...options, open_venue, ended: (reason) => ended.push(reason) })
  expect(await failureOf(waiting.place(ORDER))).toBeInstanceOf(TypeError)
  expect(await failureOf(waiting.place(ORDER))).toBeInstanceOf(EvidenceUnavailable)
  const placed = await waiting.place(ORDER)
  expect({ status: placed.status, judged, ended }).toEqual({ status: 'accepted', judged: 3, ended: [] })
  expect(await waiting.cancel(placed.id)).toMatchObject({ status: 'accepted' })
  waiting.close()
  session = await Session.open(options)
})

test('events are on disk a moment after they came, the later ones too', async () => {
  for (let round = 0; round < 2; round++) {
    const placed = await session.place(ORDER)
    expect(await session.cancel(placed.id)).toMatchObject({ status: 'accepted' })
    await untilFree()
    const { seq } = session.wallet.state
    while (loadWallet(path)!.state.seq < seq) await Bun.sleep(20)
  }
}, 30_000)

test('an order is on disk before it leaves, its receipt is verified, and a cancel frees its note', async () => {
  const placed = await session.place(ORDER)
  if (placed.status !== 'accepted') throw new Error(placed.status)
  expect(placed.receipt?.epoch).toBe((await asked.info()).epoch)
  expect(loadWallet(path)?.order(placed.id)?.open).toBe(true)
  expect(await openOrders()).toEqual([placed.id])
  const cheaper = await session.modify(placed.id, { ...ORDER, price: '139.5' })
  expect(cheaper).toMatchObject({ status: 'accepted' })
  expect(await session.cancel(cheaper.id)).toMatchObject({ status: 'accepted' })
  await untilFree()
  expect(session.open_requests).toEqual([])
})

test('an answer to the command itself without a true receipt is refused, and its request stays open', async () => {
  session.close()
  const { epoch } = await asked.info()
  let forge: ((receipt: Receipt) => unknown) | undefined
  const open_venue = async () => {
    const real = await openVenue()
    const fetch: SessionVenue['fetch'] = async (of, init) => {
      const answer = await real.fetch(of, init)
      if (forge === undefined || of !== '/orders' || init?.method !== 'POST') return answer
      const { receipt, result, ...rest } = (await answer.json()) as PlaceResult & { result?: PlaceResult }
      const forged =
        result === undefined
          ? { receipt: forge(receipt) }
          : { result: { ...result, receipt: forge(result.receipt) } }
      return Response.json({ ...rest, ...forged }, { status: answer.status })
    }
    return { ...real, fetch }
  }
  const misled = await Session.open({ ...options, open_venue })
  for (const forged of [
    () => undefined,
    () => null,
    () => 7,
    (receipt) => ({ ...receipt, epoch: 'x' }),
    (receipt) => ({ ...receipt, epoch: epoch + 1 }),
    (receipt) => ({ ...receipt, epoch: 0 }),
  ] satisfies (typeof forge)[]) {
    forge = forged
    expect(await failureOf(misled.place(ORDER))).toBeInstanceOf(ReceiptRefused)
    const [open] = misled.open_requests
    // The answer to the resend comes from the same process.
    expect(await failureOf(misled.settle(open!.id))).toBeInstanceOf(ReceiptRefused)
    forge = undefined
    expect(await misled.settle(open!.id)).toMatchObject({ status: 'accepted', receipt: { epoch } })
    await misled.cancel(open!.id)
    await misled.until(({ state }) => state.notes.every((note) => note.state !== 'pending') || undefined)
  }
  misled.close()
  session = await Session.open(options)
}, 120_000)

test('values that are not exact are refused, and so is an order that no note covers', async () => {
  for (const wrong of [{ amount: '0.0000001' }, { price: '140.0000001' }, { amount: '-1' }, { price: '0' }])
    expect(await failureOf(session.place({ ...ORDER, ...wrong }))).toBeInstanceOf(InexactValue)
  expect(await failureOf(session.place({ ...ORDER, amount: '900' }))).toBeInstanceOf(NoNote)
  expect(session.open_requests).toEqual([])
})

test('a lost answer is resolved with the same bytes, and a later 429 or 503 is never reported as refused', async () => {
  for (const between of [
    [],
    ['rate_limited'],
    ['draining', 'rate_limited'],
    ['nonce_stale'],
    ['after'],
  ] as const) {
    faults.arrived.length = 0
    faults.next.push('after', ...between)
    const placed = await session.place(ORDER)
    expect(placed.status).toBe('accepted')
    // A stale nonce ends the sending: the order itself is then the only answer.
    const is_shown = between[0] === 'nonce_stale'
    if (!is_shown) expect(placed).toMatchObject({ result: { order_id: placed.id } })
    expect(new Set(faults.arrived).size).toBe(1)
    expect(await openOrders()).toEqual([placed.id])
    faults.next.push('after')
    expect(await session.cancel(placed.id)).toMatchObject({ status: 'accepted' })
    await untilFree()
  }
})

test('a refusal of the first attempt frees the note; the same refusal after a lost answer does not', async () => {
  faults.next.push('rate_limited')
  expect(await session.place(ORDER)).toMatchObject({ status: 'refused', problem: { code: 'rate_limited' } })
  await untilFree()
  faults.next.push('after', ...Array<'rate_limited'>(200).fill('rate_limited'))
  const impatient = await Session.open({ ...options, wallet: copied(), patience_ms: 200 })
  const open = await impatient.place(ORDER)
  expect(open.status).toBe('unknown')
  expect(impatient.open_requests.map(({ id }) => id)).toEqual([open.id])
  expect(await impatient.settle(open.id)).toMatchObject({ status: 'unknown', id: open.id })
  faults.next.length = 0
  expect(await impatient.settle(open.id)).toMatchObject({ status: 'accepted', id: open.id })
  faults.next.push('after', ...Array<'rate_limited'>(200).fill('rate_limited'))
  const undecided = await impatient.cancelAll()
  expect(undecided.status).toBe('unknown')
  faults.next.length = 0
  // The later command of the key settles the earlier one, which is then open no more.
  const [later, earlier] = await Promise.allSettled([impatient.cancelAll(), impatient.settle(undecided.id)])
  expect(later).toMatchObject({ status: 'fulfilled', value: { status: 'accepted' } })
  expect(earlier).toMatchObject({ status: 'rejected', reason: { message: 'no such request is open' } })
  impatient.close()
  session.close()
  saveWallet(path, impatient.wallet)
  session = await Session.open(options)
  await untilFree()
})

/** The wallet as it is on disk, kept in memory. */
function copied() {
  session.close()
  return { wallet: loadWallet(path)!, save: () => undefined }
}

test('a process that dies with an answer lost finds its order again, and places it once', async () => {
  const saved: string[] = []
  const disk = {
    wallet: loadWallet(path)!,
    save: (wallet: Wallet) => void saved.push(JSON.stringify(wallet.state)),
  }
  session.close()
  const dying = await Session.open({ ...options, wallet: disk, patience_ms: 100 })
  faults.next.push('after', 'before', 'before', 'before', 'before', 'before')
  const lost = await dying.place(ORDER)
  expect(lost.status).toBe('unknown')
  faults.next.length = 0
  saveWallet(path, new Wallet(disk.wallet.seed, JSON.parse(saved[0]!)), { replace: true })
  dying.close()
  session = await Session.open(options)
  expect(session.open_requests).toEqual([])
  expect(await openOrders()).toEqual([lost.id])
  await session.cancel(lost.id)
  await untilFree()
})

test('a full disk sends nothing and leaves the wallet as it was', async () => {
  session.close()
  let full = true
  const wallet = loadWallet(path)!
  const save = () => {
    if (full) throw new NotWritten(path, new Error('no space left'))
  }
  const short = await Session.open({ ...options, wallet: { wallet, save } })
  const before = JSON.stringify(wallet.state.keys)
  faults.arrived.length = 0
  expect(await failureOf(short.place(ORDER))).toBeInstanceOf(NotWritten)
  expect([JSON.stringify(wallet.state.keys), short.open_requests, faults.arrived]).toEqual([before, [], []])
  full = false
  const placed = await short.place(ORDER)
  expect(placed.status).toBe('accepted')
  await short.cancel(placed.id)
  await short.until(({ state }) => (state.notes.some((one) => one.state === 'pending') ? undefined : true))
  short.close()
  saveWallet(path, wallet)
  session = await Session.open(options)
})

test('a file has one session at a time, and one that is closed twice saves once', async () => {
  expect(await failureOf(Session.open(options))).toBeInstanceOf(InUse)
  session.close()
  const next = await Session.open(options)
  const placed = await next.place(ORDER)
  session.close()
  expect(loadWallet(path)?.order(placed.id)?.open).toBe(true)
  expect(await next.cancel(placed.id)).toMatchObject({ status: 'accepted' })
  session = next
  await untilFree()
})

test('all orders of a key are cancelled by one request, also when its answer is lost', async () => {
  const placed = [await session.place(ORDER), await session.place(ORDER, { merge: false })]
  expect(await openOrders()).toHaveLength(placed.length)
  faults.next.push('after', 'rate_limited')
  expect(await session.cancelAll()).toMatchObject({ status: 'accepted' })
  // No later read shows it, so the file has its outcome already.
  expect(loadWallet(path)!.state.requests).toEqual([])
  expect(await openOrders()).toEqual([])
  await untilFree()
})

test('a dead man’s timer cancels orders unless it is renewed, and 0 disarms it', async () => {
  const placed = await session.place(ORDER)
  faults.next.push('after')
  expect(await session.deadMan(20)).toMatchObject({ status: 'accepted' })
  await session.until(({ state }) =>
    state.orders.some((one) => one.order_id === placed.id && !one.open) ? true : undefined,
  )
  expect((await asked.order(placed.id)).reason).toBe('deadman')
  expect(await session.deadMan(0)).toMatchObject({ status: 'accepted', result: { expires_slot: null } })
  await untilFree()
})

test('notes are merged for an order that none of them covers', async () => {
  const placed = await session.place({ ...ORDER, amount: '2' })
  expect(placed.status).toBe('accepted')
  await session.cancel(placed.id)
  await untilFree()
}, 120_000)

test('a venue that was killed is verified again, and the session goes on in its next epoch, also with open requests', async () => {
  const { epoch } = await asked.info()
  faults.next.push('after', ...Array.from({ length: 30 }, () => 'before' as const))
  const lost = await session.place(ORDER)
  expect(lost.status).toBe('unknown')
  faults.next.length = 0
  await venue.kill()
  await venue.start()
  expect((await session.client.info()).epoch).toBe(epoch + 1)
  // The process that has its receipt is gone.
  expect(await session.settle(lost.id)).toMatchObject({ status: 'accepted' })
  await session.cancel(lost.id)
  await untilFree()
  const placed = await session.place(ORDER)
  if (placed.status !== 'accepted') throw new Error(placed.status)
  expect(placed.receipt?.epoch).toBe(epoch + 1)
  await session.cancel(placed.id)
  await untilFree()
}, 180_000)

test('receipts are kept with all that proves them, also one of an epoch before the session', async () => {
  const { epoch } = await asked.info()
  session.close()
  const impatient = await Session.open({ ...options, patience_ms: 100 })
  faults.next.push('after', 'before', 'before', 'before', 'before', 'before')
  const lost = await impatient.place(ORDER)
  expect(lost.status).toBe('unknown')
  impatient.close()
  faults.next.length = 0
  session = await Session.open(options)
  expect(session.open_requests).toEqual([])
  await venue.kill()
  await venue.start()
  expect((await asked.info()).epoch).toBe(epoch + 1)
  const { seed } = session.wallet
  const kept = new ReceiptFile(path, seed)
  const found = kept.find(lost.id)!
  expect(found.receipt.epoch).toBe(epoch)
  const proof = kept.proofOf(found)!
  expect((await verifyReceiptProof(proof)).epoch).toBe(BigInt(epoch))
  for (const wrong of [
    { command: proof.command.replace(/.$/, (digit) => (digit === '0' ? '1' : '0')) },
    { certificate_signature: '00'.repeat(64) },
    { receipt: { ...proof.receipt, seq: proof.receipt.seq + 1 } },
  ])
    expect(await failureOf(verifyReceiptProof({ ...proof, ...wrong }))).toBeInstanceOf(ReceiptRefused)
  // The orders in it are sealed, and a torn or foreign line harms no other.
  const text = readFileSync(`${path}.receipts`, 'utf8')
  expect(text).not.toContain(lost.id)
  writeFileSync(`${path}.receipts`, `${text.slice(0, -50)}\nr00\nnoise`)
  expect(kept.find(lost.id)).toBeUndefined()
  kept.keep(found)
  expect(new ReceiptFile(path, seed).find(lost.id)).toEqual(found)
  expect(new ReceiptFile(path, new Uint8Array(32)).find(lost.id)).toBeUndefined()
  await session.cancel(lost.id)
  await untilFree()
}, 180_000)
