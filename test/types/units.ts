/**
 * Swaps units in the arguments of functions: `tsc` fails as soon as one swap is accepted, or the right arguments are not.
 * Nothing of this file runs.
 */
import type { OrderTerms } from '../../client/wallet/prepare'
import type { Wallet } from '../../client/wallet/wallet'
import type { History, NewEvent } from '../../engine/history/contract'
import type { checkInstrumentRules, InstrumentRules } from '../../engine/intake/context'
import type { Journal } from '../../engine/journal/contract'
import type { Book } from '../../engine/machine/book/book'
import type { collarAround } from '../../engine/machine/book/cross'
import type { BookOrder } from '../../engine/machine/book/order_pool'
import type { checkExpiry } from '../../engine/machine/rules/checks'
import type { tradeAt } from '../../engine/machine/settlement/pack'
import type {
  baseOf,
  InstrumentTerms,
  lotsOf,
  nextClose,
  quoteOf,
  ticksOf,
} from '../../engine/machine/state/instrument'
import type { State } from '../../engine/machine/state/state'
import type { ChainPort } from '../../engine/ports'
import type { Hub } from '../../engine/streams/hub'
import type { openingCommitment } from '../../protocol/notes/notes'
import type {
  Amount,
  BaseUnits,
  EventSeq,
  feeUpTo,
  JournalSeq,
  Lots,
  minus,
  Price,
  plus,
  QuoteUnits,
  quoteAmount,
  SlotNumber,
  Ticks,
} from '../../protocol/units'

type Arguments<F extends (...given: never) => unknown> = Parameters<F>
/** Takes no argument unless the function accepts the swapped ones, so that the call without arguments fails then. */
declare function swap<F extends (...given: never) => unknown, _Right extends Arguments<F>, Swapped>(
  ...accepted: Swapped extends Arguments<F> ? [reason: 'the swapped arguments are accepted'] : []
): void

swap<typeof quoteOf, [InstrumentTerms, Lots, Ticks], [InstrumentTerms, Ticks, Lots]>()
swap<typeof baseOf, [InstrumentTerms, Lots], [InstrumentTerms, Ticks]>()
swap<typeof lotsOf, [InstrumentTerms, BaseUnits], [InstrumentTerms, Price]>()
swap<typeof ticksOf, [InstrumentTerms, Price], [InstrumentTerms, BaseUnits]>()
swap<typeof quoteAmount, [BaseUnits, Price, number], [Price, BaseUnits, number]>()
swap<typeof quoteAmount, [BaseUnits, Price, number], [QuoteUnits, Price, number]>()
swap<typeof feeUpTo, [QuoteUnits, number], [BaseUnits, number]>()
swap<typeof feeUpTo, [QuoteUnits, number], [Price, number]>()
swap<typeof plus<QuoteUnits>, [QuoteUnits, QuoteUnits], [QuoteUnits, BaseUnits]>()
swap<typeof minus<Amount>, [BaseUnits, Amount], [BaseUnits, Price]>()

type Resting<L, T> = Omit<BookOrder, 'lots' | 'tick'> & { lots: L; tick: T }
swap<Book['add'], [Resting<Lots, Ticks>], [Resting<Ticks, Lots>]>()
swap<Book['reduce'], [number, Lots], [number, Ticks]>()
swap<Book['recenter'], [Ticks], [Lots]>()
swap<typeof collarAround, [Ticks, number], [Price, number]>()
swap<typeof tradeAt, [InstrumentTerms, Ticks, number], [InstrumentTerms, Lots, number]>()

swap<typeof nextClose, [State, SlotNumber], [State, JournalSeq]>()
swap<typeof checkExpiry, [State, SlotNumber, SlotNumber], [State, EventSeq, SlotNumber]>()
type Anchored<Seq> = [Seq, { seq: JournalSeq; head: Uint8Array }]
swap<ChainPort['anchor'], Anchored<JournalSeq>, Anchored<SlotNumber>>()
swap<Journal['retire'], [JournalSeq], [EventSeq]>()
swap<History['record'], [JournalSeq, NewEvent[]], [EventSeq, NewEvent[]]>()
swap<History['events'], [string, EventSeq, number], [string, JournalSeq, number]>()
type Subscribing<Seq> = [
  Arguments<Hub['subscribe']>[0],
  Seq,
  ...(Arguments<Hub['subscribe']> extends [unknown, unknown, ...infer Rest] ? Rest : never),
]
swap<Hub['subscribe'], Subscribing<EventSeq>, Subscribing<JournalSeq>>()

type Priced<Terms, A, P> = Omit<Terms, 'amount' | 'price_limit'> & { amount: A; price_limit: P }
type Checked<A, P> = [Priced<Arguments<typeof checkInstrumentRules>[0], A, P>, InstrumentRules]
swap<typeof checkInstrumentRules, Checked<BaseUnits, Price>, Checked<Price, BaseUnits>>()
type Ordered<A, P> = [Priced<OrderTerms, A, P>]
swap<(terms: OrderTerms) => void, Ordered<BaseUnits, Price>, Ordered<Price, BaseUnits>>()
type Opening<A> = [Omit<Arguments<typeof openingCommitment>[0], 'amount'> & { amount: A }]
swap<typeof openingCommitment, Opening<BaseUnits>, Opening<Price>>()
swap<Wallet['noteFor'], [string, QuoteUnits], [string, Price]>()
