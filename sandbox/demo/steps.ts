/** Runs the chapters of the demo: verify, deposit, trade, withdraw, and the commands that must be rejected. */

import { readFileSync, writeFileSync } from 'node:fs'
import {
  airdrop,
  createAssociatedAccount,
  deposit,
  mintTo,
  ownAccount,
  sendInstructions,
  tokenBalance,
} from '../../client/chain/index'
import {
  type Collateral,
  connect,
  dropRefused,
  type Fill,
  type Instrument,
  collateralOf as orderCollateral,
  type PlaceRequest,
  parsePolicy,
  prepareCancel,
  preparePlace,
  transcriptText,
  type VenueClient,
  VenueProblem,
  VerificationFailed,
  type VerificationPolicy,
  type VerifiedVenue,
  type Withdrawal,
} from '../../client/index'
import { DEMO_DEPOSIT_MAX_MS, DEMO_DEPOSIT_POLL_MS, DEMO_LIFE_SLOTS } from '../../client/limits'
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import type { SandboxFacts } from '../open_sandbox'
import { available, check, DemoFailed, fact, type MintName, short, tokens } from './report'
import type { Trader } from './trader'

const PRICE = 150_000_000n
const SOL = 1_000_000_000n
/** Lamports for a trader's own transactions. */
const FEE_LAMPORTS = 2_000_000_000n

/** Accepts only this build, under the development root. */
export function demoPolicy(facts: SandboxFacts): VerificationPolicy {
  return parsePolicy(readFileSync(facts.policy, 'utf8'))
}

function collateralOf(facts: SandboxFacts): Collateral {
  return JSON.parse(readFileSync(facts.collateral, 'utf8')) as Collateral
}

/** The venue, judged by the policy of this build; every check with its values is in the file `transcript`. */
export async function verifyVenue(facts: SandboxFacts, transcript: string): Promise<VerifiedVenue> {
  const venue = await connect(facts.url, demoPolicy(facts), { collateral: collateralOf(facts) })
  const { verdict, checks } = venue.transcript
  writeFileSync(transcript, `${transcriptText(venue.transcript)}\n`)
  const passed = checks.filter(({ result }) => result === 'pass').length
  fact(
    'verified',
    `${verdict}: ${passed} of ${checks.length} checks passed, each with its values in ${transcript}`,
  )
  return venue
}

/** Checks that a policy which pins another compose hash rejects the venue for that reason. */
export async function refuseOtherBuild(facts: SandboxFacts): Promise<void> {
  const other = { ...demoPolicy(facts), compose_hashes: ['00'.repeat(32)] }
  const policy = parsePolicy(JSON.stringify(other))
  try {
    await connect(facts.url, policy, { collateral: collateralOf(facts) })
  } catch (error) {
    if (!(error instanceof VerificationFailed)) throw error
    const failed = error.transcript.checks.filter((one) => one.result === 'fail').map((one) => one.name)
    check(failed.includes('compose_hash'), 'a wrong compose hash is refused', failed.join(', '))
    return
  }
  throw new DemoFailed('a wrong compose hash was accepted')
}

/** Sends lamports and tokens to the trader from the faucet of the embedded chain. */
export async function fund(trader: Trader, mint: MintName, amount: bigint): Promise<void> {
  await airdrop(trader.chain, FEE_LAMPORTS)
  const before = await tokenBalance(trader.chain, ownAccount(trader.chain, mint.mint).bytes)
  await mintTo(trader.chain, mint.mint, amount)
  const deadline = performance.now() + DEMO_DEPOSIT_MAX_MS
  while ((await tokenBalance(trader.chain, ownAccount(trader.chain, mint.mint).bytes)) < before + amount) {
    if (performance.now() > deadline) throw new DemoFailed('the faucet did not pay')
    await Bun.sleep(DEMO_DEPOSIT_POLL_MS)
  }
}

/** Deposits tokens: the note can be spent only by the trader's key. */
export async function depositNote(
  trader: Trader,
  program_id: string,
  mint: MintName,
  amount: bigint,
): Promise<void> {
  const { note, signature } = await deposit(trader.chain, trader.wallet, {
    program_id,
    mint: mint.mint,
    amount,
    key_index: 0,
  })
  trader.save()
  fact(
    `${trader.name} deposits ${tokens(amount, mint.decimals)} ${mint.name}`,
    `leaf ${note.leaf_index}, ${short(signature)}`,
  )
}

