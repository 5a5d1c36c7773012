/** Payouts become queue entries within the liabilities; the batch reads no account that a stranger chose. */
import { expect, test } from 'bun:test'
import { SETTLE_LIMITS } from '../../../protocol/limits'
import { type PayoutFields, settleInstruction } from '../../../protocol/vault/settle'
import { bytes32, element, errorOf, landed, type OpenVault, runningVault } from '../../kit/vault/open_vault'

const refund = element('refund')
const destination = bytes32('destination')
const [SLOT, NOW_S] = [1_000, 1_800_000_000]

const send = (vault: OpenVault, payouts: PayoutFields[]): string =>
  errorOf(vault.send(vault.batchOf({ payouts })))

test('a withdrawal moves its amount from the liabilities to the queue and names its entry', () => {
  const vault = runningVault()
  const { payouts } = vault.settle({ payouts: [vault.withdrawal(20_000n, destination)] })
  const entry = { number: 1, place: 0, kind: 'withdrawal', mint: vault.mint, amount: 20_000n } as const
  const rest = { destination, inner: refund, nullifier: undefined }
  expect(payouts).toEqual([{ ...entry, ...rest, served: false }])
  expect(vault.chain.queue()).toMatchObject({
    next_number: 2,
    entries: [{ ...entry, ...rest, open: true, queued_at_s: NOW_S, queued_slot: SLOT }],
  })
  expect(vault.chain.mintRecord(vault.mint)).toMatchObject({ liabilities: 30_000n, queued: 20_000n })
  expect(vault.balance(vault.vault_token)).toBe(50_000n)
  expect(vault.chain.tree().leaf_count).toBe(1)
})

test('one batch queues payouts in several mints', () => {
  const vault = runningVault()
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const foreign = { ...vault.withdrawal(1n, destination), mint: other }
  expect(send(vault, [vault.withdrawal(1n, destination), foreign])).toBe('payout_above_liabilities')
  const source = bytes32('other source')
  vault.setToken(source, { mint: other, owner: vault.trader.key, amount: 5_000n })
  vault.depositIn(other, source, 5_000n)
  const { payouts } = vault.settle({ payouts: [foreign, vault.withdrawal(2n, destination), foreign] })
  expect(payouts.map(({ mint, number }) => [mint, number])).toEqual([
    [other, 1],
    [vault.mint, 2],
    [other, 3],
  ])
  expect(vault.chain.mintRecord(other)).toMatchObject({ liabilities: 4_998n, queued: 2n })
})

test('payouts above the liabilities are refused, also in sum', () => {
  const vault = runningVault()
  expect(send(vault, [vault.withdrawal(50_001n, destination)])).toBe('payout_above_liabilities')
  const half = vault.withdrawal(30_000n, destination)
  expect(send(vault, [half, half])).toBe('payout_above_liabilities')
  expect(send(vault, [vault.withdrawal(50_000n, destination)])).toBe('landed')
})

test('a vault that holds less than it owes queues payouts all the same', () => {
  const vault = runningVault()
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 1n })
  expect(send(vault, [vault.withdrawal(1_000n, destination)])).toBe('landed')
})

test('a payout of nothing, with a bad inner, of an unlisted mint or with stray fields is refused', () => {
  const vault = runningVault()
  const good = vault.withdrawal(1_000n, destination)
  expect(send(vault, [{ ...good, amount: 0n }])).toBe('invalid_data')
  expect(send(vault, [{ ...good, inner: new Uint8Array(32) }])).toBe('not_field_element')
  const batch = settleInstruction(vault.batchOf({ payouts: [good] }))
  const tampered = (at: number, value: number): string => {
    const data = batch.data.slice()
    data[at] = value
    return vault.chain.outcome({ ...batch, data }, vault.signer)
  }
  expect(tampered(101, 2)).toBe('invalid_data')
  expect(tampered(102, 1)).toBe('payout_mismatch')
  expect(tampered(103, 1)).toBe('invalid_data')
  expect(tampered(97, 2)).toBe('invalid_data')
  expect(tampered(97, 0)).toBe('payout_mismatch')
})

test('more payouts or mints than the limits are refused', () => {
  const vault = runningVault()
  const payouts = (count: number) => Array.from({ length: count }, () => vault.withdrawal(10n, destination))
  expect(send(vault, payouts(SETTLE_LIMITS.payouts + 1))).toBe('invalid_data')
  expect(send(vault, payouts(SETTLE_LIMITS.payouts))).toBe('landed')
  const mints = Array.from({ length: SETTLE_LIMITS.payout_mints }, (_, at) => bytes32(`mint ${at}`))
  for (const mint of mints) landed(vault.registerMint(mint))
  const each = [vault.mint, ...mints].map((mint) => ({ ...vault.withdrawal(1n, destination), mint }))
  expect(send(vault, each)).toBe('invalid_data')
})

test('queue and mint record are the vault’s own, and writable', () => {
  const vault = runningVault()
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const good = settleInstruction(vault.batchOf({ payouts: [vault.withdrawal(1_000n, destination)] }))
  expect(good.accounts).toHaveLength(7)
  for (const count of [6, 5]) {
    const fewer = { ...good, accounts: good.accounts.slice(0, count) }
    expect(vault.chain.outcome(fewer, vault.signer)).toBe('missing_accounts')
  }
  const at = (place: number, changed: { address?: Uint8Array; writable?: boolean }): string => {
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, ...changed } : one))
    return vault.chain.outcome({ ...good, accounts }, vault.signer)
  }
  for (const place of [5, 6]) expect(at(place, { writable: false })).toBe('not_writable')
  expect(at(5, { address: vault.chain.vault.ring })).toBe('wrong_address')
  expect(at(6, { address: vault.chain.vault.tree })).toBe('wrong_account')
  expect(at(6, { address: vault.source })).toBe('wrong_owner')
  const copy = bytes32('copy')
  vault.chain.setAccount(copy, vault.chain.account(good.accounts[6]!.address)!.data, vault.program)
  expect(at(6, { address: copy })).toBe('wrong_address')
  expect(at(0, {})).toBe('landed')
})
