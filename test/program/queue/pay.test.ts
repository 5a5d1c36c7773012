/** `pay` closes every entry: by a transfer, or by a refund note where the program sees that nothing can be received. */

import { describe, expect, test } from 'bun:test'
import { decodeBase58 } from '../../../protocol/base58'
import { depositCommitment } from '../../../protocol/notes/notes'
import { TREE } from '../../../protocol/vault/accounts'
import {
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  vaultTokenAddress,
} from '../../../protocol/vault/addresses'
import { pauseInstruction } from '../../../protocol/vault/admin'
import type { PayoutOutcome } from '../../../protocol/vault/events'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { growQueueInstruction, payInstruction, payUnits } from '../../../protocol/vault/settle'
import { bytes32, element, errorOf, landed, type OpenVault, runningVault } from '../../kit/vault/open_vault'
import { testKey, tokenBytes } from '../../kit/vault/vault_chain'

const CLOCK = decodeBase58('SysvarC1ock11111111111111111111111111111111', 32)!
const refund = element('refund')
const destination = bytes32('destination')
const NOW_S = 1_800_000_000
const WEEK_S = 604_800

/** A vault with liabilities of 50,000, of which the given amounts wait in its queue for a usable destination. */
function queued(amounts: bigint[] = [7_000n], to = destination): OpenVault {
  const vault = runningVault()
  vault.setToken(destination, { owner: bytes32('receiver') })
  vault.settle({ payouts: amounts.map((amount) => vault.withdrawal(amount, to)) })
  return vault
}

const owed = (vault: OpenVault) => vault.chain.mintRecord(vault.mint)

test('a payment moves the tokens, lowers the queued amount and frees the place', () => {
  const vault = queued()
  const [event] = vault.pay()
  expect(event).toEqual({
    kind: 'paid',
    number: 1,
    payout: 'withdrawal',
    outcome: 'paid',
    mint: vault.mint,
    amount: 7_000n,
    destination,
    refund: undefined,
    inner: refund,
    nullifier: undefined,
  })
  expect([vault.balance(destination), vault.balance(vault.vault_token)]).toEqual([7_000n, 43_000n])
  expect(owed(vault)).toMatchObject({ liabilities: 43_000n, queued: 0n })
  expect(vault.chain.queue()).toEqual({ next_number: 2, capacity: 60, entries: [] })
  expect(vault.chain.tree().leaf_count).toBe(1)
})

test('an entry that was paid, or whose place another one took, is skipped', () => {
  const vault = queued([1_000n, 2_000n])
  const [first, second] = vault.chain.queue().entries
  const late = vault.payment([first!, second!])
  vault.pay([first!])
  landed(vault.chain.send(late))
  expect(vault.balance(destination)).toBe(3_000n)
  landed(vault.chain.send(late))
  vault.settle({ payouts: [vault.withdrawal(4_000n, destination)] })
  expect(vault.chain.queue().entries).toMatchObject([{ number: 3, place: 1 }])
  landed(vault.chain.send(late))
  expect(vault.balance(destination)).toBe(3_000n)
  expect(owed(vault).queued).toBe(4_000n)
})

test('places are freed in any order and taken again, the one freed last first', () => {
  const vault = queued([1n, 2n, 3n, 4n])
  const places = () => vault.chain.queue().entries.map(({ place, amount }) => [place, amount])
  const entries = vault.chain.queue().entries
  vault.pay([entries[2]!, entries[0]!])
  expect(places()).toEqual([
    [1, 2n],
    [3, 4n],
  ])
  vault.settle({ payouts: [5n, 6n, 7n].map((amount) => vault.withdrawal(amount, destination)) })
  expect(places()).toEqual([
    [0, 5n],
    [1, 2n],
    [2, 6n],
    [3, 4n],
    [4, 7n],
  ])
  vault.pay()
  expect(vault.balance(destination)).toBe(28n)
})

