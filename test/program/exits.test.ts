/** Forced exit: a request is served, refused with proof, or ends the vault; a served owner always gets the bond back. */
import { expect, test } from 'bun:test'
import { decodeExitRequest, type ExitRequest } from '../../protocol/vault/accounts'
import { exitRequestAddress } from '../../protocol/vault/addresses'
import {
  authorizeRestoreInstruction,
  declareOutageInstruction,
  pauseInstruction,
} from '../../protocol/vault/admin'
import {
  closeExitInstruction,
  depositInstruction,
  freezeInstruction,
  type RequestExitFields,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import { type PayoutFields, settleInstruction } from '../../protocol/vault/settle'
import { bytes32, EXIT_DELAY_S, element, elements, errorOf, landed, outputsOf } from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'
import { ExitNote } from '../kit/vault/wind_down'

const NOW_S = 1_800_000_000
const BOND = 20_000_000n
const bond_payer = testKey('bond payer')
const refuser = testKey('refuser')

function requested(form: 'deposit' | 'settlement' = 'deposit'): ExitNote {
  const note = new ExitNote(form)
  note.vault.chain.fund(bond_payer)
  note.vault.chain.fund(refuser)
  landed(note.vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key))))
  return note
}

const requestAccount = (note: ExitNote) =>
  note.vault.chain.account(exitRequestAddress(note.vault.program, note.nullifier))

const requestOf = (note: ExitNote): ExitRequest => decodeExitRequest(requestAccount(note)!.data)!

const lamports = (note: ExitNote, key: Uint8Array): bigint => note.vault.chain.account(key)!.lamports

const close = (note: ExitNote) => {
  const { vault, nullifier } = note
  const fields = { program: vault.program, nullifier, bond_payer: bond_payer.key }
  return vault.chain.send(closeExitInstruction(fields))
}

const freeze = ({ vault, nullifier }: ExitNote) =>
  vault.chain.send(freezeInstruction(vault.program, nullifier))

const refuse = (note: ExitNote, batch?: number) =>
  note.vault.chain.send(refuseExitInstruction(note.refusalOf(refuser.key, batch)))

const passDeadline = (note: ExitNote): void => note.vault.chain.setTime(2_000, NOW_S + EXIT_DELAY_S + 1)

for (const form of ['deposit', 'settlement'] as const)
  test(`the owner of a ${form} note requests its exit with public data and a bond`, () => {
    const note = new ExitNote(form)
    note.vault.chain.fund(bond_payer)
    const { events } = landed(note.vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key))))
    const { nullifier, commitment, destination, refund_inner } = note
    const request = { nullifier, commitment, mint: note.vault.mint, amount: note.opening.amount, destination }
    const deadline_s = NOW_S + EXIT_DELAY_S
    expect(requestOf(note)).toMatchObject({
      ...request,
      served: false,
      refund_inner,
      deadline_s,
      bond_payer: bond_payer.key,
      requested_slot: 1_000,
    })
    const { leaf_index } = note.opening
    expect(events).toEqual([{ kind: 'exit_requested', ...request, leaf_index, refund_inner, deadline_s }])
    const rent = note.vault.chain.svm.minimumBalanceForRentExemption(240n)
    expect(requestAccount(note)!.lamports - rent).toBe(BOND)
  })

test('a request needs the owner’s signature, the true opening and an inclusion in a known state', () => {
  const note = new ExitNote('deposit')
  const { chain } = note.vault
  chain.fund(bond_payer)
  const good = note.requestOf(bond_payer.key)
  const send = (fields: Partial<RequestExitFields>): string =>
    errorOf(chain.send(requestExitInstruction({ ...good, ...fields })))
  const unsigned = requestExitInstruction(good)
  unsigned.accounts[0]!.signer = false
  expect(errorOf(chain.send(unsigned))).toBe('missing_signature')
  const thief = chain.fund(testKey('thief'))
  expect(send({ owner: thief.key })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, amount: good.opening.amount + 1n } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, form: 'settlement' } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, leaf_index: 1 } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, blinding: element('other') } })).toBe('invalid_inclusion')
  expect(send({ path: [element('sibling'), ...good.path.slice(1)] })).toBe('invalid_inclusion')
  expect(send({ path: [...good.path.slice(0, -1), element('sibling')] })).toBe('invalid_inclusion')
  expect(send({ cited_root: element('root') })).toBe('unknown_state')
  expect(send({ cited_leaf_count: 0 })).toBe('invalid_inclusion')
  expect(send({ nullifier: element('other') })).toBe('wrong_address')
  expect(send({ refund_inner: new Uint8Array(32) })).toBe('not_field_element')
  expect(send({ opening: { ...good.opening, blinding: new Uint8Array(32) } })).toBe('not_field_element')
  const formless = requestExitInstruction(good)
  formless.data[1] = 2
  expect(errorOf(chain.send(formless))).toBe('invalid_data')
})

