/** Withdrawals, refunds and reshapes reach the wallet as the notes its own derivation gives, or not at all. */

import { afterEach, expect, test } from 'bun:test'
import { absorbEvent, WalletMismatch } from '../../client/wallet/absorb'
import { adoptRefunds } from '../../client/wallet/absorb_recovered'
import { prepareReshape, prepareWithdrawal } from '../../client/wallet/prepare'
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
import type { Reshape, Withdrawal } from '../../protocol/wire/trading'
import { bytes } from '../kit/venue/memory_chain'
import { QUOTE_MINT, TestSite } from '../kit/venue/open_test_venue'
import { refusesLies, twoTraders } from './memory_trader'

const QUOTE = encodeBase58(QUOTE_MINT)
const site = new TestSite()
afterEach(() => site.remove())

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
  }
  expect(money.state).toBe('spent')
  expect(trader.wallet.freeNotes(QUOTE).map(({ amount }) => BigInt(amount))).toEqual(amounts)
  expect(fromHex(trader.wallet.freeNotes(QUOTE)[0]!.commitment, 32)).toBeDefined()
})
