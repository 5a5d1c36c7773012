#!/usr/bin/env bun
/** `bun run demo`: the whole story against a real venue process, from verification to money in a token account. */
import { mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { Instrument } from '../../protocol/wire'
import { VenueClient } from '../api/venue_client'
import { reopenChain } from '../chain/chain_access'
import { account, openTrader } from './accounts'
import { checkSums, checkVault, type MintName, printBalances, readBalances } from './balances'
import { feesOf } from './fees'
import { chapter, check, DemoFailed, fact } from './report'
import { depositNote, fund, untilUsable } from './step_deposit'
import { forcedRefusals } from './step_refusals'
import { otherKinds, partialOverThreeBatches, untilSettled } from './step_trade'
import { refuseOtherBuild, verifyVenue } from './step_verify'
import { withdrawTokens } from './step_withdraw'
import type { Trader } from './trader'
import { type LaptopFacts, VenueProcess } from './venue_process'

const SOL: MintName = { mint: 'So11111111111111111111111111111111111111112', name: 'SOL', decimals: 9 }
const USDC: MintName = { mint: 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v', name: 'USDC', decimals: 6 }
const MINTS = [SOL, USDC]
const WHOLE_SOL = 1_000_000_000n
const WHOLE_USDC = 1_000_000n

const { values } = parseArgs({ options: { data: { type: 'string' } }, strict: true })
const data_dir = resolve(values.data ?? 'data/demo')
const traders_dir = join(data_dir, 'traders')
mkdirSync(traders_dir, { recursive: true, mode: 0o700 })
const venue_process = new VenueProcess(data_dir, {
  TACIT_LISTEN: '127.0.0.1:0',
  TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
  TACIT_SLOT_MS: '200',
})

async function connectAll(facts: LaptopFacts, traders: Trader[]): Promise<Instrument> {
  const venue = await verifyVenue(facts)
  for (const trader of traders) {
    const credentials = await account(traders_dir, trader.name, facts, venue.info.venue)
    await trader.connect(new VenueClient(venue, credentials))
  }
  return traders[0]!.client.instrument('SOL-USDC')
}

async function play(): Promise<void> {
  chapter('A venue starts, and is verified before a word is said to it')
  const facts = await venue_process.start()
  fact('serves at', facts.url)
  fact('chain', `${facts.rpc_url} (embedded: real SVM execution, loopback only)`)
  const [ada, bob] = await Promise.all(
    ['ada', 'bob'].map((name) => openTrader(traders_dir, name, facts.rpc_url)),
  )
  const traders = [ada!, bob!] as const
  const sol = await connectAll(facts, [...traders])

  chapter('Two traders deposit; only their keys can spend the notes')
  await fund(traders[0], USDC, 4_000n * WHOLE_USDC)
  await fund(traders[1], SOL, 40n * WHOLE_SOL)
  const before = await readBalances([...traders], MINTS)
  const fees_before = feesOf(traders)
  for (const amount of [2_000n, 600n])
    await depositNote(traders[0], facts.program_id, USDC, amount * WHOLE_USDC)
  for (const amount of [12n, 10n, 6n])
    await depositNote(traders[1], facts.program_id, SOL, amount * WHOLE_SOL)
  await untilUsable(traders[0].client, [traders[0]])
  await untilUsable(traders[1].client, [traders[1]])
  check(true, 'every deposit is in the finalized tree')

  chapter('Orders of every kind meet in sealed batch auctions')
  const resting = await partialOverThreeBatches(traders[0], traders[1], sol)

  chapter('kill -9 in the middle of trading, and nothing is lost')
  const seen = traders[0].wallet.state.seq
  const live = traders[0].order(resting)!
  await venue_process.kill()
  const again = await venue_process.start()
  for (const trader of traders) trader.chain = reopenChain(trader.chain, again.rpc_url)
  await connectAll(again, [...traders])
  const kept = await traders[0].client.order(resting)
  check(
    kept.remaining_amount === live.remaining_amount && kept.status === live.status,
    'the same order still rests',
  )
  const events = await traders[0].client.events({ after: seen, limit: 100 })
  check(
    events.items.every((event, at) => event.seq === seen + 1 + at),
    `events go on at seq ${seen + 1}`,
  )

  chapter('The other kinds of orders')
  await otherKinds(traders[0], traders[1], sol)

  chapter('Fills become final on Solana')
  await untilSettled(traders[0], resting, 4)
  await traders[0].cancel(resting)
  await traders[0].untilOrder(resting, 'cancelled')

  chapter('A withdrawal arrives in a token account')
  await withdrawTokens(traders[1], USDC, 100n * WHOLE_USDC)

  chapter('What must be refused is refused')
  await refuseOtherBuild(again)
  await forcedRefusals(traders[1], traders[0], sol)

  chapter('Before and after')
  const after = await readBalances([...traders], MINTS)
  printBalances('before', before, [...traders], MINTS)
  printBalances('after', after, [...traders], MINTS)
  const fees_after = feesOf(traders)
  const fees = new Map(
    MINTS.map(({ mint }) => [mint, (fees_after.get(mint) ?? 0n) - (fees_before.get(mint) ?? 0n)]),
  )
  checkSums(before, after, fees, MINTS)
  await checkVault(traders[0].client, [...traders], fees_after, MINTS)
  for (const trader of traders) trader.close()
}

try {
  await play()
  check((await venue_process.stop()) === 0, 'SIGTERM: the venue drains, anchors and exits with 0')
  console.log('\nThe demo ends: everything it promised was seen to hold.')
} catch (error) {
  await venue_process.kill()
  if (!(error instanceof DemoFailed)) throw error
  console.error(`\nThe demo stopped: ${error.message}`)
  process.exit(1)
}
process.exit(0)