/** Waits until the venue's finalized tree holds every note of the wallets. */
export async function untilUsable(client: VenueClient, traders: Trader[]): Promise<void> {
  const deadline = performance.now() + DEMO_DEPOSIT_MAX_MS
  for (const trader of traders) {
    for (const note of trader.wallet.state.notes.filter((one) => one.state === 'free')) {
      for (;;) {
        const proof = await client.inclusion({ commitment: note.commitment }).catch(() => undefined)
        if (proof?.usable) break
        if (performance.now() > deadline) throw new DemoFailed('a note did not reach the finalized tree')
        await Bun.sleep(DEMO_DEPOSIT_POLL_MS)
      }
    }
  }
}

function printFill(who: string, fill: Fill): void {
  const price = `${tokens(BigInt(fill.amount), 9)} SOL at ${tokens(BigInt(fill.price), 6)}`
  fact(`${who} ${fill.side}s`, `${price}, fee ${tokens(BigInt(fill.fee), 6)} USDC, batch ${fill.batch}`)
}

/** Fills a resting buy of 9 SOL with three sells of 2 SOL, one per batch; change notes back the remainder. */
export async function partialOverThreeBatches(
  buyer: Trader,
  seller: Trader,
  sol: Instrument,
): Promise<string> {
  const resting = await buyer.place(sol, { side: 'buy', amount: 9n * SOL, price: PRICE })
  fact(`${buyer.name} rests`, `buy 9 SOL at 150, order ${resting.slice(0, 8)}...`)
  for (let round = 1; round <= 3; round++) {
    const ioc = await seller.place(sol, { side: 'sell', type: 'ioc', amount: 2n * SOL, price: 149_000_000n })
    await seller.untilOrder(ioc, 'filled')
    const fills = await buyer.untilFills(resting, 'matched', round)
    printFill(buyer.name, fills[round - 1]!)
  }
  const fills = buyer.fillsOf(resting, 'matched')
  check(new Set(fills.map((fill) => fill.batch)).size === 3, 'one order filled in part over three batches')
  check(
    buyer.order(resting)?.remaining_amount === String(3n * SOL),
    '3 SOL of it still rest, backed by its change note',
  )
  return resting
}

/** Places the other order types: a fok that is too big, one that fits, min_fill, an ioc remainder, a cancel. */
export async function otherKinds(buyer: Trader, seller: Trader, sol: Instrument): Promise<void> {
  const fok_big = await seller.place(sol, { side: 'sell', type: 'fok', amount: 8n * SOL, price: PRICE })
  const unfilled = await seller.untilOrder(fok_big, 'cancelled')
  check(unfilled.reason === 'fok_unfilled', 'a fok of 8 SOL against 3 is cancelled whole')

  const min_fill = await seller.place(sol, {
    side: 'sell',
    amount: 5n * SOL,
    price: PRICE,
    min_fill: 4n * SOL,
  })
  const fok = await seller.place(sol, { side: 'sell', type: 'fok', amount: SOL, price: PRICE })
  await seller.untilOrder(fok, 'filled')
  printFill(seller.name, (await seller.untilFills(fok, 'matched', 1))[0]!)
  check(
    seller.order(min_fill)?.status === 'accepted',
    'an order of at least 4 SOL waits while only less is there',
  )
  await seller.cancel(min_fill)
  check((await seller.untilOrder(min_fill, 'cancelled')).reason === 'by_owner', 'its owner cancels it')

  const ioc = await buyer.place(sol, { side: 'buy', type: 'ioc', amount: SOL, price: 145_000_000n })
  check(
    (await buyer.untilOrder(ioc, 'cancelled')).reason === 'ioc_remainder',
    'an ioc without a match ends after its batch',
  )
}

/** Waits until `count` fills of an order are final on Solana, each with the signature of its settlement batch. */
export async function untilSettled(trader: Trader, order_id: string, count: number): Promise<Fill[]> {
  const fills = await trader.untilFills(order_id, 'finalized', count)
  for (const fill of fills)
    fact(`batch ${fill.settlement_batch} is final`, `transaction ${short(String(fill.signature))}`)
  check(
    fills.every((fill) => (fill.signature ?? '').length > 80),
    'every fill names its transaction',
  )
  return fills
}

