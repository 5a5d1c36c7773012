/** A wallet over restores of its venue from the chain: what joins, what a sync keeps, and what a seed finds. */
import { expect, test } from 'bun:test'
import { absorbRestored, joinVenue, WalletOfOtherVault, WalletOutdated } from '../../../client/wallet/absorb'
import { hashFast } from '../../../client/wallet/hash_fast'
import { type GapLimits, recoverWallet } from '../../../client/wallet/recover'
import { Wallet, type WalletOrder } from '../../../client/wallet/wallet'
import { encodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { nullifierOf } from '../../../protocol/notes/notes'
import { type MadeNote, MINTS, ToldHistory } from '../told_history'

await hashFast()
const LIMITS: GapLimits = { keys: 3, deposits: 4, commands: 20 }
const named = (notes: readonly MadeNote[]) => notes.map(({ commitment }) => toHex(commitment)).toSorted()
const free = ({ state }: Wallet) =>
  state.notes
    .filter((note) => note.state === 'free')
    .map(({ commitment }) => commitment)
    .toSorted()

function openOrder(collateral: MadeNote, key_index: number): WalletOrder {
  const [quote_mint, base_mint] = [encodeBase58(MINTS[0]), encodeBase58(MINTS[1])]
  const terms = { symbol: 'SOL-USDC', side: 'buy', base_decimals: 9, fee_bps: 1, price_limit: '1' } as const
  const numbers = { key_index, command: 0, nonce: '1', anchor_count: 4, consumed: [] }
  const filled = { filled: '0', quote: '0', fee: '0', open: true }
  const backed = { order_id: '00'.repeat(16), collateral: toHex(collateral.commitment) }
  return { ...terms, ...numbers, ...filled, ...backed, base_mint, quote_mint }
}

/** A wallet that holds these deposits, each of which backs something. */
function trading(told: ToldHistory, deposits: readonly MadeNote[], key_index = 0): Wallet {
  const wallet = new Wallet(told.seed)
  for (const [leaf_index, { commitment, amount, blinding }] of deposits.entries()) {
    const own = { commitment: toHex(commitment), amount: String(amount), blinding: toHex(blinding) }
    const mint = encodeBase58(MINTS[0])
    wallet.addNote({ ...own, mint, key_index, leaf_index, state: 'pending', origin: 'deposit' })
  }
  wallet.counters(key_index).commands = 1
  wallet.state.orders.push(openOrder(deposits[0]!, key_index))
  wallet.state.seq = 4
  return wallet
}

function synced(wallet: Wallet, told: ToldHistory, generation: number, history = told.read()): Wallet {
  const found = recoverWallet(told.seed, history, generation, LIMITS, wallet.state.keys)
  absorbRestored(wallet, found, history)
  return wallet
}

const venueOf = (generation: number, genesis_hash = 'genesis') => ({
  genesis_hash,
  program_id: 'program',
  generation,
})

test('a wallet that was used stays with its vault; a fresh one goes to any', () => {
  const told = new ToldHistory()
  const fresh = new Wallet(told.seed)
  joinVenue(fresh, venueOf(0, 'first'))
  joinVenue(fresh, venueOf(0, 'second'))
  expect(fresh.state.vault).toEqual({ genesis_hash: 'second', program_id: 'program' })
  const used = trading(told, [told.deposit(0, 0)])
  joinVenue(used, venueOf(0, 'first'))
  const before = structuredClone(used.state)
  for (const other of [venueOf(0, 'second'), { ...venueOf(0, 'first'), program_id: 'other' }])
    expect(() => joinVenue(used, other)).toThrow(WalletOfOtherVault)
  expect(used.state).toEqual(before)
  joinVenue(used, venueOf(0, 'first'))
  // Notes alone are of a vault, too.
  const funded = new Wallet(told.seed, { ...fresh.state, notes: used.state.notes })
  expect(() => joinVenue(funded, venueOf(0, 'first'))).toThrow(WalletOfOtherVault)
})

test('a wallet joins the generation of its events, and another one only where no copy of it can have traded', () => {
  const told = new ToldHistory()
  const used = trading(told, [told.deposit(0, 0)])
  const before = structuredClone(used.state)
  expect(() => joinVenue(used, venueOf(1))).toThrow(WalletOutdated)
  expect(used.state).toEqual(before)
  joinVenue(used, venueOf(0))
  expect(() => joinVenue(used, venueOf(1))).toThrow(WalletOutdated)
  const recovered = recoverWallet(told.seed, told.read(), 0, LIMITS)
  expect(() => joinVenue(recovered, venueOf(1))).toThrow(WalletOutdated)
  const fresh = new Wallet(told.seed)
  joinVenue(fresh, venueOf(1))
  expect(fresh.state.generation).toBe(1)
})

test('a sync keeps what landed and frees what did not, of each generation, and no order of before', () => {
  const told = new ToldHistory()
  const deposits = [told.deposit(0, 0), told.deposit(0, 1), told.deposit(0, 2)] as const
  const landed = told.output(0, 0, { j: 0, role: 0 })
  told.settle([deposits[0]], [landed])
  const wallet = synced(trading(told, deposits), told, 1)
  expect(free(wallet)).toEqual(named([landed, deposits[1], deposits[2]]))
  expect(wallet.state).toMatchObject({ generation: 1, seq: 0, orders: [], payments: [], requests: [] })
  expect(wallet.counters(0).commands).toBe(1)
  joinVenue(wallet, venueOf(1))
  const later = told.output(0, 1, { j: 0, role: 0, generation: 1 })
  told.settle([deposits[1]], [later])
  expect(free(synced(wallet, told, 2))).toEqual(named([landed, later, deposits[2]]))
})

test('a sync searches every key that the wallet has used', () => {
  const told = new ToldHistory()
  const far = LIMITS.keys + 5
  const spent = told.deposit(far, LIMITS.deposits + 5)
  const wallet = trading(told, [spent], far)
  wallet.counters(far).deposits = LIMITS.deposits + 6
  const made = [told.output(far, 0, { j: 0, role: 0 }), told.output(far, 0, { j: 0, role: 1, amount: 900n })]
  told.settle([spent], made)
  expect(free(synced(wallet, told, 1))).toEqual(named(made))
})

test('a note whose exit is requested stays out of use: no event of it comes again', () => {
  const told = new ToldHistory()
  const [leaving, staying] = [told.deposit(0, 0), told.deposit(0, 1)]
  const nullifier = toHex(nullifierOf(leaving.commitment, leaving.blinding))
  const exit = { stage: 'requested', mint: MINTS[0], amount: leaving.amount } as const
  const history = { ...told.read(), exits: new Map([[nullifier, exit]]) }
  const wallet = synced(trading(told, [leaving, staying]), told, 1, history)
  expect(free(wallet)).toEqual(named([staying]))
  expect(wallet.note(toHex(leaving.commitment))!.state).toBe('pending')
})

test('a command number that two copies of a seed used, one before a restore and one after it, hides no note', () => {
  const told = new ToldHistory()
  const [first, second] = [told.deposit(0, 0), told.deposit(0, 1)]
  const before = [told.output(0, 0, { j: 0, role: 0 }), told.output(0, 0, { j: 0, role: 1 })]
  told.settle([first], before)
  const after = [
    told.output(0, 0, { j: 0, role: 0, generation: 1 }),
    told.output(0, 0, { j: 0, role: 1, generation: 1 }),
  ]
  told.settle([second], after)
  expect(free(recoverWallet(told.seed, told.read(), 1, LIMITS))).toEqual(named([...before, ...after]))
})
