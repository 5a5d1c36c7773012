/**
 * The real process, killed with SIGKILL at random points while accounts place, cancel, modify and merge notes over HTTPS.
 * Goal: what was acknowledged is there, what was not is there wholly or not at all, and money is what it was.
 */
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from 'bun:test'
import { randomInt } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { openChainAccess } from '../../client/chain/chain_access'
import { tokenBalance } from '../../client/chain/token_account'
import { decodeBase58 } from '../../protocol/base58'
import type { AccountEvent, Fill } from '../../protocol/wire/trading'
import { readEvents } from './kit/check_restart'
import { type CrashSite, crashRound, notesPerMint, openCrashSite, tradeUntilFilled } from './kit/crash_rounds'
import { segmentPaths } from './kit/journal_files'
import { windDown } from './kit/load_trader'
import { DEPOSITED } from './kit/open_trader'

// A start takes seconds on a busy machine.
setDefaultTimeout(180_000)

const ROUNDS = Number(process.env['TACIT_CRASH_ROUNDS'] ?? 3)
const ROUND_MS_MAX = 90_000
const seed = Number(process.env['TACIT_CRASH_SEED'] ?? randomInt(2 ** 31))

describe(`kill -9 under load (TACIT_CRASH_SEED=${seed}, ${ROUNDS} rounds)`, () => {
  let site: CrashSite
  beforeAll(async () => {
    site = await openCrashSite(seed)
  }, 180_000)
  afterAll(async () => {
    for (const trader of site?.traders ?? []) trader.close()
    await site?.venue.remove()
  })

  test(
    'acknowledged commands survive, lost ones are whole or absent, lists stay gapless, open orders stay the same',
    async () => {
      for (let round = 1; round <= ROUNDS; round++) expect(await crashRound(site, round)).toEqual([])
      const { lost, ends, venue } = site
      const sent = site.traders.flatMap((trader) => trader.sent)
      const fates = Object.groupBy(sent, ({ kind, fate }) => `${kind} ${fate}`)
      const counts = Object.entries(fates).map(([name, list]) => `${name} ${list!.length}`)
      console.log(`${counts.sort().join(', ')}; answers lost: ${lost.there} applied, ${lost.absent} not`)
      const left = site.traders.flatMap(({ streams }) => streams).reduce((sum, one) => sum + one.left, 0)
      console.log(`lives ended ${JSON.stringify(ends)}, ${left} times a socket left by itself`)
      const newest = (dir: string) => readdirSync(join(venue.data_dir, dir)).sort().at(-1)
      console.log(
        `newest segment ${basename(segmentPaths(venue.data_dir).at(-1)!)}, snapshot ${newest('snapshots')}`,
      )
      for (const kind of ['place', 'cancel', 'modify']) expect(counts.join()).toContain(`${kind} accepted`)
    },
    ROUNDS * ROUND_MS_MAX,
  )

  test('settlement goes on: every fill becomes final on chain', async () => {
    await tradeUntilFilled(site)
    await windDown(site.traders)
    for (const { trading } of site.traders) {
      const fills = trading.events.filter(({ kind }) => kind === 'fill.matched')
      expect(fills.length).toBeGreaterThan(0)
      const final = trading.events.filter(({ kind }) => kind === 'fill.finalized')
      const name = ({ data }: { data: unknown }) => `${(data as Fill).order_id} ${(data as Fill).fill_index}`
      expect(final.map(name).sort()).toEqual(fills.map(name).sort())
    }
  }, 180_000)

  test('notes conserve: what was deposited is in the notes and the fees, and in the vault on chain', async () => {
    const { mints } = await site.traders[0]!.client.transparency()
    const chain = await openChainAccess(site.venue.facts.rpc_url, new Uint8Array(32).fill(1))
    for (const [mint, amount] of DEPOSITED) {
      const notes = site.traders.reduce((sum, { wallet }) => sum + wallet.balance(mint), 0n)
      const fees = site.traders
        .flatMap(({ trading }) => trading.events)
        .filter(({ kind }) => kind === 'fill.matched')
        .filter(() => mint === site.traders[0]!.instrument.quote_mint)
        .reduce((sum, { data }) => sum + BigInt((data as Fill).fee), 0n)
      const deposited = amount * BigInt(notesPerMint)
      expect(notes + fees).toBe(deposited)
      const told = mints.find((one) => one.mint === mint)!
      expect(told.vault_balance).toBe(String(deposited))
      expect(await tokenBalance(chain, decodeBase58(told.vault, 32)!)).toBe(deposited)
    }
  })

  test('every stream, resumed over all restarts, ends as the gapless list that REST tells', async () => {
    for (const { client, streams } of site.traders) {
      const events = await readEvents(client)
      for (const follower of streams) {
        const { stream, faults, events: followed } = follower
        const kinds = { trading: '', orders: 'order.', fills: 'fill.' }[stream]
        const listed = events.filter(({ kind }) => kind.startsWith(kinds))
        await follower.until(`/ws/${stream} to tell all`, () => followed.length >= listed.length)
        expect(faults).toEqual([])
        const order = (list: AccountEvent[]) => list.map(({ seq, kind }) => `${seq} ${kind}`)
        expect(order(followed)).toEqual(order(listed))
        expect(followed).toEqual(listed)
        expect(followed.length).toBeGreaterThan(0)
      }
    }
  })
})
