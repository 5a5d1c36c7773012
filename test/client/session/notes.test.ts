/** The notes that a session takes: of one key, the largest, as few as reach the amount. */
import { expect, test } from 'bun:test'
import {
  coveringNote,
  drop,
  dueFor,
  keyOf,
  mergeable,
  notesFor,
  total,
  undecidableBefore,
} from '../../../client/session/notes'
import { NoNote } from '../../../client/session/session_options'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { Random } from '../../kit/random'

const SEED = Number(process.env['TACIT_SEED'] ?? Math.floor(Math.random() * 2 ** 32))
const MINT = 'mint'
let made = 0
const noteOf = (
  amount: number,
  key_index = 0,
  state: WalletNote['state'] = 'free',
  mint = MINT,
): WalletNote => {
  const commitment = String(++made).padStart(64, '0')
  const of = { commitment, key_index, mint, amount: String(amount), state }
  return { ...of, blinding: '00'.repeat(32), leaf_index: made, origin: 'deposit' }
}
const walletOf = (...notes: WalletNote[]): Wallet => {
  const wallet = new Wallet(new Uint8Array(32).fill(1))
  wallet.state.notes = notes
  return wallet
}
const amounts = (notes: readonly WalletNote[] | undefined) => notes?.map(({ amount }) => Number(amount))

test(`a merge takes the largest notes of one key, as few as reach the amount (seed ${SEED})`, () => {
  const random = new Random(SEED)
  let [merged, steps] = [0, 0]
  for (let round = 0; round < 2_000; round++) {
    // Few values, so that equal notes and exact sums are frequent.
    const notes = Array.from({ length: random.below(9) }, () => noteOf(1 + random.below(6), random.below(2)))
    const wanted = BigInt(1 + random.below(20))
    const taken = mergeable(notes, wanted)
    const ofKey = (key: number | undefined) => notes.filter(({ key_index }) => key_index === key)
    if (taken === undefined) {
      for (const key of [0, 1]) expect(ofKey(key).length < 2 || total(ofKey(key)) < wanted).toBe(true)
      continue
    }
    merged += 1
    const own = ofKey(taken[0]?.key_index)
    expect(own).toEqual(expect.arrayContaining(taken))
    expect(new Set(taken).size).toBe(taken.length)
    const left = own.filter((note) => !taken.includes(note))
    for (const { amount } of left)
      for (const one of taken) expect(Number(one.amount)).toBeGreaterThanOrEqual(Number(amount))
    expect(taken.length >= 2 && taken.length <= 4).toBe(true)
    // Four that do not reach it are the first step of a longer merge.
    if (total(taken) < wanted) steps += 1
    expect(total(taken) >= wanted || taken.length === 4).toBe(true)
    expect(taken.length === 2 || total(taken.slice(0, -1)) < wanted).toBe(true)
  }
  expect(Math.min(merged, steps)).toBeGreaterThan(10)
})

test('the smallest note that covers an amount is taken before a merge, and none of another mint or state', () => {
  const wallet = walletOf(
    noteOf(9),
    noteOf(5),
    noteOf(4),
    noteOf(6, 0, 'pending'),
    noteOf(7, 0, 'free', 'other'),
  )
  const needed = (amount: bigint) => ({ mint: MINT, amount })
  expect(amounts(notesFor(wallet, needed(5n)))).toEqual([5])
  expect(coveringNote(wallet, needed(6n)).amount).toBe('9')
  expect(amounts(notesFor(wallet, needed(10n)))).toEqual([9, 5])
  expect(amounts(notesFor(wallet, needed(15n)))).toEqual([9, 5, 4])
  for (const take of [notesFor, coveringNote]) {
    const thrown = (() => {
      try {
        return take(wallet, needed(19n))
      } catch (error) {
        return error as NoNote
      }
    })()
    expect(thrown).toBeInstanceOf(NoNote)
    expect((thrown as NoNote).facts).toEqual({ mint: MINT, needed: 19n })
  }
})

test('the key of an order is the one that signed it', () => {
  const wallet = walletOf()
  wallet.state.orders = [{ order_id: 'a', key_index: 3 } as never]
  expect(keyOf(wallet, 'a')).toBe(3)
  expect(() => keyOf(wallet, 'b')).toThrow('the wallet has no such order')
})

test('a refused request of any kind frees the notes that it would have taken', () => {
  const state = (kind: string) => {
    const wallet = walletOf(noteOf(5, 0, 'pending'))
    const [note] = wallet.state.notes
    const { commitment } = note!
    wallet.state.orders = [{ order_id: 'a', key_index: 0, collateral: commitment, open: true } as never]
    wallet.state.payments = [
      { id: 'p', kind, key_index: 0, command: 0, inputs: [commitment], amounts: ['5'] } as never,
    ]
    if (kind === 'place' || kind === 'modify') wallet.state.payments = []
    else wallet.state.orders = []
    drop(wallet, {
      kind,
      id: 'a',
      key_index: 0,
      request: { trading_key: wallet.tradingKeyText(0), nonce: '1' },
    } as never)
    return [note!.state, wallet.state.payments.length, wallet.state.orders.filter(({ open }) => open).length]
  }
  for (const kind of ['place', 'modify', 'withdraw', 'reshape'])
    expect([kind, ...state(kind)]).toEqual([kind, 'free', 0, 0])
  expect(state('cancel')).toEqual(['pending', 1, 0])
})

test('a withdrawal takes its amount and the fee of the mint', async () => {
  const client = { transparency: async () => ({ mints: [{ mint: MINT, withdraw_fee: '3', decimals: 0 }] }) }
  expect(await dueFor(client as never, { mint: MINT, amount: 10n })).toEqual({
    amount: 10n,
    needed: { mint: MINT, amount: 13n },
  })
})

test('only requests of the same key are settled before one', () => {
  const request = (id: string, key_index: number) => ({ id, key_index, kind: 'cancel_all' }) as never
  const open = [request('a', 0), request('b', 1), request('c', 0)]
  expect(undecidableBefore(open[2]!, open)).toEqual([open[0]!])
})

test('a refused modify leaves the note with the order that it backs', () => {
  const wallet = walletOf(noteOf(5, 0, 'pending'))
  const [{ commitment: collateral }] = wallet.state.notes as [WalletNote]
  wallet.state.orders = ['a', 'b'].map((order_id) => ({ order_id, collateral, open: true }) as never)
  drop(wallet, { kind: 'modify', id: 'b' } as never)
  expect(wallet.state.notes[0]!.state).toBe('pending')
})
