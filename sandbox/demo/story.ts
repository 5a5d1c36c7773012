/** Plays the story of every demo on a venue process: two traders deposit, trade, survive a kill, settle, withdraw. */

import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { reopenChain } from '../../client/chain/index'
import type { Instrument } from '../../client/index'
import { DEMO_START_MAX_MS, DEMO_START_POLL_MS } from '../../client/limits'
import type { SandboxFacts } from '../open_sandbox'
import {
  chapter,
  check,
  checkSums,
  checkVault,
  DemoFailed,
  fact,
  feesOf,
  type MintName,
  printBalances,
  readBalances,
  waiting,
} from './report'
import {
  depositNote,
  forcedRefusals,
  otherKinds,
  partialOverThreeBatches,
  refuseOtherBuild,
  untilSettled,
  untilUsable,
  verifyVenue,
  withdrawTokens,
} from './steps'
import { account, openTrader, type Trader } from './trader'

const MAIN = new URL('../../server/main.ts', import.meta.url).pathname

export class VenueProcess {
  private child: Subprocess | undefined
  constructor(
    private readonly data_dir: string,
    private readonly env: Record<string, string>,
  ) {}

  /** Starts the venue and waits until it serves; by then its vault is open. */
  async start(wait_ms = DEMO_START_MAX_MS): Promise<SandboxFacts> {
    const facts_path = join(this.data_dir, 'laptop.json')
    rmSync(facts_path, { force: true })
    const env = { ...process.env, ...this.env, TACIT_DATA_DIR: this.data_dir }
    const log = Bun.file(join(this.data_dir, 'venue.log'))
    this.child = Bun.spawn([process.execPath, MAIN], { env, stdout: log, stderr: log, stdin: 'ignore' })
    const deadline = performance.now() + wait_ms
    while (!existsSync(facts_path)) {
      if (this.child.exitCode !== null) throw new DemoFailed(`the venue ended at start; see ${log.name}`)
      if (performance.now() > deadline) throw new DemoFailed(`the venue did not start; see ${log.name}`)
      await Bun.sleep(DEMO_START_POLL_MS)
    }
    return JSON.parse(readFileSync(facts_path, 'utf8')) as SandboxFacts
  }

  /** kill -9: no drain, no flush, no goodbye. */
  async kill(): Promise<void> {
    this.child?.kill('SIGKILL')
    await this.child?.exited
  }

  /** SIGTERM: drain, anchor, snapshot, exit. @returns the exit code. */
  async stop(): Promise<number> {
    this.child?.kill('SIGTERM')
    return (await this.child?.exited) ?? 0
  }
}

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
export async function connectAll(
  folder: string,
  facts: SandboxFacts,
  traders: Trader[],
): Promise<Instrument> {
  const venue = await verifyVenue(facts, join(folder, 'verification.txt'))
  for (const trader of traders) {
    trader.chain = reopenChain(trader.chain, facts.rpc_url)
    const credentials = await account(folder, trader, facts, venue.info.venue)
    await trader.connect(facts, venue, credentials)
  }
  return traders[0]!.client.instrument('SOL-USDC')
}

/** Deposits the notes of both traders and waits until the venue accepts them. */
async function depositAll(program_id: string, ada: Trader, bob: Trader, { sol, usdc }: Stage['mints']) {
  for (const amount of [2_000n, 600n]) await depositNote(ada, program_id, usdc, amount * WHOLE_USDC)
  for (const amount of [12n, 10n, 6n]) await depositNote(bob, program_id, sol, amount * WHOLE_SOL)
  for (const trader of [ada, bob])
    await waiting('finality of the deposits', untilUsable(trader.client, [trader]))
}

/** Kills the venue, starts it again, and compares the state of ada's account. */
async function surviveKill(stage: Stage, ada: Trader, bob: Trader, resting: string): Promise<SandboxFacts> {
  const { venue_process } = stage
  const seen = ada.wallet.state.seq
  const live = ada.order(resting)!
  await venue_process.kill()
  const again = await waiting('the venue', venue_process.start())
  await connectAll(stage.traders_dir, again, [ada, bob])
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
  return again
}

/** @throws DemoFailed at the first promise that does not hold */
export async function playStory(stage: Stage): Promise<Cast> {
  const { facts } = stage
  const { sol: SOL, usdc: USDC } = stage.mints
  const mints = [SOL, USDC]
  fact('serves at', `${facts.url}, chain ${facts.rpc_url}`)
  const [ada, bob] = await Promise.all([
    openTrader(stage.traders_dir, 'ada', facts.rpc_url),
    openTrader(stage.traders_dir, 'bob', facts.rpc_url),
  ])
  const traders = [ada, bob]
  const sol = await connectAll(stage.traders_dir, facts, traders)

  chapter(
    'Two traders deposit',
    'A deposit on the chain makes a note that only the key of its owner can spend.',
  )
  await stage.fund(ada, USDC, 4_000n * WHOLE_USDC)
  await stage.fund(bob, SOL, 40n * WHOLE_SOL)
  const before = await readBalances(traders, mints)
  const fees_before = feesOf(traders)
  await depositAll(facts.program_id, ada, bob, stage.mints)
  check(true, 'every deposit is in the finalized tree')

  chapter(
    'A resting order is filled in part',
    'Orders are sealed until their batch closes; all fills of a batch have one price.',
  )
  const resting = await partialOverThreeBatches(ada, bob, sol)

  chapter(
    'kill -9 loses nothing',
    'What the venue acknowledged is on disk; it starts again, and the client verifies it again.',
  )
  const again = await surviveKill(stage, ada, bob, resting)

  chapter('The other kinds of orders', 'Fill or kill, a least fill, immediate or cancel, and a cancel.')
  await otherKinds(ada, bob, sol)

  chapter(
    'Fills become final on Solana',
    'One transaction settles a batch; no finalized fill can be reverted.',
  )
  await untilSettled(ada, resting, 4)
  await ada.cancel(resting)
  await ada.untilOrder(resting, 'cancelled')

  chapter(
    'A withdrawal arrives',
    'A settlement queues the payout; a second transaction pays it to a token account.',
  )
  await withdrawTokens(bob, USDC, 100n * WHOLE_USDC)

  chapter(
    'What must be refused is refused',
    'Each attempt is made for real; the code is the answer of client or venue.',
  )
  await refuseOtherBuild(again)
  await forcedRefusals(bob, ada, sol)

  chapter('The books balance', 'Sums are in exact units, read from the chain and the wallets.')
  const after = await readBalances(traders, mints)
  printBalances(before, after, traders, mints)
  const fees_after = feesOf(traders)
  const fees = new Map(
    mints.map(({ mint }) => [mint, (fees_after.get(mint) ?? 0n) - (fees_before.get(mint) ?? 0n)]),
  )
  checkSums(before, after, fees, mints)
  await checkVault(ada.client, traders, fees_after, mints)
  return { ada, bob, sol }
}

export const tradersDir = (data_dir: string): string => join(data_dir, 'traders')