test('a note below the minimum cannot request an exit', () => {
  const note = new ExitNote('settlement', 499n)
  note.vault.chain.fund(bond_payer)
  const sent = note.vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key)))
  expect(errorOf(sent)).toBe('below_min_exit')
})

test('one note has one request, also while it is served', () => {
  const note = requested()
  const again = requestExitInstruction(note.requestOf(bond_payer.key))
  expect(note.vault.chain.outcome(again)).toBe('exit_already_requested')
  note.vault.settle({ nullifiers: [note.nullifier], payouts: [note.payout()] })
  expect(note.vault.chain.outcome(again)).toBe('exit_already_requested')
})

test('an exit can be requested while the vault is paused', () => {
  const note = new ExitNote('deposit')
  const { vault } = note
  vault.chain.fund(bond_payer)
  landed(vault.chain.send(pauseInstruction({ program: vault.program, admin: vault.admin.key })))
  landed(vault.chain.send(requestExitInstruction(note.requestOf(bond_payer.key))))
})

test('a served exit is queued, its request stays, and closing returns rent and bond to who paid them', () => {
  const note = requested()
  const event = note.vault.settle({ nullifiers: [note.nullifier], payouts: [note.payout()] })
  const { nullifier, destination } = note
  expect(event.payouts[0]).toMatchObject({ kind: 'exit', served: true, nullifier, number: 1 })
  expect(requestOf(note).served).toBe(true)
  const [before, held] = [lamports(note, bond_payer.key), requestAccount(note)!.lamports]
  expect(landed(close(note)).events).toEqual([{ kind: 'exit_closed', nullifier, served: true }])
  expect(requestAccount(note)).toBeUndefined()
  expect(lamports(note, bond_payer.key)).toBe(before + held)
  expect(note.vault.pay()[0]).toMatchObject({ payout: 'exit', outcome: 'paid', nullifier })
  expect(note.vault.balance(destination)).toBe(note.opening.amount)
})

test('an exit to an unusable destination becomes the note of its request', () => {
  const note = requested()
  note.vault.settle({ nullifiers: [note.nullifier], payouts: [note.payout()] })
  note.vault.setToken(note.destination, { owner: note.vault.trader.key, state: 'frozen' })
  const [paid] = note.vault.pay()
  expect(paid).toMatchObject({
    outcome: 'destination_frozen',
    refund: { leaf_index: 1 },
    inner: note.refund_inner,
  })
  expect(note.vault.chain.tree().root).toEqual(note.vault.tree.root())
})

test('an exit whose payout differs from its request is rejected, and the request stays', () => {
  const note = requested()
  const { vault, nullifier } = note
  const other = bytes32('other mint')
  const source = bytes32('other source')
  landed(vault.registerMint(other))
  vault.setToken(source, { mint: other, owner: vault.trader.key, amount: 50_000n })
  vault.depositIn(other, source, 50_000n)
  const differences: Partial<PayoutFields>[] = [
    { amount: 39_999n },
    { destination: bytes32('elsewhere') },
    { inner: element('other') },
    { mint: other },
  ]
  for (const difference of differences) {
    const payouts = [{ ...note.payout(), ...difference }]
    expect(errorOf(vault.send(vault.batchOf({ nullifiers: [nullifier], payouts })))).toBe('payout_mismatch')
    expect(requestOf(note).served).toBe(false)
  }
  vault.settle({ nullifiers: [nullifier], payouts: [note.payout()] })
})

