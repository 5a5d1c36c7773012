/** A payout whose destination is unusable comes back as a refund note the program builds; the batch lands all the same. */

import { describe, expect, test } from 'bun:test'
import { decodeBase58 } from '../../protocol/base58'
import { depositCommitment } from '../../protocol/notes/notes'
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, vaultTokenAddress } from '../../protocol/vault/addresses'
import { depositInstruction } from '../../protocol/vault/deposit'
import type { PayoutOutcome } from '../../protocol/vault/events'
import type { PayoutFields } from '../../protocol/vault/settle'
import { bytes32, element, elements, landed, OpenVault, outputsOf } from '../kit/vault/open_vault'
import { tokenBytes } from '../kit/vault/tokens'

const CLOCK = decodeBase58('SysvarC1ock11111111111111111111111111111111', 32)!
const refund = element('refund')
const destination = bytes32('destination')

function running(): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(50_000n, element('inner'))
  vault.setToken(destination, { owner: bytes32('receiver') })
  return vault
}

describe('an unusable destination gets a refund note instead', () => {
  const cases: [string, PayoutOutcome, (vault: OpenVault) => Uint8Array][] = [
    ['an address without account', 'destination_missing', () => bytes32('nowhere')],
    ['a wallet', 'destination_missing', (vault) => vault.trader.key],
    ['a mint', 'destination_missing', (vault) => vault.mint],
    ['the vault program', 'destination_missing', (vault) => vault.program],
    ['the token program', 'destination_missing', () => TOKEN_PROGRAM],
    ['a sysvar, which the runtime never lets be written', 'destination_missing', () => CLOCK],
    ['the state of the vault', 'destination_missing', (vault) => vault.chain.vault.config],
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