describe('a destination that cannot receive gets a refund note instead', () => {
  const withToken =
    (fields: Partial<Parameters<typeof tokenBytes>[0]>, program = TOKEN_PROGRAM) =>
    (vault: OpenVault) =>
      vault.setToken(destination, { owner: vault.trader.key, ...fields }, program)
  const cases: [string, PayoutOutcome, (vault: OpenVault) => Uint8Array, ((vault: OpenVault) => void)?][] = [
    ['an address without account', 'destination_missing', () => bytes32('nowhere')],
    ['a wallet', 'destination_missing', (vault) => vault.trader.key],
    ['a mint', 'destination_missing', (vault) => vault.mint],
    ['the vault program', 'destination_missing', (vault) => vault.program],
    ['the token program', 'destination_missing', () => TOKEN_PROGRAM],
    ['a sysvar, which the runtime never lets be written', 'destination_missing', () => CLOCK],
    ['the state of the vault', 'destination_missing', (vault) => vault.chain.vault.queue],
    [
      'a look-alike of another program',
      'destination_missing',
      () => destination,
      withToken({}, TOKEN_2022_PROGRAM),
    ],
    [
      'an account of another mint',
      'destination_wrong_mint',
      () => destination,
      withToken({ mint: bytes32('other') }),
    ],
    [
      'an uninitialized account',
      'destination_uninitialized',
      () => destination,
      withToken({ state: 'uninitialized' }),
    ],
    ['a frozen account', 'destination_frozen', () => destination, withToken({ state: 'frozen' })],
    ['the vault itself', 'destination_is_vault', (vault) => vault.vault_token],
    [
      'any account while the vault is frozen by the issuer',
      'vault_frozen',
      () => destination,
      (vault) =>
        vault.setToken(vault.vault_token, {
          owner: vault.chain.vault.config,
          amount: 50_000n,
          state: 'frozen',
        }),
    ],
  ]
  for (const [name, outcome, to, prepare] of cases)
    test(name, () => {
      const vault = runningVault()
      vault.setToken(destination, { owner: bytes32('receiver') })
      vault.settle({ payouts: [vault.withdrawal(7_000n, to(vault))] })
      prepare?.(vault)
      const [event] = vault.pay()
      const note = { mint: vault.mint, amount: 7_000n, inner: refund, leaf_index: 1 }
      expect(event).toMatchObject({ outcome, refund: { leaf_index: 1, commitment: depositCommitment(note) } })
      expect(owed(vault)).toMatchObject({ liabilities: 50_000n, queued: 0n })
      expect(vault.balance(vault.vault_token)).toBe(50_000n)
      expect(vault.chain.tree()).toMatchObject({ leaf_count: 2, root: vault.tree.root() })
      expect(vault.chain.queue().entries).toEqual([])
    })
})

test('refunds of one payment follow each other, and paid entries leave no leaf', () => {
  const vault = runningVault()
  vault.setToken(destination, { owner: bytes32('receiver') })
  const payouts = [bytes32('no'), destination, bytes32('nor')].map((to) => vault.withdrawal(1_000n, to))
  vault.settle({ payouts })
  expect(vault.pay().map(({ refund }) => refund?.leaf_index)).toEqual([1, undefined, 2])
  expect(vault.chain.tree()).toMatchObject({ leaf_count: 3, root: vault.tree.root() })
  expect(owed(vault)).toMatchObject({ liabilities: 49_000n, queued: 0n })
})

describe('a Token-2022 mint', () => {
  const mint = bytes32('extended mint')
  const source = bytes32('extended source')

  /** The destination's extensions; undefined leaves it without account. */
  function paid(extensions: { type: number; value: Uint8Array }[]): {
    vault: OpenVault
    outcome: PayoutOutcome
  } {
    const vault = runningVault()
    const metadata = { extensions: [{ type: 18, value: new Uint8Array(64) }] }
    landed(vault.registerMint(mint, metadata, TOKEN_2022_PROGRAM))
    vault.setToken(source, { owner: vault.trader.key, mint, amount: 50_000n }, TOKEN_2022_PROGRAM)
    vault.depositIn(mint, source, 20_000n, { token_program: TOKEN_2022_PROGRAM })
    const bytes = tokenBytes({ mint, owner: vault.trader.key, extensions })
    vault.chain.setAccount(destination, bytes, TOKEN_2022_PROGRAM)
    const plain = bytes32('plain')
    vault.setToken(plain, { owner: vault.trader.key })
    const extended = { ...vault.withdrawal(1_000n, destination), mint }
    vault.settle({ payouts: [extended, vault.withdrawal(2_000n, plain)] })
    const [first] = vault.pay()
    expect(vault.balance(plain)).toBe(2_000n)
    return { vault, outcome: first!.outcome }
  }

  test('is deposited and paid out beside one of the other token program', () => {
    const { vault, outcome } = paid([{ type: 7, value: new Uint8Array() }])
    expect(outcome).toBe('paid')
    expect(vault.balance(destination)).toBe(1_000n)
    expect(vault.balance(vaultTokenAddress(vault.program, mint))).toBe(19_000n)
  })

  test('is refunded where the destination demands memos or blocks plain credits', () => {
    for (const type of [8, 5, 14, 999]) {
      const { vault, outcome } = paid([{ type, value: new Uint8Array([1]) }])
      expect(outcome).toBe('destination_refuses')
      expect(vault.chain.tree().root).toEqual(vault.tree.root())
    }
  })

  test('is paid where required memos are switched off', () => {
    expect(paid([{ type: 8, value: new Uint8Array([0]) }]).outcome).toBe('paid')
  })

  test('is refunded where the destination has more than 1 KiB', () => {
    const bytes = (size: number) => [{ type: 7, value: new Uint8Array(size - 170) }]
    expect(paid(bytes(1_024)).outcome).toBe('paid')
    expect(paid(bytes(1_025)).outcome).toBe('destination_too_large')
  })
})

