/**
 * `test/vectors/vault.json` equals the program's bytes: accounts and events of one story, and the data of every instruction
 * that lands in it. `UPDATE_GOLDEN=1` writes the file.
 */

import { expect, test } from 'bun:test'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { toHex } from '../../protocol/bytes'
import { SETTLE_LIMITS } from '../../protocol/limits'
import { escapeClaimAddress, exitRequestAddress, mintRecordAddress } from '../../protocol/vault/addresses'
import {
  announceInstruction,
  announcementAddress,
  declareOutageInstruction,
  initializeInstruction,
  registerMintInstruction,
  setAdminInstruction,
} from '../../protocol/vault/admin'
import { anchorInstruction, platformAddress, registerPlatformInstructions } from '../../protocol/vault/epochs'
import { VAULT_ERRORS, vaultError } from '../../protocol/vault/errors'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  closeExitInstruction,
  depositInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { growQueueInstruction, settleInstruction } from '../../protocol/vault/settle'
import { developmentChain, PCK, ROOT } from '../kit/vault/development_chain'
import {
  AttestedVault,
  bytes32,
  EXIT_DELAY_S,
  element,
  elements,
  initializationOf,
  landed,
  OpenVault,
  outputsOf,
  runningVault,
} from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'
import { ExitNote, WindDown } from '../kit/vault/wind_down'

const FILE = join(import.meta.dir, '../vectors/vault.json')

/** Data without the zeros at its end, and its whole size. */
function trimmed(data: Uint8Array): { bytes: number; hex: string } {
  return { bytes: data.length, hex: toHex(data).replace(/(00)+$/, '') }
}

const instructions: Record<string, string> = {}
const events: Record<string, string> = {}

function send(name: string, { vault }: Pick<ExitNote, 'vault'>, instruction: VaultInstruction): void {
  instructions[name] = toHex(instruction.data).replace(/(00)+$/, '')
  const { inner } = landed(vault.chain.send(instruction))
  const emitted = inner.filter((data) => data[0] === 255)
  // An opening emits it before its own.
  if (name === 'open_attested_epoch') events['epoch_opened'] = toHex(emitted[0]!)
  if (emitted.length > 0) events[name] = toHex(emitted.at(-1)!)
}

function story(): object {
  const note = new ExitNote('deposit')
  const { vault, nullifier } = note
  const { chain, program, signer } = vault
  const payer = chain.fund(testKey('bond payer')).key
  instructions['initialize'] = toHex(initializeInstruction(initializationOf(chain)).data)
  const registration = { program, admin: vault.admin.key, payer, mint: vault.mint, token_program: vault.mint }
  const minimums = { min_deposit: 1_000n, min_exit: 500n }
  instructions['register_mint'] = toHex(registerMintInstruction({ ...registration, ...minimums }).data)
  const announce = {
    program,
    admin: vault.admin.key,
    action: 'announce',
    key: bytes32('next admin'),
  } as const
  send('set_admin', note, setAdminInstruction(announce))
  const position = { journal_seq: 5, journal_head: bytes32('head 5') }
  const limits = { not_after_slot: 2_000, not_after_s: 1_900_000_000 }
  send(
    'anchor',
    note,
    anchorInstruction({ program, settlement_signer: signer.key, epoch: 1, ...position, ...limits }),
  )
  send('request_exit', note, requestExitInstruction(note.requestOf(payer)))
  send('deposit', note, depositInstruction(vault.depositOf(5_000n, element('inner'))))
  const nullifiers = [...elements('n', 1), nullifier].sort(Buffer.compare)
  const payouts = [
    note.payout(),
    vault.withdrawal(700n, bytes32('nowhere')),
    vault.withdrawal(800n, bytes32('too')),
  ]
  const parts = { nullifiers, outputs: outputsOf(elements('c', 2)), payouts }
  chain.setTime(1_018, 1_800_000_100)
  send('settle', note, settleInstruction(vault.batchOf(parts)))
  const request = trimmed(chain.account(exitRequestAddress(program, nullifier))!.data)
  send('pay', note, vault.payment(chain.queue().entries.slice(0, 2)))
  const queue = trimmed(chain.account(chain.vault.queue)!.data)
  send('grow_queue', note, growQueueInstruction(program, payer))
  send('close_exit', note, closeExitInstruction({ program, nullifier, bond_payer: payer }))
  const { config, tree, ring } = chain.vault
  const at = (key: Uint8Array) => trimmed(chain.account(key)!.data)
  const record = at(mintRecordAddress(program, vault.mint))
  return {
    config: at(config),
    tree: at(tree),
    ring: at(ring),
    mint_record: record,
    exit_request: request,
    queue,
  }
}