test('an exit without a request, or whose request is elsewhere, of another note or served, is rejected', () => {
  const missing = new ExitNote('deposit')
  const unasked = missing.vault.batchOf({ nullifiers: [missing.nullifier], payouts: [missing.payout()] })
  expect(errorOf(missing.vault.send(unasked))).toBe('payout_mismatch')
  const note = requested()
  const { vault, nullifier } = note
  const copy = bytes32('copy')
  vault.chain.setAccount(copy, requestAccount(note)!.data, vault.program)
  const exit = { nullifiers: [nullifier], payouts: [note.payout()] }
  const batch = settleInstruction(vault.batchOf(exit))
  for (const address of [vault.source, vault.chain.vault.config, bytes32('nowhere'), copy]) {
    const accounts = batch.accounts.map((one, at) => (at === 7 ? { ...one, address } : one))
    expect(vault.chain.outcome({ ...batch, accounts }, vault.signer)).toBe('payout_mismatch')
  }
  const [another] = elements('another', 1)
  const of_another = settleInstruction(
    vault.batchOf({ nullifiers: [another!], payouts: [{ ...note.payout(), nullifier: another }] }),
  )
  of_another.accounts[7]!.address = exitRequestAddress(vault.program, nullifier)
  expect(vault.chain.outcome(of_another, vault.signer)).toBe('payout_mismatch')
  vault.settle(exit)
  expect(errorOf(vault.send(vault.batchOf(exit)))).toBe('payout_mismatch')
})

test('a request that would be served must be writable', () => {
  const note = requested()
  const batch = settleInstruction(
    note.vault.batchOf({ nullifiers: [note.nullifier], payouts: [note.payout()] }),
  )
  const accounts = batch.accounts.map((one, at) => (at === 7 ? { ...one, writable: false } : one))
  expect(note.vault.chain.outcome({ ...batch, accounts }, note.vault.signer)).toBe('not_writable')
})

test('a batch serves an exit once, and only for a nullifier it spends', () => {
  const note = requested()
  const { vault, nullifier } = note
  vault.deposit(50_000n, element('liquidity'))
  const batch = vault.batchOf({ nullifiers: [nullifier], payouts: [note.payout(), note.payout()] })
  expect(errorOf(vault.send(batch))).toBe('payout_mismatch')
  const { accounts, data, program } = settleInstruction(
    vault.batchOf({ nullifiers: [nullifier], payouts: [note.payout()] }),
  )
  const foreign = data.slice()
  foreign[101 + 32 + 2] = 1
  expect(vault.chain.outcome({ program, accounts, data: foreign }, vault.signer)).toBe('payout_mismatch')
  foreign[101 + 32 + 2] = 64
  expect(vault.chain.outcome({ program, accounts, data: foreign }, vault.signer)).toBe('payout_mismatch')
})

test('a request for a spent note is refused with proof, under a kept spent root too', () => {
  for (const later of [false, true]) {
    const note = requested()
    const { vault, nullifier } = note
    vault.settle({ nullifiers: [...elements('others', 2), nullifier].sort(Buffer.compare) })
    const refusal = refuseExitInstruction(note.refusalOf(refuser.key))
    if (later) {
      vault.chain.setTime(1_018, NOW_S)
      vault.settle({ nullifiers: elements('more', 2) })
    }
    const [before, held] = [lamports(note, refuser.key), requestAccount(note)!.lamports]
    const { events } = landed(vault.chain.send(refusal))
    expect(events).toEqual([{ kind: 'exit_refused', nullifier, refuser: refuser.key }])
    expect(requestAccount(note)).toBeUndefined()
    expect(lamports(note, refuser.key)).toBe(before + held)
  }
})

test('a proof of another batch, another list or another root refuses nothing', () => {
  const note = requested()
  const { vault, nullifier } = note
  vault.settle({ nullifiers: elements('others', 3) })
  vault.settle({ nullifiers: elements('more', 1) })
  const others = note.refusalOf(refuser.key, 1)
  const send = (change: Partial<typeof others>): string =>
    errorOf(vault.chain.send(refuseExitInstruction({ ...others, ...change })))
  expect(send({})).toBe('invalid_spent_proof')
  expect(send({ nullifiers: [nullifier] })).toBe('invalid_spent_proof')
  expect(send({ nullifiers: [...others.nullifiers, nullifier] })).toBe('invalid_spent_proof')
  expect(send({ cited_spent_root: bytes32('root') })).toBe('unknown_spent_root')
  vault.settle({ nullifiers: [nullifier] })
  const good = note.refusalOf(refuser.key)
  const bad = (change: Partial<typeof good>): string =>
    vault.chain.outcome(refuseExitInstruction({ ...good, ...change }))
  expect(bad({ batch: 2 })).toBe('invalid_spent_proof')
  expect(bad({ batch: 0 })).toBe('invalid_spent_proof')
  expect(bad({ batch: 2 ** 40 + 3 })).toBe('invalid_data')
  expect(bad({ path: [bytes32('sibling'), ...good.path.slice(1)] })).toBe('invalid_spent_proof')
  expect(bad({ path: [...good.path.slice(0, -1), bytes32('sibling')] })).toBe('invalid_spent_proof')
  expect(bad({})).toBe('landed')
})

