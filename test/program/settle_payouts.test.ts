/** Payouts are paid within liabilities, or come back as refund notes; no destination can halt a batch. */
import { describe, expect, test } from 'bun:test'
import { depositCommitment } from '../../protocol/notes'
import { vaultTokenAddress } from '../../protocol/vault/addresses'
import { depositInstruction } from '../../protocol/vault/deposit'
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/programs'
import { type PayoutFields, settleInstruction } from '../../protocol/vault/settle'
import type { PayoutOutcome } from '../../protocol/vault/settled_event'
import { bytes32, element, elements, errorOf, landed, OpenVault, outputsOf } from './open_vault'
import { tokenBytes } from './tokens'

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

describe('an unusable destination gets a refund note instead', () => {
  const cases: [string, PayoutOutcome, (vault: OpenVault) => Uint8Array][] = [
    ['an address without account', 'destination_missing', () => bytes32('nowhere')],
    ['a wallet', 'destination_missing', (vault) => vault.trader.key],
    ['a mint', 'destination_missing', (vault) => vault.mint],
    [
      'a look-alike of another program',
      'destination_missing',
      (vault) => {
        vault.setToken(destination, { owner: vault.trader.key }, TOKEN_2022_PROGRAM)
        return destination
      },
    ],
    [
      'an account of another mint',
      'destination_wrong_mint',
      (vault) => {
        vault.setToken(destination, { owner: vault.trader.key, mint: bytes32('other') })
        return destination
      },
    ],
    [
      'an uninitialized account',
      'destination_uninitialized',
      (vault) => {
        vault.setToken(destination, { owner: vault.trader.key, state: 'uninitialized' })
        return destination
      },
    ],
    [
      'a frozen account',
      'destination_frozen',
      (vault) => {
        vault.setToken(destination, { owner: vault.trader.key, state: 'frozen' })
        return destination
      },
    ],
    ['the vault itself', 'destination_is_vault', (vault) => vault.vault_token],
    [
      'any account while the vault is frozen by the issuer',
      'vault_frozen',
      (vault) => {
        vault.setToken(vault.vault_token, {
          owner: vault.chain.vault.config,
          amount: 50_000n,
          state: 'frozen',
        })
        return destination
      },
    ],
  ]
  for (const [name, outcome, prepare] of cases) {
    test(name, () => {
      const vault = running()
      const to = prepare(vault)
      const outputs = outputsOf(elements('c', 3))
      const event = vault.settle({ outputs, payouts: [vault.withdrawal(7_000n, to)] })
      const commitment = depositCommitment({ mint: vault.mint, amount: 7_000n, inner: refund, leaf_index: 4 })
      expect(event.payouts[0]).toMatchObject({ outcome, refund: { leaf_index: 4, commitment } })
      expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(50_000n)
      expect(vault.balance(vault.vault_token)).toBe(50_000n)
      expect(vault.chain.tree()).toMatchObject({ leaf_count: 5, root: vault.tree.root() })
    })
  }
})

test('refunds follow the outputs in payout order, and paid ones leave no leaf', () => {
  const vault = running()
  const payouts = [bytes32('no'), destination, bytes32('nor')].map((to) => vault.withdrawal(1_000n, to))
  const event = vault.settle({ outputs: outputsOf(elements('c', 2)), payouts })
  expect(event.payouts.map((one) => one.refund?.leaf_index)).toEqual([3, undefined, 4])
  expect(vault.chain.tree()).toMatchObject({ leaf_count: 5, root: vault.tree.root() })
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

describe('a Token-2022 mint', () => {
  const mint = bytes32('extended mint')
  const source = bytes32('extended source')
  function extendedVault(): OpenVault {
    const vault = running()
    landed(
      vault.registerMint(mint, { extensions: [{ type: 18, value: new Uint8Array(64) }] }, TOKEN_2022_PROGRAM),
    )
    vault.setToken(source, { owner: vault.trader.key, mint, amount: 50_000n }, TOKEN_2022_PROGRAM)
    const fields = {
      ...vault.depositOf(20_000n, element('inner')),
      mint,
      source,
      token_program: TOKEN_2022_PROGRAM,
    }
    landed(vault.chain.send(depositInstruction(fields)))
    vault.tree.append([depositCommitment({ mint, amount: 20_000n, inner: element('inner'), leaf_index: 1 })])
    return vault
  }
  const payout = (vault: OpenVault): PayoutFields => ({
    ...vault.withdrawal(1_000n, destination),
    mint,
    token_program: TOKEN_2022_PROGRAM,
  })
  const destinationWith = (vault: OpenVault, extensions: { type: number; value: Uint8Array }[]): void =>
    vault.chain.setAccount(
      destination,
      tokenBytes({ mint, owner: vault.trader.key, extensions }),
      TOKEN_2022_PROGRAM,
    )

  test('is deposited and paid out beside one of the other token program', () => {
    const vault = extendedVault()
    const plain = bytes32('plain')
    vault.setToken(plain, { owner: vault.trader.key })
    destinationWith(vault, [{ type: 7, value: new Uint8Array() }])
    vault.settle({ payouts: [payout(vault), vault.withdrawal(2_000n, plain)] })
    expect([vault.balance(destination), vault.balance(plain)]).toEqual([1_000n, 2_000n])
    expect(vault.balance(vaultTokenAddress(vault.program, mint))).toBe(19_000n)
  })

  test('refunds where the destination demands memos or blocks plain credits', () => {
    for (const type of [8, 5, 14, 999]) {
      const vault = extendedVault()
      destinationWith(vault, [{ type, value: new Uint8Array([1]) }])
      const event = vault.settle({ payouts: [payout(vault)] })
      expect(event.payouts[0]!.outcome).toBe('destination_refuses')
      expect(vault.chain.tree().root).toEqual(vault.tree.root())
    }
  })

  test('pays where required memos are switched off', () => {
    const vault = extendedVault()
    destinationWith(vault, [{ type: 8, value: new Uint8Array([0]) }])
    expect(vault.settle({ payouts: [payout(vault)] }).payouts[0]!.outcome).toBe('paid')
  })
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