/** Withdraws part of a note to a token account, in a settlement and a payment; the rest returns as a change note. */
export async function withdrawTokens(trader: Trader, mint: MintName, amount: bigint): Promise<Withdrawal> {
  const account = ownAccount(trader.chain, mint.mint)
  const owner = decodeBase58(trader.chain.payer.address, 32)!
  const create = createAssociatedAccount(trader.chain, owner, decodeBase58(mint.mint, 32)!)
  await sendInstructions(trader.chain, [create], 'confirmed')
  const before = await tokenBalance(trader.chain, account.bytes)
  const terms = { mint: mint.mint, destination: account.text, amount, life_slots: DEMO_LIFE_SLOTS }
  const id = await trader.accepted('a withdrawal', () => trader.session.withdraw(terms, { merge: false }))
  const done = await trader.until('the payment of the withdrawal', () => {
    const event = trader.events.find(
      ({ kind, data }) => kind === 'withdrawal.paid' && (data as Withdrawal).withdrawal_id === id,
    )
    return event?.data as Withdrawal | undefined
  })
  const after = await tokenBalance(trader.chain, account.bytes)
  fact(
    `${trader.name} withdraws ${tokens(amount, mint.decimals)} ${mint.name}`,
    `payout ${done.payout_number}, ${short(String(done.payout_signature))}`,
  )
  check(after - before === amount, 'the token account received exactly the amount')
  check(fromHex(done.change_commitment ?? '', 32) !== undefined, 'the rest of the note came back as change')
  return done
}

/** The venue's rejection of a call. @throws DemoFailed when the call is accepted */
async function refusal(name: string, attempt: () => Promise<unknown>): Promise<VenueProblem> {
  try {
    await available(attempt)
  } catch (error) {
    if (error instanceof VenueProblem) return error
    throw error
  }
  throw new DemoFailed(`${name} was accepted`)
}

async function signedOrder(trader: Trader, instrument: Instrument): Promise<PlaceRequest> {
  const { slot } = await trader.client.time()
  const terms = {
    instrument,
    side: 'sell',
    amount: 1_000_000_000n,
    price_limit: 157_000_000n,
    expiry_slot: slot + DEMO_LIFE_SLOTS,
  } as const
  const note = trader.wallet.noteFor(orderCollateral(terms).mint, terms.amount)
  if (note === undefined) throw new DemoFailed(`${trader.name} has no note left for the forced checks`)
  const request = preparePlace(trader.wallet, trader.session.venue_id, terms, note)
  trader.save()
  return request
}

/** Checks that forged, replayed and foreign commands are rejected with their codes. */
export async function forcedRefusals(owner: Trader, stranger: Trader, sol: Instrument): Promise<void> {
  const forged = await signedOrder(owner, sol)
  const wrong_key = { ...forged, trading_key: stranger.wallet.tradingKeyText(0) }
  const not_signed = await refusal('an order with a wrong key', () => owner.client.place(wrong_key))
  check(
    not_signed.code === 'signature_invalid',
    'a wrong key is refused',
    `${not_signed.status} ${not_signed.code}`,
  )
  dropRefused(owner.wallet, forged.order_id)

  const order = await signedOrder(owner, sol)
  await available(() => owner.client.place(order))
  const resent = await refusal('a replayed order', () => owner.client.place(order))
  check(
    resent.code === 'order_exists',
    'a replayed order changes nothing',
    `${resent.status} ${resent.code}, applied ${resent.applied}`,
  )

  const cancel = prepareCancel(stranger.wallet, stranger.session.venue_id, order.order_id, 0)
  const foreign = await refusal("cancelling another's order", () =>
    stranger.client.cancel(order.order_id, cancel),
  )
  check(
    foreign.code === 'not_owner',
    "another's order cannot be cancelled",
    `${foreign.status} ${foreign.code}`,
  )

  await owner.cancel(order.order_id)
  await owner.untilOrder(order.order_id, 'cancelled')
  const again = await refusal('a replay after the cancel', () => owner.client.place(order))
  check(again.code === 'order_exists', 'not even after it was cancelled', `${again.status} ${again.code}`)
}
