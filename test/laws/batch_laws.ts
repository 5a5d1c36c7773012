/** Checks a settlement batch when it is packed: every mint balances, and no account pays for another. */
import { type SettlementBatch, unopenedExits } from '../../engine/machine/state/batch'
import type { State } from '../../engine/machine/state/state'
import { equalBytes } from '../../protocol/bytes'

const BPS = 10_000n
type Fill = SettlementBatch['fills'][number]

export class BatchLaws {
  checked = 0
  fills = 0
  /** What an order has traded so far, by id: the fee is due on the sum, not on each part. */
  readonly #orders = new Map<string, { quote: bigint; fee: bigint }>()

  /** @param keys the one trading key of each account, base58 */
  constructor(readonly keys: ReadonlyMap<string, string>) {}

  /** Every batch that was packed since. @throws Error naming the batch and what does not hold */
  check(state: State): void {
    for (let id = this.checked + 1; id <= state.settlement.last_batch; id++) {
      const batch = state.settlement.batches.get(id)
      if (batch === undefined) throw new Error(`batch ${id} is gone before anybody looked at it`)
      balance(state, batch)
      for (const fill of batch.fills) this.#fee(state, fill)
      owners(state, batch, this.keys)
      this.checked = id
      this.fills += batch.fills.length
    }
  }

  /** The fee of an order so far is its share of all it traded, rounded up once. */
  #fee(state: State, fill: Fill): void {
    const { terms } = state.instruments.get(fill.symbol)!
    if (fill.quote_amount * 10n ** BigInt(terms.base_decimals) !== fill.amount * fill.price)
      throw new Error('a fill is not worth amount times price')
    const order_id = fill.order_id.toHex()
    const sum = this.#orders.get(order_id) ?? { quote: 0n, fee: 0n }
    sum.quote += fill.quote_amount
    sum.fee += fill.fee
    this.#orders.set(order_id, sum)
    const due = (sum.quote * BigInt(terms.fee_bps) + BPS - 1n) / BPS
    if (sum.fee !== due) throw new Error(`order ${order_id} paid ${sum.fee} where ${due} is due`)
  }
}

/** Notes in = notes out + payouts + fees, for each mint. */
function balance(state: State, batch: SettlementBatch): void {
  const rest = state.mints.map((_, mint) => -(batch.fees[mint] ?? 0n))
  for (const note of batch.inputs) rest[note.mint]! += note.amount
  for (const exit of unopenedExits(batch)) rest[mintOf(state, exit.mint)]! += exit.amount
  for (const { note } of batch.outputs) rest[note.mint]! -= note.amount
  for (const payout of batch.payouts) {
    rest[payout.kind === 'exit' ? mintOf(state, payout.mint) : payout.note.mint]! -= payout.amount
  }
  rest.forEach((amount, mint) => {
    if (amount !== 0n) throw new Error(`batch ${batch.batch_id} is off by ${amount} of mint ${mint}`)
  })
}

/** What each key gains or loses is what its own fills, withdrawals and exits say. */
function owners(state: State, batch: SettlementBatch, keys: ReadonlyMap<string, string>): void {
  const rest = new Map<string, bigint>()
  const add = (owner: string, mint: number, amount: bigint): void => {
    rest.set(`${owner} ${mint}`, (rest.get(`${owner} ${mint}`) ?? 0n) + amount)
  }
  for (const { owner_text, mint, amount } of batch.inputs) add(owner_text, mint, amount)
  for (const { note, anchor } of batch.outputs) {
    // Fees of earlier batches that become a note: no account pays for it here.
    if (anchor !== state.fee_anchor) add(note.owner_text, note.mint, -note.amount)
  }
  for (const fill of batch.fills) {
    const { terms } = state.instruments.get(fill.symbol)!
    const sign = fill.side === 'buy' ? 1n : -1n
    const owner = keys.get(fill.account.account_id)!
    add(owner, terms.base, sign * fill.amount)
    add(owner, terms.quote, -sign * fill.quote_amount - fill.fee)
  }
  for (const payout of batch.payouts) {
    const { note, amount } = payout
    if (note !== undefined)
      add(note.owner_text, note.mint, -amount - (payout.kind === 'exit' ? 0n : payout.fee))
  }
  for (const [who, amount] of rest) {
    if (amount !== 0n) throw new Error(`batch ${batch.batch_id}: ${who} is off by ${amount}`)
  }
}

const mintOf = (state: State, mint: Uint8Array): number =>
  state.mints.findIndex(({ bytes }) => equalBytes(bytes, mint))
