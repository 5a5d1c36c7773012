/** A wallet follows its account's events by recomputing every note, and believes the venue nothing that it can check. */

import { afterEach, describe, expect, test } from 'bun:test'
import { EventsMissing } from '../../client/api/event_stream'
import {
  absorbEvent,
  adoptRefunds,
  alignCounters,
  WalletMismatch,
  WalletOutdated,
} from '../../client/wallet/absorb'
import {
  dropRefused,
  prepareCancel,
  prepareModify,
  prepareReshape,
  prepareWithdrawal,
} from '../../client/wallet/prepare'
import { Wallet } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { deriveAnchor } from '../../protocol/notes/derive'
import {
  depositCommitment,
  noteInner,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import type { Fill, Order, Reshape, Withdrawal } from '../../protocol/wire/trading'
import { bytes } from '../kit/venue/memory_chain'
import { BASE_MINT, QUOTE_MINT, TestSite } from '../kit/venue/open_test_venue'
import { copyOf, type MemoryTrader, ONE, PRICE, refusesLies, twoTraders } from './wallet_trader'

const [BASE, QUOTE] = [encodeBase58(BASE_MINT), encodeBase58(QUOTE_MINT)]
const site = new TestSite()
afterEach(() => site.remove())

/** Two orders of one token cross; both wallets have not heard of it yet. */
async function crossed(amounts: { buy?: bigint; sell?: bigint } = {}) {
  const open = await site.open()
  const { buyer, seller, money, goods } = await twoTraders(open)
  const buy = await buyer.place(money, { amount: amounts.buy ?? ONE })
  const sell = await seller.place(goods, { amount: amounts.sell ?? ONE })
  await open.chain.tick(2)
  await open.chain.settleNext()
  return { open, buyer, seller, money, goods, buy, sell }
}

describe('fills', () => {
  test('a fill spends the collateral and gives proceeds and change, to the last unit', async () => {
    const { buyer, seller, money, goods } = await crossed()
    await buyer.sync()
    await seller.sync()
    const fee = 100_000n
    expect([money.state, goods.state]).toEqual(['spent', 'spent'])
    expect(buyer.wallet.balance(BASE)).toBe(ONE)
    expect(buyer.wallet.balance(QUOTE)).toBe(1_000_000_000n - PRICE - fee)
    expect(seller.wallet.balance(BASE)).toBe(9n * ONE)
    expect(seller.wallet.balance(QUOTE)).toBe(PRICE - fee)
    for (const { wallet } of [buyer, seller]) {
      expect(wallet.state.fees).toEqual([{ mint: QUOTE, amount: String(fee) }])
      expect(wallet.freeNotes(BASE).length + wallet.freeNotes(QUOTE).length).toBe(2)
    }
  })

  test('a repeated event changes nothing', async () => {
    const { buyer } = await crossed()
    await buyer.sync()
    const before = JSON.stringify(buyer.wallet.state)
    for (const event of buyer.events) absorbEvent(buyer.wallet, 0, event)
    for (const event of buyer.events.filter(({ kind }) => kind === 'fill.matched'))
      absorbEvent(buyer.wallet, 0, { ...event, seq: buyer.wallet.state.seq + 1 })
    expect(JSON.stringify({ ...buyer.wallet.state, seq: buyer.events.length })).toBe(before)
  })

  test('no event is absorbed after one that was refused or left out', async () => {
    const { buyer } = await crossed()
    const news = await buyer.news()
    const at = news.findIndex(({ kind }) => kind === 'fill.matched')
    for (const event of news.slice(0, at)) absorbEvent(buyer.wallet, 0, event)
    const [fill, ...later] = news.slice(at)
    const data = { ...(fill!.data as Fill), proceeds_commitment: toHex(bytes(32)) }
    expect(() => absorbEvent(buyer.wallet, 0, { ...fill!, data })).toThrow(WalletMismatch)
    const before = JSON.stringify(buyer.wallet.state)
    const far = { ...fill!, seq: fill!.seq + 47 }
    for (const event of [...later, far, { ...fill!, seq: Number.NaN }])
      expect(() => absorbEvent(buyer.wallet, 0, event)).toThrow(EventsMissing)
    expect(JSON.stringify(buyer.wallet.state)).toBe(before)
    for (const event of [fill!, ...later]) absorbEvent(buyer.wallet, 0, event)
    expect(buyer.wallet.balance(BASE)).toBe(ONE)
  })

  test('a venue that lies about a fill is found out, and the wallet stays as it was', async () => {
    const { buyer, seller } = await crossed({ sell: 2n * ONE })
    for (const trader of [buyer, seller]) {
      for (const event of await trader.news()) {
        if (event.kind === 'fill.matched') {
          const fill = event.data as Fill
          const { proceeds_commitment, change_commitment, ...rest } = fill
          refusesLies<Fill>(trader, event, [
            { proceeds_commitment: toHex(bytes(32)) },
            { change_commitment: toHex(bytes(32)) },
            { proceeds_commitment: change_commitment!, change_commitment: proceeds_commitment },
            { amount: String(2n * BigInt(fill.amount)) },
            {
              amount: String(2n * BigInt(fill.amount)),
              quote_amount: String(2n * BigInt(fill.quote_amount)),
            },
            { quote_amount: String(BigInt(fill.quote_amount) + 1n) },
            { fee: String(BigInt(fill.fee) + 1n) },
            { fee: String(BigInt(fill.fee) - 1n) },
            { fill_index: fill.fill_index + 1 },
            { price: String(PRICE + (fill.side === 'buy' ? 10_000n : -10_000n)) },
          ])
          const wallet = copyOf(trader.wallet)
          const without = () =>
            absorbEvent(wallet, 0, { ...event, data: { ...rest, proceeds_commitment } as Fill })
          expect(without).toThrow(WalletMismatch)
          expect(() => absorbEvent(copyOf(trader.wallet), 1, event), 'another generation').toThrow(
            WalletOutdated,
          )
        }
        absorbEvent(trader.wallet, 0, event)
      }
    }
  })

  /** A fill of the first order with the commitments that its amounts give: a venue knows every anchor. */
  function forged(
    { wallet }: MemoryTrader,
    order_id: string,
    price: bigint,
    amount: bigint,
    fee: bigint,
  ): Fill {
    const anchor = deriveAnchor(wallet.seed, 0, 0)
    const commitmentOf = (mint: Uint8Array, units: bigint, index_role: number) => {
      const parts = { anchor, order_id: fromHex(order_id, 16)!, nonce: 1n, generation: 0, index_role }
      const inner = noteInner(wallet.tradingKey(0), outputBlinding(parts))
      return toHex(settlementCommitment({ mint, amount: units, inner }))
    }
    const quote = (amount * price) / ONE
    const proceeds = quote > fee ? { proceeds_commitment: commitmentOf(QUOTE_MINT, quote - fee, 0) } : {}
    return {
      order_id,
      fill_index: 0,
      amount: String(amount),
      price: String(price),
      fee: String(fee),
      ...{
        quote_amount: String(quote),
        ...proceeds,
        change_commitment: commitmentOf(BASE_MINT, 10n * ONE - amount, 1),
      },
    } as Fill
  }

  test('a sale whose fee leaves one unit has a note of it, and one whose fee leaves none has none', async () => {
    for (const price of [1n, 2n]) {
      const { seller, goods } = await twoTraders(await site.open())
      const { order_id } = seller.prepare(goods, { price_limit: price })
      const data = forged(seller, order_id, price, ONE, 1n)
      absorbEvent(seller.wallet, 0, { seq: 1, kind: 'fill.matched', slot: 1, unix_ms: 1, data })
      expect([seller.wallet.balance(QUOTE), seller.wallet.balance(BASE)]).toEqual([price - 1n, 9n * ONE])
      await site.remove()
    }
  })

  test('amounts that are no units or exceed the order are refused, although every commitment fits them', async () => {
    const { seller, goods } = await twoTraders(await site.open())
    const { order_id } = seller.prepare(goods)
    const event = { seq: 1, kind: 'fill.matched', slot: 1, unix_ms: 1 } as const
    const whole = forged(seller, order_id, PRICE, ONE, 1n)
    refusesLies<Fill>(seller, { ...event, data: whole }, [
      forged(seller, order_id, PRICE, -5n * ONE, 0n),
      forged(seller, order_id, PRICE, 0n, 0n),
      forged(seller, order_id, PRICE, 2n * ONE, 1n),
      forged(seller, order_id, PRICE, ONE, -PRICE),
      { amount: `0x${ONE.toString(16)}` },
      { price: ` ${PRICE}` },
      { fee: '' },
      { fill_index: 'x' as never },
    ])
    absorbEvent(seller.wallet, 0, { ...event, data: whole })
    expect(seller.wallet.balance(BASE)).toBe(9n * ONE)
  })

  test('an order filled in parts is carried by its change, free only once the order is final', async () => {
    const { open, buyer, seller, goods, sell } = await crossed({ buy: ONE, sell: 3n * ONE })
    await seller.sync()
    const [change] = seller.wallet.state.notes.filter(({ origin }) => origin === 'change')
    expect(change).toMatchObject({ amount: String(9n * ONE), state: 'pending' })
    const more = buyer.deposit('quote', 1_000_000_000n)
    await open.chain.finalizeLeaves(open.ledger.notes.leaf_count - 1)
    await buyer.place(more)
    await open.chain.tick(2)
    await open.chain.settleNext()
    await seller.sync()
    expect(change!.state).toBe('spent')
    await open.venue.cancel('seller', sell, prepareCancel(seller.wallet, seller.venue_id, sell, 0))
    await seller.sync()
    expect(seller.wallet.freeNotes(BASE).map(({ amount }) => amount)).toEqual([String(8n * ONE)])
    expect(goods.state).toBe('spent')
  })

  test('what the fills before paid counts towards the fee that the order signed', async () => {
    const { seller, sell } = await crossed()
    const fill = (await seller.news()).find(({ kind }) => kind === 'fill.matched')!
    seller.wallet.order(sell)!.fee = '1'
    expect(() => absorbEvent(seller.wallet, 0, { ...fill, seq: 1 })).toThrow('the fee of a fill')
    seller.wallet.order(sell)!.filled = '1'
    expect(() => absorbEvent(seller.wallet, 0, { ...fill, seq: 1 })).toThrow('the amount of a fill')
  })

  test('an exit brings no spent note back', async () => {
    const { seller, goods } = await crossed()
    await seller.sync()
    const { seq } = seller.wallet.state
    const exited = { seq: seq + 1, kind: 'note.exited', data: { commitment: goods.commitment } } as never
    absorbEvent(seller.wallet, 0, exited)
    expect([goods.state, seller.wallet.state.seq]).toEqual(['spent', seq + 1])
  })
})

describe('the end of an order', () => {
  test('change stays with an order that ended until its last fill came', async () => {
    const { seller } = await crossed({ buy: ONE, sell: 3n * ONE })
    const news = await seller.news()
    const [part, fill] = ['order.partially_filled', 'fill.matched'].map(
      (name) => news.find(({ kind }) => kind === name)!,
    )
    const data = { ...(part!.data as Order), filled_amount: String(2n * ONE) }
    absorbEvent(seller.wallet, 0, { ...part!, kind: 'order.cancelled', data, seq: 1 })
    absorbEvent(seller.wallet, 0, { ...fill!, seq: 2 })
    expect(seller.wallet.state.notes.find(({ origin }) => origin === 'change')!.state).toBe('pending')
  })

  test('a modify that is refused gives back no note whose fills are still to come', async () => {
    const { open, seller, goods, sell } = await crossed()
    const instrument = open.venue.instrument('SOL-USDC')
    const terms = { instrument, side: 'sell', amount: ONE, price_limit: PRICE, expiry_slot: 500 } as const
    const { replacement } = prepareModify(seller.wallet, seller.venue_id, sell, terms)
    const news = await seller.news()
    const end = news.find(({ kind }) => kind === 'order.filled')!
    absorbEvent(seller.wallet, 0, { ...end, seq: 1 })
    dropRefused(seller.wallet, replacement.order_id)
    expect(goods.state).toBe('pending')
    absorbEvent(seller.wallet, 0, { ...news.find(({ kind }) => kind === 'fill.matched')!, seq: 2 })
    expect(goods.state).toBe('spent')
  })

  test('an end without a number is a lie', async () => {
    const { seller, sell } = await crossed()
    const end = (await seller.news()).find(({ kind }) => kind === 'order.filled')!
    for (const filled_amount of ['much', '-1', undefined, 5] as never[])
      refusesLies<Order>(seller, end, [{ filled_amount }])
    expect(seller.wallet.order(sell)?.open).toBe(true)
  })

  test('a cancel that comes before the fills it raced with frees only the rest after them', async () => {
    const { open, seller, sell } = await crossed({ buy: ONE, sell: 3n * ONE })
    await open.venue.cancel('seller', sell, prepareCancel(seller.wallet, seller.venue_id, sell, 0))
    const news = await seller.news()
    const end = news.find(({ kind }) => kind === 'order.cancelled')!
    const fill = news.find(({ kind }) => kind === 'fill.matched')!
    expect((end.data as Order).filled_amount).toBe(String(ONE))
    absorbEvent(seller.wallet, 0, { ...end, seq: 1 })
    expect(seller.wallet.freeNotes(BASE)).toEqual([])
    absorbEvent(seller.wallet, 0, { ...fill, seq: 2 })
    expect(seller.wallet.freeNotes(BASE).map(({ amount }) => amount)).toEqual([String(9n * ONE)])
  })

  test('a replacement keeps the note it goes on with, or gives it back', async () => {
    const open = await site.open()
    const { seller, goods } = await twoTraders(open)
    const modify = async (order_id: string, note = goods) => {
      // On the note of the old order, or on another one.
      note.state = 'free'
      const replacement = seller.prepare(note, { price_limit: PRICE + 10_000n })
      const { cancel_nonce, signature } = prepareCancel(seller.wallet, seller.venue_id, order_id, 0)
      await open.venue.modify('seller', order_id, { cancel_nonce, cancel_signature: signature, replacement })
      await seller.sync()
      return replacement.order_id
    }
    const second = await modify(await seller.place(goods))
    expect(goods.state).toBe('pending')
    const other = seller.deposit('base', 2n * ONE)
    await open.chain.finalizeLeaves(open.ledger.notes.leaf_count - 1)
    await modify(second, other)
    expect([goods.state, other.state]).toEqual(['free', 'pending'])
  })

  test('a replacement that was refused frees its note once the old order has ended, and not before', async () => {
    const open = await site.open()
    const { seller, goods } = await twoTraders(open)
    const old = await seller.place(goods)
    await seller.sync()
    for (const [ends, state] of [
      [false, 'pending'],
      [true, 'free'],
    ] as const) {
      const wallet = copyOf(seller.wallet)
      wallet.state.orders.push({ ...wallet.order(old)!, order_id: 'ff'.repeat(16) })
      const data = { ...wallet.order(old)!, replacement: 'ff'.repeat(16) } as never
      if (ends) wallet.order(old)!.open = false
      const [seq, at] = [wallet.state.seq + 1, { slot: 1, unix_ms: 1 }]
      absorbEvent(wallet, 0, { seq, kind: 'order.replace_refused', ...at, data })
      expect(wallet.note(goods.commitment)!.state).toBe(state)
      expect(wallet.order('ff'.repeat(16))).toMatchObject({ open: false, filled_final: '0' })
    }
  })

  test('voided fills give back the note they took and take back the notes they gave', async () => {
    const { buyer, seller, money, goods } = await crossed()
    for (const trader of [buyer, seller]) {
      await trader.sync()
      const fills = trader.events.filter(({ kind }) => kind === 'fill.matched')
      const other = trader.deposit(trader === buyer ? 'base' : 'quote', ONE)
      // A venue names another note in its place, or pays back an amount that was never paid.
      for (const event of fills)
        refusesLies<Fill>(trader, { ...event, kind: 'fill.voided' }, [
          { proceeds_commitment: other.commitment },
          { change_commitment: other.commitment },
          { proceeds_commitment: (event.data as Fill).change_commitment! },
          { fee: '100001' },
          { fee: '-1' },
        ])
      for (const event of fills)
        absorbEvent(trader.wallet, 0, { ...event, kind: 'fill.voided', seq: trader.wallet.state.seq + 1 })
      // The fee of a fill comes back once.
      refusesLies<Fill>(trader, { ...fills[0]!, kind: 'fill.voided' }, [{}])
      expect(trader.wallet.state.notes.map(({ origin }) => origin)).toEqual(['deposit', 'deposit'])
      expect(trader.wallet.state.fees).toEqual([{ mint: QUOTE, amount: '0' }])
    }
    expect([money.state, goods.state]).toEqual(['free', 'free'])
  })
})

async function withdrawn() {
  const open = await site.open()
  const { buyer: trader, money } = await twoTraders(open)
  const to = { destination: encodeBase58(bytes(32)), amount: 5_000n, expiry_slot: trader.expiry_slot }
  const request = prepareWithdrawal(trader.wallet, trader.venue_id, money, to)
  await open.venue.withdraw('buyer', request)
  await open.chain.tick()
  await open.chain.settleNext()
  return { open, trader, money }
}

test('a withdrawal spends the note once it is packed, and its change is recomputed', async () => {
  const { trader, money } = await withdrawn()
  const news = await trader.news()
  const accepted = news.find(({ kind }) => kind === 'withdrawal.accepted')!
  absorbEvent(trader.wallet, 0, { ...accepted, seq: 1 })
  expect(money.state).toBe('pending')
  const packed = news.find(({ kind }) => kind === 'withdrawal.submitted')!
  const anchor = deriveAnchor(trader.wallet.seed, 0, 0)
  const parts = { anchor, order_id: new Uint8Array(16), nonce: 1n, generation: 0, index_role: 1 }
  const inner = noteInner(trader.wallet.tradingKey(0), outputBlinding(parts))
  const changeOf = (amount: bigint) => toHex(settlementCommitment({ mint: QUOTE_MINT, amount, inner }))
  refusesLies<Withdrawal>(trader, packed, [
    // The commitment fits: the venue knows the anchor.
    { change_commitment: changeOf(0n), fee: String(1_000_000_000 - 5_000) },
    { change_commitment: changeOf(1_000_000_000n), fee: '-5000' },
    { status: 'refunded' },
    { status: 'refunded', refund_commitment: 'no hash' },
    { change_commitment: toHex(bytes(32)) },
    { amount: '5001' },
    { fee: '99' },
    { change_commitment: undefined } as never,
    { change_commitment: undefined, fee: '1000000000' } as never,
  ])
  await trader.sync()
  expect(money.state).toBe('spent')
  const paid = trader.events.find(({ kind }) => kind === 'withdrawal.paid')!.data as Withdrawal
  expect(paid).toMatchObject({ status: 'paid', payout_number: 1, payout_stage: 'finalized' })
  expect(paid.payout_signature).not.toBe(paid.signature)
  expect(trader.wallet.balance(QUOTE)).toBe(1_000_000_000n - 5_000n - 100n)
  expect(trader.wallet.state.fees).toEqual([{ mint: QUOTE, amount: '100' }])
})

test('a refund is adopted at the leaf that gives its commitment, and at no other', async () => {
  const { trader, money } = await withdrawn()
  await trader.sync()
  const final = trader.events.find(({ kind }) => kind === 'withdrawal.finalized')!
  const { seed } = trader.wallet
  const anchor = deriveAnchor(seed, 0, 0)
  const order_id = new Uint8Array(16)
  const blinding = outputBlinding({ anchor, order_id, nonce: 1n, generation: 0, index_role: 3 })
  const inner = noteInner(trader.wallet.tradingKey(0), blinding)
  const refund = toHex(depositCommitment({ mint: QUOTE_MINT, amount: 5_000n, inner, leaf_index: 7 }))
  const data = { ...(final.data as Withdrawal), status: 'refunded', refund_commitment: refund } as const
  const seq = trader.wallet.state.seq + 1
  absorbEvent(trader.wallet, 0, { ...final, seq, kind: 'withdrawal.refunded', data })
  expect(await adoptRefunds(trader.wallet, async () => undefined)).toEqual([])
  const lied = await adoptRefunds(trader.wallet, async () => 8).catch((error: unknown) => error)
  expect(lied).toBeInstanceOf(WalletMismatch)
  const asked: string[] = []
  const adopted = await adoptRefunds(trader.wallet, async (commitment) => {
    asked.push(commitment)
    return 7
  })
  expect(asked).toEqual([refund])
  expect(adopted).toMatchObject([{ commitment: refund, amount: '5000', leaf_index: 7, origin: 'refund' }])
  expect(await adoptRefunds(trader.wallet, async () => 7)).toEqual([])
  expect(trader.wallet.balance(money.mint)).toBe(1_000_000_000n - 100n)
})

test('a command that is voided gives its notes back', async () => {
  const { trader, money } = await withdrawn()
  const accepted = (await trader.news()).find(({ kind }) => kind === 'withdrawal.accepted')!
  absorbEvent(trader.wallet, 0, { ...accepted, seq: 1 })
  const data = { ...(accepted.data as Withdrawal), status: 'voided' } as const
  absorbEvent(trader.wallet, 0, { ...accepted, seq: 2, kind: 'withdrawal.voided', data })
  expect([money.state, trader.wallet.state.fees]).toEqual(['free', []])
})

test('a split spends its note and gives the amounts that were signed', async () => {
  const open = await site.open()
  const { buyer: trader, money } = await twoTraders(open)
  const { expiry_slot } = trader
  const amounts = [600_000_000n, 300_000_000n, 100_000_000n]
  const request = prepareReshape(trader.wallet, trader.venue_id, [money], { amounts, expiry_slot })
  await open.venue.reshape('buyer', request)
  await open.chain.tick()
  await open.chain.settleNext()
  for (const event of await trader.news()) {
    const { outputs = [] } = event.data as Reshape
    const [first, second, third] = outputs
    if (third !== undefined)
      refusesLies<Reshape>(trader, event, [
        { outputs: [second!, first!, third] },
        { outputs: [first!, second!] },
        { outputs: [first!, second!, { ...third, commitment: toHex(bytes(32)) }] },
      ])
    // A wallet that gave its input up again, as the batch that made it is void, takes no output either.
    const without = new Wallet(trader.wallet.seed, { ...structuredClone(trader.wallet.state), notes: [] })
    absorbEvent(without, 0, event)
    expect(without.state.notes).toEqual([])
    absorbEvent(trader.wallet, 0, event)
    if (event.kind === 'reshape.accepted') expect(trader.wallet.freeNotes(QUOTE)).toEqual([])
  }
  expect(money.state).toBe('spent')
  expect(trader.wallet.freeNotes(QUOTE).map(({ amount }) => BigInt(amount))).toEqual(amounts)
  expect(fromHex(trader.wallet.freeNotes(QUOTE)[0]!.commitment, 32)).toBeDefined()
})

test('each counter of a key follows its own nonce, and neither falls', () => {
  const wallet = new Wallet(new Uint8Array(32).fill(7))
  for (const [place_nonce, cancel_nonce] of [
    ['5', '9'],
    ['4', '8'],
  ] as const)
    alignCounters(wallet, 0, { place_nonce, cancel_nonce } as never)
  expect(wallet.counters(0)).toMatchObject({ commands: 5, cancels: 9 })
})
