/** A session on a chain that settles nothing: events of others are passed over, and a merge is waited for within its bound. */
import { afterAll, expect, test } from 'bun:test'
import { EventsMissing } from '../../../client/api/event_stream'
import { MERGE_MAX_MS } from '../../../client/limits'
import { Session } from '../../../client/session/session'
import { NoNote, SessionEnded } from '../../../client/session/session_options'
import { Wallet } from '../../../client/wallet/wallet'
import { Maker } from '../../kit/client/campaign_check'
import { Life, SimulatedTime } from '../../kit/client/simulated_time'
import { SimulatedVenue } from '../../kit/client/simulated_venue'
import { Random } from '../../kit/random'
import { bytes } from '../../kit/venue/memory_chain'
import { accountId } from '../../kit/venue/test_login'
import { depositNote } from '../memory_trader'

const ACCOUNT = 'a1'.repeat(16)
const ACCOUNT_ID = accountId(ACCOUNT)
const time = new SimulatedTime()
const venue = new SimulatedVenue(time)
afterAll(async () => {
  time.restore()
  await venue.remove()
})

/** Lets everything happen until the call ends, at most for a simulated hour. */
async function driven<T>(run: () => Promise<T>): Promise<T> {
  let is_over = false
  const context = { life: new Life(), doing: { kind: 'merge', sent: new Set<string>() } }
  const result = time.inside(context, run).finally(() => {
    is_over = true
  })
  result.catch(() => undefined)
  const end_ms = time.now_ms + 3_600_000
  while (!is_over && (await time.step())) if (time.now_ms > end_ms) throw new Error('the call does not end')
  return result
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    // Signatures and hashes of the session take real time, in which the simulated one must not run away.
    await Bun.sleep(1)
    if (!(await time.step()) || time.now_ms > 7_200_000) throw new Error('it does not happen')
  }
}

/** What ended a session stays its reason, also when it is closed afterwards. */
async function expectEndedBy(session: Session, reason: typeof EventsMissing): Promise<void> {
  const error = await session.until(() => undefined).catch((thrown: unknown) => thrown)
  expect((error as SessionEnded).cause).toBeInstanceOf(reason)
}

/** Notes of a merge that goes on are taken by no other. */
async function expectNotFree(session: Session): Promise<void> {
  const [note] = session.wallet.state.notes
  const reshaped = driven(() => session.reshape([note!], [BigInt(note!.amount)]))
  expect(await reshaped.catch((error: Error) => error.message)).toBe('a note is not free')
}

test('a gap is passed over while nothing waits, and a merge that does not settle ends its order', async () => {
  let fault: 'gap' | undefined
  let gaps = 0
  const ended: unknown[] = []
  venue.random = new Random(1)
  const faulted = () => {
    if (fault !== undefined) gaps += 1
    return fault
  }
  venue.weather = { request: () => undefined, frame: faulted, left() {}, killed() {} }
  await venue.start()
  const { open } = venue
  await open.venue.provision({ account_id: ACCOUNT, version: 1, orders_live_max: 10, keys_max: 10 })
  const [wallet, trading] = [new Wallet(bytes(32)), new Wallet(bytes(32))]
  depositNote(open.ledger, trading, { side: 'quote', amount: 150_000_000n, key_index: 0 })
  for (let note = 0; note < 2; note++)
    depositNote(open.ledger, wallet, { side: 'quote', amount: 60_000_000n, key_index: 0 })
  await open.chain.finalizeLeaves()
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
  // The account's other program trades: its events are nothing that this wallet waits for.
  const other = new Maker(ACCOUNT, 'buy')
  const gapEnds = async () => {
    fault = 'gap'
    await other.place(open, 100_000_000n, 50_000_000n)
    await until(() => ended.length > 0)
    expect(ended.splice(0)).toEqual([expect.any(EventsMissing)])
    fault = undefined
  }
  // A wallet with an open order misses what a gap leaves out.
  const order = { symbol: 'SOL-USDC', side: 'buy', amount: 1_000_000_000n, price: 100_000_000n } as const
  const waiting = await opened(trading)
  expect(await driven(() => waiting.place(order))).toMatchObject({ status: 'accepted' })
  await gapEnds()
  waiting.close()
  await expectEndedBy(waiting, EventsMissing)
  const asked = await opened(new Wallet(bytes(32)))
  const never = asked.until(() => undefined).catch((error: unknown) => error)
  await gapEnds()
  expect(await never).toBeInstanceOf(SessionEnded)
  const session = await opened(wallet)
  await until(() => wallet.state.seq >= 3)
  const [{ seq }, before] = [wallet.state, gaps]
  fault = 'gap'
  await other.place(open, 100_000_000n, 50_000_000n)
  await until(() => gaps > before)
  expect([wallet.state.seq, ended]).toEqual([seq, []])
  fault = undefined
  await other.place(open, 100_000_000n, 50_000_000n)
  await until(() => wallet.state.seq > seq)
  const from_ms = time.now_ms
  const failure = await driven(() => session.place(order)).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(NoNote)
  expect(time.now_ms - from_ms).toBeLessThan(MERGE_MAX_MS + 10_000)
  // The merge itself goes on: its notes stay with it.
  expect(wallet.state.notes.map(({ state }) => state)).toEqual(['pending', 'pending'])
  await expectNotFree(session)
  expect(ended).toEqual([])
  session.close()
}, 120_000)
