/**
 * Random schedules of lost answers, refusals on the way, cut streams, kills and full disks: no request becomes two orders, no
 * refusal is told of an order that lives, and wallet and venue agree in the end. TACIT_SCHEDULES and TACIT_SEED choose others.
 */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Login, VenueClient } from '../../../client/api/venue_client'
import { openChainAccess } from '../../../client/chain/chain_access'
import { NoNote, Session } from '../../../client/session/session'
import { type Fault, FaultyTransport } from '../../../client/testing/faulty_transport'
import { Wallet } from '../../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../../client/wallet/wallet_file'
import { NotWritten } from '../../../client/whole_file'
import type { Attestation, Info } from '../../../protocol/wire/trading'
import { fundTrader } from '../../faults/kit/fund_trader'
import { openAccount } from '../../faults/kit/open_account'
import { USDC } from '../../faults/kit/open_trader'
import { type Random, seededRandom } from '../../faults/kit/random'
import { VenueProcess } from '../../faults/kit/venue_process'
import { venueTransport } from '../../faults/kit/venue_transport'

const COUNT = Number(process.env['TACIT_SCHEDULES'] ?? 25)
const SEED = Number(process.env['TACIT_SEED'] ?? Date.now() % 1_000_000)
const FAULTS: (Fault | undefined)[] = [undefined, undefined, 'before', 'after', 'rate_limited', 'draining']
const ORDER = { symbol: 'SOL-USDC', side: 'buy', amount: '1', price: '140' } as const

const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-schedules-'))
const path = join(folder, 'wallet.json')
let faults: FaultyTransport
let asked: VenueClient
let login: Login
/** What callers were told, by the id of the request. */
const told = new Map<string, string>()
let disk = { full: false }
let session: Session

beforeAll(async () => {
  await venue.start()
  const account = await openAccount(venue, 'scheduled')
  asked = account.client
  login = account.credentials
  const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  const chain = await openChainAccess(venue.facts.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const trader = { chain, wallet, client: asked, keys: 1 } as never
  await fundTrader(trader, venue.facts.program_id, new Map([[USDC, 200_000_000n]]), 4)
  saveWallet(path, wallet)
  faults = new FaultyTransport(venueTransport(venue))
  session = await open()
}, 180_000)
afterAll(async () => {
  session?.close()
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

async function open(): Promise<Session> {
  const read = async <T>(of: string) => (await (await venueTransport(venue).fetch(of)).json()) as T
  const [info, attestation] = [
    await read<Info>('/info'),
    await read<Attestation>(`/attestation?reportData=${'11'.repeat(32)}`),
  ]
  const transport = { fetch: faults.fetch.bind(faults), webSocket: faults.webSocket.bind(faults) }
  const shown = { base_url: faults.base_url, ...transport, info, attestation }
  disk = { full: false }
  const own = disk
  const save = (wallet: Wallet) => {
    if (own.full) throw new NotWritten(path, new Error('no space left'))
    saveWallet(path, wallet)
  }
  const store = { wallet: loadWallet(path)!, save }
  const { account_id } = login
  const common = { url: venue.facts.url, policy: {} as never, login, account_id, patience_ms: 60 }
  return Session.open({ ...common, wallet: store, open_venue: async () => shown })
}

/** The process ends: what it did not save is gone. */
async function kill(): Promise<void> {
  disk.full = true
  try {
    session.close()
  } catch {}
  session = await open()
}

async function act(random: Random): Promise<void> {
  const dice = random.integer(10)
  const live = session.wallet.state.orders.filter((order) => order.open)
  if (dice === 0) faults.cut()
  else if (dice === 1) disk.full = !disk.full
  else if (dice < 4 && live.length > 0) await tell(session.cancel(random.pick(live).order_id))
  else if (dice === 4 && session.open_requests.length > 0)
    await tell(session.settle(random.pick(session.open_requests).id))
  else await tell(session.place(ORDER, { merge: false }))
}

async function tell(call: Promise<{ id: string; status: string }>): Promise<void> {
  try {
    const { id, status } = await call
    const before = told.get(id)
    if (before !== undefined && before !== 'unknown') expect([id, status]).toEqual([id, before])
    told.set(id, status)
  } catch (error) {
    if (!(error instanceof NoNote) && !(error instanceof NotWritten)) throw error
  }
}

/** The network and the disk are well again: everything open is settled, and every order is cancelled. */
async function windDown(): Promise<void> {
  faults.next.length = 0
  disk.full = false
  for (const { id } of [...session.open_requests]) await tell(session.settle(id))
  expect(session.open_requests).toEqual([])
  for (const order of session.wallet.state.orders) {
    if (!order.open) continue
    const { status } = await asked.order(order.order_id)
    if (status === 'accepted') await tell(session.cancel(order.order_id))
  }
  await session.until(({ state }) => (state.notes.every((note) => note.state === 'free') ? true : undefined))
}

test(`${COUNT} schedules from seed ${SEED}`, async () => {
  const random = seededRandom(SEED)
  for (let at = 0; at < COUNT; at++) {
    for (let step = 0; step < 4; step++) {
      faults.next.length = 0
      for (let n = 0; n < 3; n++) faults.next.push(random.pick(FAULTS))
      await act(random)
      expect(loadWallet(path)).toBeDefined()
      if (random.integer(6) === 0) await kill()
    }
    await windDown()
  }
  const placed = new Set<string>()
  for (let after: number | null = 0; after !== null; ) {
    const page: Awaited<ReturnType<VenueClient['orders']>> = await asked.orders({ after, limit: 500 })
    for (const { order_id } of page.items) {
      expect(placed.has(order_id)).toBe(false)
      placed.add(order_id)
      expect([order_id, told.get(order_id)]).not.toEqual([order_id, 'refused'])
      expect(session.wallet.order(order_id)).toBeDefined()
    }
    after = page.next_after
  }
  for (const [id, status] of told)
    if (status === 'accepted' && !id.includes('/')) expect(placed).toContain(id)
  expect(placed.size).toBeGreaterThan(COUNT / 4)
  expect([...told.values()]).toContain('refused')
}, 600_000)