/** A request refused by a proof, and one that freezes the vault. */
function endings(): void {
  const refused = new ExitNote('deposit')
  const payer = refused.vault.chain.fund(testKey('bond payer')).key
  landed(refused.vault.chain.send(requestExitInstruction(refused.requestOf(payer))))
  refused.vault.settle({ nullifiers: [refused.nullifier] })
  send('refuse_exit', refused, refuseExitInstruction(refused.refusalOf(payer)))
  const late = new ExitNote('settlement')
  late.vault.chain.fund(testKey('bond payer'))
  landed(late.vault.chain.send(requestExitInstruction(late.requestOf(payer))))
  late.vault.chain.setTime(2_000, 1_800_000_000 + EXIT_DELAY_S + 1)
  send('freeze', late, freezeInstruction(late.vault.program, late.nullifier))
}

/** A claim is cancelled, another is redirected and paid; answers that one's account. */
function windDown(): object {
  const down = new WindDown()
  const { vault, chain } = down
  const outage = { program: vault.program, admin: vault.admin.key, extra_s: 2 * EXIT_DELAY_S }
  send('declare_outage', down, declareOutageInstruction(outage))
  const note = down.deposit(5_000n)
  const [spent] = down.settle([7_000n])
  down.settle([], [spent!])
  down.freeze(note)
  send('claim_escape', down, claimEscapeInstruction(down.claimOf(note)))
  landed(down.claiming(spent!))
  send('challenge_escape', down, challengeEscapeInstruction(down.challengeOf(spent!)))
  const destination = bytes32('elsewhere')
  vault.setToken(destination, { owner: note.owner.key })
  send('redirect_escape', down, down.redirection(note, destination))
  down.passTo(2)
  send('pay_escape', down, down.payment(note))
  return {
    frozen_config: trimmed(chain.account(chain.vault.config)!.data),
    frozen_mint_record: trimmed(chain.account(mintRecordAddress(vault.program, vault.mint))!.data),
    escape_claim: trimmed(chain.account(escapeClaimAddress(vault.program, note.nullifier))!.data),
  }
}

/** Terms of attested epochs, announced before the first epoch, and a platform under the announced root. */
function attested(): object {
  const vault = new OpenVault()
  const { chain } = vault
  const one = { vault }
  const topic = { list: 'attestation_root' } as const
  const announcement = { ...topic, action: 'announce', value: ROOT.compressed } as const
  const admin = { program: vault.program, admin: vault.admin.key, payer: chain.payer.key }
  send('announce', one, announceInstruction({ ...admin, ...announcement }))
  const [verify, registration] = registerPlatformInstructions({ ...developmentChain(), ...admin })
  chain.before = [verify]
  send('register_platform', one, registration)
  chain.before = []
  const other = new AttestedVault()
  const [quoted, opening] = other.opening()
  other.chain.before = [quoted]
  send('open_attested_epoch', other, opening)
  return {
    attested_config: trimmed(other.chain.account(other.chain.vault.config)!.data),
    announcement: trimmed(chain.account(announcementAddress(vault.program, topic))!.data),
    platform: trimmed(chain.account(platformAddress(vault.program, PCK.compressed))!.data),
  }
}

test('accounts, events and instructions of the program are those of the vector file', () => {
  const accounts = story()
  endings()
  Object.assign(accounts, windDown(), attested())
  const text = `${JSON.stringify({ accounts, events, instructions }, null, 2)}\n`
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(FILE, text)
  expect(existsSync(FILE) ? readFileSync(FILE, 'utf8') : '').toBe(text)
})

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
