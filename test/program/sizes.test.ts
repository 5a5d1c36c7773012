/** Every kind of transaction fits 4,096 bytes; the program and the client number the same errors the same way. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SETTLE_LIMITS } from '../../protocol/limits'
import { depositInstruction } from '../../protocol/vault/deposit'
import { anchorInstruction } from '../../protocol/vault/epochs'
import { VAULT_ERRORS, vaultError } from '../../protocol/vault/errors'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  closeExitInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { growQueueInstruction } from '../../protocol/vault/queue'
import { settleInstruction } from '../../protocol/vault/settle'
import { ExitNote } from '../kit/vault/exit_note'
import {
  bytes32,
  EXIT_DELAY_S,
  element,
  elements,
  landed,
  outputsOf,
  runningVault,
} from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'
import { WindDown } from '../kit/vault/wind_down'

const payer = testKey('bond payer')

/** Lands the instruction and answers the bytes of its transaction. */
function size({ vault }: Pick<ExitNote, 'vault'>, instruction: VaultInstruction): number {
  const { bytes } = landed(vault.chain.send(instruction))
  expect(bytes).toBeLessThanOrEqual(4_096)
  return bytes
}

function requested(): ExitNote {
  const note = new ExitNote('deposit')
  note.vault.chain.fund(payer)
  landed(note.vault.chain.send(requestExitInstruction(note.requestOf(payer.key))))
  return note
}

test('settlements: 28 orders; 13 exits; 24 withdrawals with their change', () => {
  const vault = runningVault(1_000_000n)
  const orders = { nullifiers: elements('n', 28), outputs: outputsOf(elements('c', 56)) }
  expect(size({ vault }, settleInstruction(vault.batchOf(orders)))).toBe(4_064)
  const nullifiers = elements('e', 13)
  const exits = nullifiers.map((nullifier) => ({ ...vault.withdrawal(1n, bytes32('to')), nullifier }))
  for (const exit of exits) vault.putRequest(exit)
  expect(size({ vault }, settleInstruction(vault.batchOf({ nullifiers, payouts: exits })))).toBe(2_366)
  const withdrawals = Array.from({ length: 24 }, () => vault.withdrawal(1n, bytes32('to')))
  const outputs = outputsOf(elements('d', 24))
  const full = vault.batchOf({ nullifiers: elements('w', 8), outputs, payouts: withdrawals })
  expect(size({ vault }, settleInstruction(full))).toBe(3_754)
})

test('payments: 8 entries in one mint', () => {
  const vault = runningVault()
  const payouts = Array.from({ length: 8 }, (_, at) => vault.withdrawal(1n, bytes32(`to ${at}`)))
  vault.settle({ payouts })
  expect(size({ vault }, vault.payment())).toBe(822)
})

test('payments: 8 entries in 8 mints', () => {
  const vault = runningVault()
  const payouts = Array.from({ length: 8 }, (_, at) => {
    const mint = bytes32(`mint ${at}`)
    const source = bytes32(`source ${at}`)
    landed(vault.registerMint(mint))
    vault.setToken(source, { mint, owner: vault.trader.key, amount: 5_000n })
    vault.depositIn(mint, source, 5_000n)
    return { ...vault.withdrawal(1n, bytes32(`to ${at}`)), mint }
  })
  expect(size({ vault }, settleInstruction(vault.batchOf({ payouts })))).toBe(1_377)
  expect(size({ vault }, vault.payment())).toBe(1_494)
})

test('exits: a refusal of a batch with the most nullifiers is the largest', () => {
  const note = requested()
  const nullifiers = [...elements('n', SETTLE_LIMITS.nullifiers - 1), note.nullifier].sort(Buffer.compare)
  note.vault.settle({ nullifiers })
  expect(size(note, refuseExitInstruction(note.refusalOf(note.vault.chain.payer.key)))).toBe(3_430)
  const fresh = new ExitNote('deposit')
  fresh.vault.chain.fund(payer)
  expect(size(fresh, requestExitInstruction(fresh.requestOf(payer.key)))).toBe(2_009)
})

test('a wind-down: a challenge by a batch with the most nullifiers is the largest', () => {
  const down = new WindDown()
  const [note, stopper] = [down.deposit(5_000n), down.deposit(5_000n)]
  const spent = down.settle([1n])[0]!
  const nullifiers = [...elements('n', SETTLE_LIMITS.nullifiers - 1), spent.nullifier].sort(Buffer.compare)
  down.vault.settle({ nullifiers })
  down.freeze(stopper)
  const claim_escape = size(down, claimEscapeInstruction(down.claimOf(note)))
  landed(down.claiming(spent))
  const challenge = { ...down.challengeOf(spent), challenger: down.chain.payer.key }
  const challenge_escape = size(down, challengeEscapeInstruction(challenge))
  const redirect_escape = size(down, down.redirection(note, note.destination))
  down.passTo(2)
  const pay_escape = size(down, down.payment(note))
  expect({ claim_escape, challenge_escape, redirect_escape, pay_escape }).toEqual({
    claim_escape: 1_977,
    challenge_escape: 3_463,
    redirect_escape: 387,
    pay_escape: 482,
  })
})

test('everything else', () => {
  const note = requested()
  const { vault, nullifier } = note
  const { program, signer } = vault
  const position = { journal_seq: 1, journal_head: bytes32('head'), not_after_slot: 0, not_after_s: 0 }
  const anchor = anchorInstruction({ program, settlement_signer: signer.key, epoch: 1, ...position })
  const sizes = {
    anchor: size(note, anchor),
    deposit: size(note, depositInstruction(vault.depositOf(5_000n, element('inner')))),
    grow_queue: size(note, growQueueInstruction(program, vault.chain.payer.key)),
  }
  vault.chain.setTime(2_000, 1_800_000_000 + EXIT_DELAY_S + 1)
  const freeze = size(note, freezeInstruction(program, nullifier))
  const close_exit = size(note, closeExitInstruction({ program, nullifier, bond_payer: payer.key }))
  expect({ ...sizes, freeze, close_exit }).toEqual({
    anchor: 377,
    deposit: 585,
    grow_queue: 283,
    freeze: 283,
    close_exit: 283,
  })
})

test('program/src/error.rs and protocol/vault/errors.ts hold the same list', () => {
  const source = readFileSync(join(import.meta.dir, '../../program/src/error.rs'), 'utf8')
  const rows = [...source.matchAll(/^ {4}(\d{4}) ([A-Z0-9_]+)$/gm)].map(([, code, name]) => [
    Number(code),
    name!.toLowerCase(),
  ])
  expect(rows).toEqual(VAULT_ERRORS.map(([code, name]) => [code, name]))
})

test('numbers and names are unique and lead to each other', () => {
  expect(new Set(VAULT_ERRORS.map(([code]) => code)).size).toBe(VAULT_ERRORS.length)
  for (const [code, name, meaning] of VAULT_ERRORS) {
    expect(vaultError(code)).toEqual({ code, name, meaning })
  }
  expect(vaultError(1)).toBeUndefined()
})