test('the formula of units covers payments of every kind at the dearest place of the tree', () => {
  for (const count of [1, 2, 8])
    for (const token_program of [TOKEN_PROGRAM, TOKEN_2022_PROGRAM])
      for (const usable of [true, false]) {
        const vault = runningVault()
        const { chain, program } = vault
        const mint = bytes32('measured mint')
        const source = bytes32('measured source')
        landed(vault.registerMint(mint, {}, token_program))
        vault.setToken(source, { owner: vault.trader.key, mint, amount: 50_000n }, token_program)
        vault.depositIn(mint, source, 50_000n, { token_program })
        const extensions = [7, 11, 8].map((type) => ({ type, value: new Uint8Array(type === 7 ? 0 : 1) }))
        const plain = { mint, owner: vault.trader.key }
        const bytes = tokenBytes(token_program === TOKEN_PROGRAM ? plain : { ...plain, extensions })
        const payouts = Array.from({ length: count }, (_, at) => {
          const to = bytes32(`to ${at}`)
          if (usable) chain.setAccount(to, bytes, token_program)
          return { ...vault.withdrawal(10n, to), mint }
        })
        vault.settle({ payouts })
        const tree = { ...chain.tree(), leaf_count: 2 ** 39 - 1 }
        chain.setAccount(chain.vault.tree, TREE.encode(tree), program)
        chain.setTime(2_000, NOW_S)
        const { units } = landed(chain.send(vault.payment()))
        expect([count, usable, Number(units) <= payUnits(count)]).toEqual([count, usable, true])
        if (!usable) expect(payUnits(count)).toBeLessThan(1.6 * Number(units))
      }
})

test('a payment that the balance does not cover waits, and becomes a note after seven days', () => {
  const vault = queued()
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 6_999n })
  expect(vault.chain.outcome(vault.payment())).toBe('insolvent')
  const refunding = vault.payment(undefined, true)
  vault.chain.setTime(2_000, NOW_S + WEEK_S - 1)
  expect(vault.chain.outcome(refunding)).toBe('refund_not_due')
  vault.chain.setTime(2_000, NOW_S + WEEK_S)
  const [event] = vault.pay(undefined, true)
  expect(event).toMatchObject({ outcome: 'refund_due', refund: { leaf_index: 1 } })
  expect(owed(vault)).toMatchObject({ liabilities: 50_000n, queued: 0n })
  expect(vault.chain.tree().root).toEqual(vault.tree.root())
})

test('payments go on while the vault is paused', () => {
  const vault = queued()
  landed(vault.chain.send(pauseInstruction({ program: vault.program, admin: vault.admin.key })))
  expect(vault.pay()[0]!.outcome).toBe('paid')
})

test('the accounts of an entry are those of its mint and destination', () => {
  const vault = queued()
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const [entry] = vault.chain.queue().entries
  const good = vault.payment()
  const foreign = payInstruction({
    program: vault.program,
    refund: false,
    entries: [{ ...entry!, mint: other, token_program: TOKEN_PROGRAM }],
  })
  expect(vault.chain.outcome(foreign)).toBe('payout_mismatch')
  const changed = (place: number, change: Partial<VaultInstruction['accounts'][number]>): string => {
    const accounts = good.accounts.map((one, at) => (at === place ? { ...one, ...change } : one))
    return vault.chain.outcome({ ...good, accounts })
  }
  const [record, mint, vault_token, token_program, to] = [5, 6, 7, 8, 9]
  expect(changed(record!, { address: foreign.accounts[5]!.address })).toBe('wrong_address')
  expect(changed(mint!, { address: other })).toBe('wrong_address')
  expect(changed(vault_token!, { address: foreign.accounts[7]!.address })).toBe('wrong_address')
  expect(changed(token_program!, { address: TOKEN_2022_PROGRAM })).toBe('wrong_address')
  expect(changed(to!, { address: vault.source })).toBe('payout_mismatch')
  for (const place of [1, 2, 3, record!, vault_token!, to!])
    expect([place, changed(place, { writable: false })]).toEqual([place, 'not_writable'])
  expect(vault.chain.outcome(good)).toBe('landed')
})

