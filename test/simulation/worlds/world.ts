/**
 * The base of a simulated venue: a chain, accounts, and traders' deposits. `memory_world.ts` is one, `chain_world.ts` the
 * other.
 */
import type { Login } from '../../../client/api/venue_client'
import type { Wallet } from '../../../client/wallet/wallet'
import type { EngineConfig } from '../../../engine/config'
import type { NodeVenue } from '../../../engine/venue'
import { newAgeKey } from '../../../protocol/age'
import { encodeBase58 } from '../../../protocol/base58'
import { publicKeyOf } from '../../../protocol/sign'
import type { Random } from '../../kit/random'
import type { TestVenue } from '../../kit/venue/open_test_venue'
import type { Life } from '../awaits'
import type { Focus } from '../guide'

/** Of `marketLogin`. */
export const MARKET_ACCOUNT = 'seller'
/** Gives the reference of ALT-USDC. */
export const [SOURCE, SOURCE_SEED] = ['feed-1', new Uint8Array(32).fill(9)]
const { recipient: auditor_key } = await newAgeKey()
/** Of each venue, beside the terms of the kit: an auditor, and an instrument that takes its reference from a source. */
export function termsOf({ instruments }: Pick<EngineConfig, 'instruments'>) {
  const key = encodeBase58(publicKeyOf(SOURCE_SEED))
  return {
    auditor_key,
    instruments: instruments.map((one) =>
      one.symbol === 'ALT-USDC' ? { ...one, reference_policy: 'oracle' as const } : one,
    ),
    reference_sources: [{ symbol: 'ALT-USDC', max_age_ms: 5_000, sources: [{ source: SOURCE, key }] }],
  }
}

/** A process of the venue that serves. */
export type Opened = Pick<TestVenue, 'venue' | 'engine' | 'fatal' | 'close'>
export type DepositTerms = { side: 'base' | 'quote'; amount: bigint; key_index: number }
/** Leaves and nullifiers of the chain, in hex. */
export type ChainFacts = { leaves: ReadonlySet<string>; spent: ReadonlySet<string> }

/** Of a process. */
export type Hooks = {
  /** It ends itself, as it should. */
  exits(): void
  /** The venue as clients have it. */
  edge(venue: NodeVenue): NodeVenue
  /** The operator asks it to end. */
  drains(): void
  /** It follows. @param stop ends it in order */
  follows(stop: () => Promise<void>): void
}

export interface World {
  /** Processes that run the venue. */
  readonly nodes: number
  /** The folder of each. */
  dirOf(node: number): string
  moveTo(node: number, dir: string): void
  /** Undefined where attestations state it. */
  readonly statement_key: Uint8Array | undefined
  /** In base58. */
  readonly mints: { base: string; quote: string }
  /** Resolves once the process leads. */
  open(node: number, hooks: Hooks): Promise<Opened>
  /** A start that fails so, or the process that ends so, is made again. */
  isExpected(error: unknown, life: Life): boolean
  /** Of a group: the makers of the market and their notes. */
  prepareMarket(): Promise<void>
  /** Every disk is lost: the next start restores the venue from the chain. Absent where no chain is left to read. */
  lose?(): Promise<void>
  /** A long outage is over: all records are older than the venue keeps them. */
  ages(): void
  /** Its journal no longer reaches back to the first record, from which lost files are made again. */
  readonly is_aged: boolean
  /** The process serves from here on. @returns forbidden findings */
  served(opened: Opened): string | undefined
  /** 400 ms have passed. @param calm nothing fails any more @param up whether the venue serves */
  slot(random: Random, calm: boolean, up: boolean): void
  /** A clean stop begins. */
  stops(): void
  stop(opened: Opened, random: Random): Promise<void>
  /** A process is gone, and its connections with it. */
  gone(life: Life): void
  /** The process that led is gone. */
  ended(random: Random): void
  /** Nothing is under way between venue and chain. */
  readonly rests: boolean
  /** Lands, and the wallet has its note. */
  deposit(wallet: Wallet, terms: DepositTerms): Promise<void>
  /** Resolves once the venue knows every deposit. */
  depositsShown(): Promise<void>
  /** Admits an account. */
  admit(account: string): Promise<void>
  loginOf(account: string): Login
  /** Of an account of the market; undefined where tokens are not the engine's. */
  marketLogin(): Login | undefined
  /** Whether tokens survive a process. */
  readonly keeps_tokens: boolean
  /** Final facts on the chain. */
  facts(): ChainFacts
  /** Laws of the books that do not hold. */
  booksBroken(): string[]
  /** Where a payout can go; undefined where any address does. */
  payee(mint: string): string | undefined
  /** An act of the world itself: an order of the market, an exit. @param broken collects forbidden findings */
  market(random: Random, broken: (law: string) => void, focus: Focus): void
  /** Everything of a moment besides the folder, and its name: equal names at equal moments. */
  moment(): unknown
  putBack(moment: never): void
  mark(): string
}
