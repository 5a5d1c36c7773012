/**
 * Every account list against itself: each place is filled with the account of each other place, and with a stranger.
 * What still lands is listed here by name; nothing else may.
 */

import { expect, test } from 'bun:test'
import { TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import { initializeInstruction, registerMintInstruction } from '../../protocol/vault/admin'
import { depositInstruction } from '../../protocol/vault/deposit'
import {
  escapeInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { settleInstruction } from '../../protocol/vault/settle'
import { ExitNote } from '../kit/vault/exit_note'
import { bytes32, EXIT_DELAY_S, element, landed, OpenVault } from '../kit/vault/open_vault'
import { mintBytes } from '../kit/vault/tokens'
import { testKey, VaultChain } from '../kit/vault/vault_chain'

const payer = testKey('payer')

/** Replacements that land, as `place<-other`; a place filled with its own account is not a replacement. */
function survivors(chain: VaultChain, good: VaultInstruction): string[] {
  expect(chain.outcome(good)).toBe('landed')
  const stranger = { address: bytes32('stranger'), signer: false, writable: false }
  return good.accounts.flatMap((account, place) =>
    [...good.accounts, stranger].flatMap((other, from) => {
      if (Buffer.from(other.address).equals(account.address)) return []
      const signer = account.signer && other.signer
      // An invoked program is never writable; the runtime would demote it.
      const writable = account.writable && !Buffer.from(other.address).equals(good.program)
      const changed = { address: other.address, signer, writable }
      const accounts = good.accounts.map((one, index) => (index === place ? changed : one))
      return chain.outcome({ ...good, accounts }) === 'landed' ? [`${place}<-${from}`] : []
    }),
  )
}

test('initialize', () => {
  const chain = new VaultChain()
  const good = initializeInstruction({
    program: chain.program,
    deployer: payer.key,
    program_data: chain.programData(),
    admin: testKey('admin').key,
    settlement_signer: testKey('signer').key,
    exit_delay_s: 1_000,
  })
  expect(survivors(chain, good)).toEqual([])
})

test('register_mint: the admin may pay', () => {
  const vault = new OpenVault()
  const mint = bytes32('second mint')
  vault.chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const good = registerMintInstruction({
    program: vault.program,
    admin: vault.admin.key,
    payer: payer.key,
    mint,
    token_program: TOKEN_PROGRAM,
    min_deposit: 1n,
    min_exit: 1n,
  })
  expect(survivors(vault.chain, good)).toEqual(['1<-0'])
})

test('deposit', () => {
  const vault = new OpenVault()
  expect(survivors(vault.chain, depositInstruction(vault.depositOf(5_000n, element('inner'))))).toEqual([])
})

test('settle: a destination may be any account, which then is refunded', () => {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000n, element('inner'))
  const destination = bytes32('destination')
  vault.setToken(destination, { owner: vault.trader.key })
  const good = settleInstruction(vault.batchOf({ payouts: [vault.withdrawal(1_000n, destination)] }))
  const anywhere = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10].map((from) => `9<-${from}`)
  expect(survivors(vault.chain, good)).toEqual(anywhere)
})

test('request_exit: the owner may pay', () => {
  const note = new ExitNote('deposit')
  expect(survivors(note.vault.chain, requestExitInstruction(note.requestOf(payer.key)))).toEqual(['1<-0'])
})

test('an exit in a batch', () => {
  const note = new ExitNote('deposit')
  const { vault } = note
  landed(vault.chain.send(requestExitInstruction(note.requestOf(payer.key))))
  const exit = { nullifier: note.nullifier, bond_payer: payer.key }
  const payout = vault.withdrawal(note.opening.amount, note.destination, note.refund_inner)
  const batch = vault.batchOf({ nullifiers: [note.nullifier], payouts: [{ ...payout, kind: 'exit', exit }] })
  expect(survivors(vault.chain, settleInstruction(batch))).toEqual([])
})

test('refuse_exit', () => {
  const note = new ExitNote('deposit')
  const { vault } = note
  landed(vault.chain.send(requestExitInstruction(note.requestOf(payer.key))))
  vault.settle({ nullifiers: [note.nullifier] })
  const { leaf, siblings } = vault.spent.witness(note.nullifier)
  const good = refuseExitInstruction({
    program: vault.program,
    refuser: payer.key,
    nullifier: note.nullifier,
    cited_spent_root: vault.spent.root(),
    next_value: leaf.next_value,
    leaf_index: leaf.index,
    path: siblings,
  })
  expect(survivors(vault.chain, good)).toEqual([])
})

test('freeze and escape: an escape pays where its owner says, and who pays its rent is free', () => {
  const note = new ExitNote('deposit')
  const { vault } = note
  landed(vault.chain.send(requestExitInstruction(note.requestOf(payer.key))))
  vault.chain.setTime(2_000, 1_800_000_000 + EXIT_DELAY_S + 1)
  const fields = { program: vault.program, nullifier: note.nullifier, bond_payer: payer.key }
  const freeze = freezeInstruction(fields)
  expect(survivors(vault.chain, freeze)).toEqual([])
  landed(vault.chain.send(freeze))
  const good = escapeInstruction(note.escapeOf(payer.key))
  const left = survivors(vault.chain, good)
  // Without an open request, its place and the bond payer's are not looked at.
  expect(left.filter((name) => !/^1[01]<-/.test(name))).toEqual(['1<-0'])
})
