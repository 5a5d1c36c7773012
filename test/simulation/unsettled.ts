/** A session on a chain that settles nothing: events of others are passed over, and a merge is waited for within its bound. */
import { deepStrictEqual, ok } from 'node:assert'
import { EventsMissing } from '../../client/api/event_stream'
import { MERGE_MAX_MS } from '../../client/limits'
import { Session } from '../../client/session/session'
import { NoNote, SessionEnded } from '../../client/session/session_options'
import { Wallet } from '../../client/wallet/wallet'
import { depositNote } from '../client/wallet_trader'
import { Random } from '../kit/random'
import { bytes } from '../kit/venue/memory_chain'
import type { TestVenue } from '../kit/venue/open_test_venue'
import { accountId } from '../kit/venue/test_login'
import { Life } from './awaits'
import { Maker } from './campaign_check'
import { SimulatedTime } from './simulated_time'
import { SimulatedVenue } from './simulated_venue'
import { simulateThreads } from './threads'
import { MemoryWorld } from './worlds/memory_world'

const ACCOUNT = 'a1'.repeat(16)
const ACCOUNT_ID = accountId(ACCOUNT)
const time = new SimulatedTime()
simulateThreads(time)

const driven = <T>(run: () => Promise<T>): Promise<T> =>
  time.wait(
    time.inside({ life: new Life(), side: 'client', doing: { kind: 'merge', sent: new Set<string>() } }, run),
  )

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) if (!(await time.step()) || time.now_ms > 7_200_000) throw new Error('it does not happen')
}

/** Notes of a merge that goes on are taken by no other. */
async function expectNotFree(session: Session): Promise<void> {
  const [note] = session.wallet.state.notes
  const reshaped = driven(() => session.reshape([note!], [BigInt(note!.amount)]))
  deepStrictEqual(await reshaped.catch((error: Error) => error.message), 'a note is not free')
}

let fault: 'gap' | undefined
let gaps = 0
const ended: unknown[] = []
time.random = new Random(1)
const world = new MemoryWorld(time)
const venue = new SimulatedVenue(time, world)
venue.random = time.random
const faulted = () => {
  if (fault !== undefined) gaps += 1
  return fault
}
venue.weather = { request: () => undefined, frame: faulted, left() {}, killed() {} }
venue.start()
await until(() => venue.rests)
const open = venue.open as TestVenue
await time.wait(open.venue.provision({ account_id: ACCOUNT, version: 1, orders_live_max: 10, keys_max: 10 }))
const [wallet, trading] = [new Wallet(bytes(32)), new Wallet(bytes(32))]
depositNote(open.ledger, trading, { side: 'quote', amount: 150_000_000n, key_index: 0 })
for (let note = 0; note < 2; note++)
  depositNote(open.ledger, wallet, { side: 'quote', amount: 60_000_000n, key_index: 0 })
await time.wait(open.chain.finalizeLeaves())
const opened = (of: Wallet) =>
  driven(() =>
    Session.open({
      url: 'https://venue.test',
      policy: {} as never,
      account_id: ACCOUNT_ID,
      open_venue: () => venue.connect(),
      wallet: { wallet: of, save: () => undefined },
      ended: (reason) => ended.push(reason),
      login: { api_key: ACCOUNT, api_secret: 'secret', passphrase: 'passphrase', account_id: ACCOUNT_ID },
    }),
  )
// Another program of the account trades: this wallet waits for none of its events.
const other = new Maker(ACCOUNT, 'buy')
const trade = () => time.wait(other.place(open, 100_000_000n, 50_000_000n))
const gapEnds = async () => {
  fault = 'gap'
  await trade()
  await until(() => ended.length > 0)
  ok(ended.splice(0)[0] instanceof EventsMissing)
  fault = undefined
}
// A wallet with an open order misses the events of a gap.
const order = { symbol: 'SOL-USDC', side: 'buy', amount: 1_000_000_000n, price: 100_000_000n } as const
const waiting = await opened(trading)
deepStrictEqual((await driven(() => waiting.place(order))).status, 'accepted')
await gapEnds()
waiting.close()
// The first reason that ended a session stays, also when it is closed afterwards.
const reason = await time.wait(waiting.until(() => undefined).catch((thrown: unknown) => thrown))
ok((reason as SessionEnded).cause instanceof EventsMissing)
const asked = await opened(new Wallet(bytes(32)))
const never = asked.until(() => undefined).catch((error: unknown) => error)
await gapEnds()
ok((await never) instanceof SessionEnded)
const session = await opened(wallet)
await until(() => wallet.state.seq >= 3)
const [{ seq }, before] = [wallet.state, gaps]
fault = 'gap'
await trade()
await until(() => gaps > before)
deepStrictEqual([wallet.state.seq, ended], [seq, []])
fault = undefined
await trade()
await until(() => wallet.state.seq > seq)
const from_ms = time.now_ms
const failure = await driven(() => session.place(order)).catch((error: unknown) => error)
ok(failure instanceof NoNote)
ok(time.now_ms - from_ms < MERGE_MAX_MS + 10_000)
// The merge itself goes on: its notes stay with it.
deepStrictEqual(
  wallet.state.notes.map(({ state }) => state),
  ['pending', 'pending'],
)
await expectNotFree(session)
deepStrictEqual(ended, [])
session.close()
console.log('a session on a chain that settles nothing: as it must be')
venue.remove()
process.exit(0)