test('no more than eight entries, a known flag, and exactly their accounts', () => {
  const vault = queued(Array.from({ length: 9 }, () => 1n))
  const { entries } = vault.chain.queue()
  const eight = vault.payment(entries.slice(0, 8))
  const tampered = (at: number, value: number): string => {
    const data = eight.data.slice()
    data[at] = value
    return vault.chain.outcome({ ...eight, data })
  }
  expect(tampered(1, 2)).toBe('invalid_data')
  expect(tampered(2, 9)).toBe('invalid_data')
  expect(tampered(2, 0)).toBe('invalid_data')
  expect(tampered(2, 7)).toBe('missing_accounts')
  const { data, accounts } = eight
  expect(vault.chain.outcome({ ...eight, data: Uint8Array.of(...data, 0) })).toBe('invalid_data')
  for (const count of [accounts.length - 1, 5, 4])
    expect(vault.chain.outcome({ ...eight, accounts: accounts.slice(0, count) })).toBe('missing_accounts')
  vault.pay(entries.slice(0, 8))
  expect(vault.balance(destination)).toBe(8n)
})

test('the same entry named twice in one payment is paid once', () => {
  const vault = queued()
  const [entry] = vault.chain.queue().entries
  vault.pay([entry!, entry!])
  expect(vault.balance(destination)).toBe(7_000n)
  expect(errorOf(vault.chain.send({ ...vault.payment([entry!]), program: SYSTEM_PROGRAM }))).not.toBe(
    'landed',
  )
})

const stranger = testKey('stranger')

function fill(vault: OpenVault, places: number): void {
  for (let left = places; left > 0; left -= 20)
    vault.settle({
      payouts: Array.from({ length: Math.min(left, 20) }, () => vault.withdrawal(1n, destination)),
    })
}

test('a batch without room in the queue is refused, and lands once the queue has grown', () => {
  const vault = runningVault()
  vault.chain.fund(stranger)
  vault.setToken(destination, { owner: vault.trader.key })
  fill(vault, 60)
  const batch = vault.batchOf({ payouts: [vault.withdrawal(1n, destination)] })
  expect(errorOf(vault.send(batch))).toBe('queue_full')
  landed(vault.chain.send(growQueueInstruction(vault.program, stranger.key), stranger))
  expect(vault.chain.queue()).toMatchObject({ capacity: 120, next_number: 61 })
  landed(vault.send(batch))
  expect(vault.chain.queue().entries.at(-1)).toMatchObject({ place: 60, number: 61 })
})

test('a full queue takes the next payout once a place is free', () => {
  const vault = runningVault()
  vault.setToken(destination, { owner: vault.trader.key })
  fill(vault, 60)
  vault.pay(vault.chain.queue().entries.slice(30, 31))
  vault.settle({ payouts: [vault.withdrawal(1n, destination)] })
  expect(vault.chain.queue().entries[30]).toMatchObject({ number: 61 })
})

test('the queue grows to 1,020 places, each time for the rent of the bytes added', () => {
  const vault = runningVault()
  vault.chain.fund(stranger)
  const { queue } = vault.chain.vault
  for (let capacity = 120; capacity <= 1_020; capacity += 60) {
    landed(vault.chain.send(growQueueInstruction(vault.program, stranger.key), stranger))
    const { data, lamports } = vault.chain.account(queue)!
    expect(data).toHaveLength(160 + 168 * capacity)
    expect(lamports).toBe(vault.chain.svm.minimumBalanceForRentExemption(BigInt(data.length)))
    expect(vault.chain.queue().capacity).toBe(capacity)
  }
  const once_more = growQueueInstruction(vault.program, stranger.key)
  expect(errorOf(vault.chain.send(once_more, stranger))).toBe('queue_cannot_grow')
})

test('who pays signs, and the queue is the vault’s own', () => {
  const vault = runningVault()
  vault.chain.fund(stranger)
  const good = growQueueInstruction(vault.program, stranger.key)
  const changed = (place: number, change: object): string => {
    const accounts = good.accounts.map((one, at) => (at === place ? { ...one, ...change } : one))
    return vault.chain.outcome({ ...good, accounts })
  }
  expect(changed(0, { signer: false })).toBe('missing_signature')
  expect(changed(0, { writable: false })).toBe('not_writable')
  expect(changed(2, { writable: false })).toBe('not_writable')
  expect(changed(2, { address: vault.chain.vault.ring })).toBe('wrong_address')
  expect(changed(3, { address: stranger.key })).toBe('wrong_address')
  expect(vault.chain.outcome({ ...good, data: Uint8Array.of(16, 0) })).toBe('invalid_data')
})
