/** Plays the story of every demo: two traders deposit, trade, survive a kill, settle, withdraw, and the books balance. */

import { join } from 'node:path'
import { type Instrument, reopenChain, VenueClient, type VerifiedVenue } from '../../client/index'
import type { SandboxFacts } from '../open_sandbox'
import { checkSums, checkVault, feesOf, type MintName, printBalances, readBalances } from './balances'
import { chapter, check, fact } from './report'
import {
  depositNote,
  forcedRefusals,
  otherKinds,
  partialOverThreeBatches,
  printTranscript,
  refuseOtherBuild,
  untilSettled,
  untilUsable,
  verifyVenue,
  withdrawTokens,
} from './steps'
import { account, openTrader, type Trader } from './trader'
import type { VenueProcess } from './venue_process'

const WHOLE_SOL = 1_000_000_000n
const WHOLE_USDC = 1_000_000n

/** Where the story plays. */
export type Stage = {
  venue_process: VenueProcess
  /** Started already. */
  facts: SandboxFacts
  /** Folder of the traders' wallets, keys and credentials. */
  traders_dir: string
  /** Mints of the instrument SOL-USDC. */
  mints: { sol: MintName; usdc: MintName }
  /** Gives a trader tokens in its own account, and lamports for fees. */
  fund: (trader: Trader, mint: MintName, amount: bigint) => Promise<void>
}
export type Cast = { ada: Trader; bob: Trader; sol: Instrument }

/** Verifies the venue, then connects each trader's account and event stream to it. */
async function connectAll(
  stage: Stage,
  facts: SandboxFacts,
  traders: Trader[],
  show: (venue: VerifiedVenue) => void = () => {},
): Promise<Instrument> {
  const venue = await verifyVenue(facts)
  show(venue)
  for (const trader of traders) {
    trader.chain = reopenChain(trader.chain, facts.rpc_url)
    const credentials = await account(stage.traders_dir, trader, facts, venue.info.venue)
    await trader.connect(new VenueClient(venue, credentials))
  }
  return traders[0]!.client.instrument('SOL-USDC')
}

/** @throws DemoFailed at the first promise that does not hold */
export async function playStory(stage: Stage): Promise<Cast> {
  const { facts, venue_process } = stage
  const { sol: SOL, usdc: USDC } = stage.mints
  const mints = [SOL, USDC]
  fact('serves at', facts.url)
  fact('chain', facts.rpc_url)
  const [ada, bob] = await Promise.all([
    openTrader(stage.traders_dir, 'ada', facts.rpc_url),
    openTrader(stage.traders_dir, 'bob', facts.rpc_url),
  ])
  const traders = [ada, bob]
  const sol = await connectAll(stage, facts, traders, printTranscript)

  chapter('Two traders deposit; only their keys can spend the notes')
  await stage.fund(ada, USDC, 4_000n * WHOLE_USDC)
  await stage.fund(bob, SOL, 40n * WHOLE_SOL)
  const before = await readBalances(traders, mints)
  const fees_before = feesOf(traders)
  for (const amount of [2_000n, 600n]) await depositNote(ada, facts.program_id, USDC, amount * WHOLE_USDC)
  for (const amount of [12n, 10n, 6n]) await depositNote(bob, facts.program_id, SOL, amount * WHOLE_SOL)
  for (const trader of traders) await untilUsable(trader.client, [trader])
  check(true, 'every deposit is in the finalized tree')

  chapter('Orders of every kind meet in sealed batch auctions')
  const resting = await partialOverThreeBatches(ada, bob, sol)

  chapter('kill -9 in the middle of trading, and nothing is lost')
  const seen = ada.wallet.state.seq
  const live = ada.order(resting)!
  await venue_process.kill()
  const again = await venue_process.start()
  await connectAll(stage, again, traders)
  const kept = await ada.client.order(resting)
  check(
    kept.remaining_amount === live.remaining_amount && kept.status === live.status,
    'the same order still rests',
  )
  const events = await ada.client.events({ after: seen, limit: 100 })
  check(
    events.items.every((event, at) => event.seq === seen + 1 + at),
    `events go on at seq ${seen + 1}`,
  )

  chapter('The other kinds of orders')
  await otherKinds(ada, bob, sol)

  chapter('Fills become final on Solana')
  await untilSettled(ada, resting, 4)
  await ada.cancel(resting)
  await ada.untilOrder(resting, 'cancelled')

  chapter('A withdrawal arrives in a token account')
  await withdrawTokens(bob, USDC, 100n * WHOLE_USDC)

  chapter('What must be refused is refused')
  await refuseOtherBuild(again)
  await forcedRefusals(bob, ada, sol)

  chapter('Before and after')
  const after = await readBalances(traders, mints)
  printBalances('before', before, traders, mints)
  printBalances('after', after, traders, mints)
  const fees_after = feesOf(traders)
  const fees = new Map(
    mints.map(({ mint }) => [mint, (fees_after.get(mint) ?? 0n) - (fees_before.get(mint) ?? 0n)]),
  )
  checkSums(before, after, fees, mints)
  await checkVault(ada.client, traders, fees_after, mints)
  return { ada, bob, sol }
}

export const tradersDir = (data_dir: string): string => join(data_dir, 'traders')
