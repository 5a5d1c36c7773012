/** Payouts are paid within liabilities, or come back as refund notes; no destination can halt a batch. */
import { expect, test } from 'bun:test'
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import { type PayoutFields, settleInstruction } from '../../protocol/vault/settle'
import { bytes32, element, elements, errorOf, landed, OpenVault, outputsOf } from '../kit/vault/open_vault'

const refund = element('refund')
const destination = bytes32('destination')

function running(): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(50_000n, element('inner'))
  vault.setToken(destination, { owner: bytes32('receiver') })
  return vault
}

test('a withdrawal moves the tokens and lowers the liabilities by exactly its amount', () => {
  const vault = running()
  const event = vault.settle({
    nullifiers: elements('n', 1),
    payouts: [vault.withdrawal(20_000n, destination)],
  })
  expect(vault.balance(destination)).toBe(20_000n)
  expect(vault.balance(vault.vault_token)).toBe(30_000n)
  expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(30_000n)
  expect(event.payouts).toEqual([
    {
      kind: 'withdrawal',
      outcome: 'paid',
      mint: vault.mint,
      amount: 20_000n,
      destination,
      inner: refund,
      nullifier: undefined,
      refund: undefined,
    },
  ])
  expect(vault.chain.tree().leaf_count).toBe(1)
})

test('one batch pays several destinations, also the same one twice', () => {
  const vault = running()
  const second = bytes32('second')
  vault.setToken(second, { owner: bytes32('receiver') })
  const payouts = [destination, second, destination].map((to) => vault.withdrawal(1_000n, to))
  const outputs = outputsOf(elements('c', 3))
  vault.settle({ outputs, payouts })
  expect([vault.balance(destination), vault.balance(second)]).toEqual([2_000n, 1_000n])
  expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(47_000n)
  expect(vault.chain.tree().root).toEqual(vault.tree.root())
})

test('payouts above the liabilities are refused, also in sum and where they would be refunded', () => {
  const vault = running()
  const send = (payouts: PayoutFields[]): string => errorOf(vault.send(vault.batchOf({ payouts })))
  expect(send([vault.withdrawal(50_001n, destination)])).toBe('payout_above_liabilities')
  expect(send([vault.withdrawal(50_001n, bytes32('no'))])).toBe('payout_above_liabilities')
  const half = vault.withdrawal(30_000n, destination)
  expect(send([half, half])).toBe('payout_above_liabilities')
  expect(vault.balance(destination)).toBe(0n)
})

test('a vault that holds less than it owes pays nothing', () => {
  const vault = running()
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 49_999n })
  const batch = vault.batchOf({ payouts: [vault.withdrawal(1_000n, destination)] })
  expect(errorOf(vault.send(batch))).toBe('insolvent')
})

test('a payout of nothing, with a bad inner, of an unlisted mint or with stray fields is refused', () => {
  const vault = running()
  const good = vault.withdrawal(1_000n, destination)
  const send = (payout: PayoutFields): string => errorOf(vault.send(vault.batchOf({ payouts: [payout] })))
  expect(send({ ...good, amount: 0n })).toBe('invalid_data')
  expect(send({ ...good, inner: new Uint8Array(32) })).toBe('not_field_element')
  const batch = settleInstruction(vault.batchOf({ payouts: [good] }))
  const tampered = (at: number, value: number): string => {
    const data = batch.data.slice()
    data[at] = value
    return errorOf(vault.chain.send({ ...batch, data }, vault.signer))
  }
  expect(tampered(133, 2)).toBe('invalid_data')
  expect(tampered(134, 1)).toBe('payout_mismatch')
  expect(tampered(135, 1)).toBe('invalid_data')
  expect(tampered(132, 2)).toBe('invalid_data')
})

test('the accounts of a payout must be those of its mint, and the destination writable', () => {
  const vault = running()
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const good = settleInstruction(vault.batchOf({ payouts: [vault.withdrawal(1_000n, destination)] }))
  const foreign = settleInstruction(
    vault.batchOf({ payouts: [{ ...vault.withdrawal(1_000n, destination), mint: other }] }),
  )
  for (const place of [5, 6, 7]) {
    const address = foreign.accounts[place]!.address
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, address } : one))
    expect([place, errorOf(vault.chain.send({ ...good, accounts }, vault.signer))]).toEqual([
      place,
      'wrong_address',
    ])
  }
  for (const place of [5, 7, 9]) {
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, writable: false } : one))
    expect(errorOf(vault.chain.send({ ...good, accounts }, vault.signer))).toBe('not_writable')
  }
  const accounts = good.accounts.map((one, index) => (index === 8 ? { ...one, address: other } : one))
  expect(errorOf(vault.chain.send({ ...good, accounts }, vault.signer))).toBe('wrong_address')
})

test('one mint cannot be listed twice', () => {
  const vault = running()
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const payouts = [
    vault.withdrawal(1_000n, destination),
    { ...vault.withdrawal(1_000n, destination), mint: other },
  ]
  const batch = settleInstruction(vault.batchOf({ payouts }))
  const accounts = batch.accounts.map((one, index) =>
    index >= 9 && index < 13 ? batch.accounts[index - 4]! : one,
  )
  expect(errorOf(vault.chain.send({ ...batch, accounts }, vault.signer))).toBe('duplicate_account')
})

test('a batch of 24 payouts and 18 outputs stays within a v1 transaction and its compute budget', () => {
  const vault = running()
  const payouts = Array.from({ length: 24 }, (_, index) => {
    const to = bytes32(`to ${index}`)
    vault.setToken(to, { owner: vault.trader.key })
    return vault.withdrawal(1_000n, to)
  })
  const event = vault.settle({
    nullifiers: elements('n', 24),
    outputs: outputsOf(elements('c', 18)),
    payouts,
  })
  expect(event.bytes).toBeLessThanOrEqual(4_096)
  expect(Number(event.units)).toBeLessThan(1_400_000)
  expect(event.payouts.every(({ outcome }) => outcome === 'paid')).toBe(true)
})

test('the token program of a payout is the recorded one', () => {
  const vault = running()
  const wrong = { ...vault.withdrawal(1_000n, destination), token_program: TOKEN_2022_PROGRAM }
  expect(errorOf(vault.send(vault.batchOf({ payouts: [wrong] })))).toBe('wrong_address')
  expect(TOKEN_PROGRAM).not.toEqual(TOKEN_2022_PROGRAM)
})