test('a served request is never refused', () => {
  const note = requested()
  note.vault.settle({ nullifiers: [note.nullifier], payouts: [note.payout()] })
  expect(errorOf(refuse(note))).toBe('exit_served')
  passDeadline(note)
  expect(errorOf(freeze(note))).toBe('exit_served')
  landed(close(note))
})

test('an open request is closed only once the vault is frozen, and its bond goes to who paid it', () => {
  const note = requested()
  expect(errorOf(close(note))).toBe('exit_open')
  passDeadline(note)
  landed(freeze(note))
  const { vault, nullifier } = note
  const stolen = closeExitInstruction({ program: vault.program, nullifier, bond_payer: refuser.key })
  expect(errorOf(vault.chain.send(stolen))).toBe('wrong_address')
  const [before, held] = [lamports(note, bond_payer.key), requestAccount(note)!.lamports]
  expect(landed(close(note)).events).toEqual([{ kind: 'exit_closed', nullifier, served: false }])
  expect(lamports(note, bond_payer.key)).toBe(before + held)
  expect(errorOf(close(note))).toBe('wrong_owner')
})

test('a copy of a request at another address is no request', () => {
  const note = requested()
  const { vault, nullifier } = note
  const copy = bytes32('copy')
  vault.chain.setAccount(copy, requestAccount(note)!.data, vault.program)
  passDeadline(note)
  const freezing = freezeInstruction(vault.program, nullifier)
  freezing.accounts[2]!.address = copy
  expect(vault.chain.outcome(freezing)).toBe('wrong_address')
})

test('a missed deadline freezes the vault permanently; queued payouts stay payable', () => {
  const note = requested()
  const { vault, nullifier } = note
  vault.settle({ payouts: [vault.withdrawal(7_000n, note.destination)] })
  vault.chain.setTime(2_000, NOW_S + EXIT_DELAY_S)
  expect(errorOf(freeze(note))).toBe('deadline_not_reached')
  passDeadline(note)
  const { events } = landed(freeze(note))
  const frozen_at_s = NOW_S + EXIT_DELAY_S + 1
  expect(events).toEqual([{ kind: 'frozen', nullifier, frozen_at_s }])
  expect(vault.chain.config()).toMatchObject({ frozen: true, frozen_at_s })
  expect(errorOf(freeze(note))).toBe('vault_frozen')
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)) })
  expect(errorOf(vault.send(batch))).toBe('vault_frozen')
  const deposit = depositInstruction(vault.depositOf(5_000n, element('x')))
  expect(errorOf(vault.chain.send(deposit))).toBe('vault_frozen')
  const request = requestExitInstruction(note.requestOf(bond_payer.key))
  expect(errorOf(vault.chain.send(request))).toBe('vault_frozen')
  expect(errorOf(vault.registerMint(bytes32('late mint')))).toBe('vault_frozen')
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'announce' })))
  vault.pay()
  expect(vault.balance(note.destination)).toBe(7_000n)
  expect(vault.chain.config().frozen).toBe(true)
})

test('a declared outage extends the deadlines of requests that were open when it began', () => {
  const extra_s = 3 * EXIT_DELAY_S
  const cases: [string, number, boolean][] = [
    ['began before the request', NOW_S, false],
    ['began after the request', NOW_S + 1, true],
    ['began at the deadline', NOW_S + EXIT_DELAY_S, true],
    ['began past the deadline', NOW_S + EXIT_DELAY_S + 1, false],
  ]
  for (const [name, outage_at_s, extended] of cases) {
    const note = requested()
    const { chain, program } = note.vault
    chain.setTime(1_500, outage_at_s)
    landed(chain.send(declareOutageInstruction({ program, admin: note.vault.admin.key, extra_s })))
    passDeadline(note)
    expect([name, errorOf(freeze(note))]).toEqual([name, extended ? 'deadline_not_reached' : 'landed'])
    chain.setTime(2_000, NOW_S + EXIT_DELAY_S + extra_s + 1)
    expect([name, errorOf(freeze(note))]).toEqual([name, extended ? 'landed' : 'vault_frozen'])
  }
})
