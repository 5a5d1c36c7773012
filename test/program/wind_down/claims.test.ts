/** Claims in a frozen vault: opened by the note's owner, cancelled by proof that the note is spent, paid after a wait. */
import { expect, test } from 'bun:test'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { TOKEN_2022_PROGRAM } from '../../../protocol/vault/addresses'
import { pauseInstruction } from '../../../protocol/vault/admin'
import { challengeEscapeInstruction, claimEscapeInstruction } from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { bytes32, EXIT_DELAY_S, element, elements, errorOf, landed } from '../../kit/vault/open_vault'
import { tokenBytes } from '../../kit/vault/vault_chain'
import { ESCAPE_BOND, EXIT_REFUND, type OwnedNote, WindDown } from '../../kit/vault/wind_down'

/** A frozen vault: one note is unspent, one was spent by batch 2 of 3. */
function frozen(): { down: WindDown; note: OwnedNote; spent: OwnedNote } {
  const down = new WindDown()
  const note = down.deposit(40_000n)
  const [spent] = down.settle([7_000n])
  down.settle([], [spent!])
  down.vault.settle({ nullifiers: elements('later', 3) })
  down.freeze(note)
  return { down, note, spent: spent! }
}

const without = (instruction: VaultInstruction, place: number): VaultInstruction => ({
  ...instruction,
  accounts: instruction.accounts.map((one, at) => (at === place ? { ...one, signer: false } : one)),
})

test('the owner of a note claims it with public data and a bond, and is paid once the wait is over', () => {
  const { down, note } = frozen()
  const { nullifier, commitment, destination, owner, mint } = note
  const { amount, leaf_index } = note.opening
  const { events } = landed(down.claiming(note))
  const due_s = down.frozen_at_s + 2 * EXIT_DELAY_S
  const parties = { destination, owner: owner.key }
  const claimed = { nullifier, commitment, leaf_index, mint, amount, ...parties }
  expect(events).toEqual([{ kind: 'escape_claimed', ...claimed, rank: 'window', due_s }])
  const claim = { nullifier, mint, amount, ...parties, bond_payer: down.bond_payer.key, sequence: 0 }
  const opened = { ...claim, claimed_at_s: down.frozen_at_s, rank: 'window' as const }
  expect(down.claim(note)).toMatchObject({ ...opened, state: 'open', paid: 0n })
  const rent = down.chain.svm.minimumBalanceForRentExemption(200n)
  expect(down.claimAccount(note)!.lamports - rent).toBe(ESCAPE_BOND)
  expect(down.chain.mintRecord(mint)).toMatchObject({ window_total: amount, window_fixed_at_s: 0 })

  down.passTo(2, -1)
  expect(errorOf(down.paying(note))).toBe('payment_not_due')
  down.passTo(2)
  const before = down.held(down.bond_payer.key)
  const paid = landed(down.paying(note))
  expect(paid.events).toEqual([{ kind: 'escape_paid', nullifier, mint, amount, paid: amount, destination }])
  expect(down.received(note)).toBe(amount)
  expect(down.held(down.bond_payer.key)).toBe(before + ESCAPE_BOND)
  expect(down.claimAccount(note)!.lamports).toBe(rent)
  expect(down.claim(note)).toMatchObject({ ...opened, state: 'paid', paid: amount })
  expect(down.chain.mintRecord(mint)).toMatchObject({ liabilities: 0n, window_owed: 0n })
})

test('a claim needs a frozen vault, the owner’s signature, the true opening and an inclusion', () => {
  const early = new WindDown()
  expect(errorOf(early.claiming(early.deposit(5_000n)))).toBe('vault_not_frozen')
  const { down, note } = frozen()
  const good = down.claimOf(note)
  const send = (fields: Partial<Parameters<typeof claimEscapeInstruction>[0]>): string =>
    down.chain.outcome(claimEscapeInstruction({ ...good, ...fields }))
  expect(down.chain.outcome(without(claimEscapeInstruction(good), 0))).toBe('missing_signature')
  expect(send({ owner: down.challenger.key })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, amount: good.opening.amount + 1n } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, form: 'settlement' } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, leaf_index: 1 } })).toBe('invalid_inclusion')
  expect(send({ opening: { ...good.opening, leaf_index: good.cited_leaf_count } })).toBe('invalid_inclusion')
  expect(send({ path: [element('sibling'), ...good.path.slice(1)] })).toBe('invalid_inclusion')
  expect(send({ cited_root: element('root') })).toBe('unknown_state')
  expect(send({ nullifier: element('other') })).toBe('wrong_address')
  expect(send({ opening: { ...good.opening, blinding: new Uint8Array(32) } })).toBe('not_field_element')
  expect(send({})).toBe('landed')
})

test('a note of nothing has no claim', () => {
  const down = new WindDown()
  const note = down.deposit(5_000n)
  const [empty, least] = down.settle([0n, 1n]) as [OwnedNote, OwnedNote]
  down.freeze(note)
  expect(errorOf(down.claiming(empty))).toBe('invalid_data')
  landed(down.claiming(least))
})

test('a note has one claim, also after it was paid or cancelled', () => {
  const { down, note, spent } = frozen()
  for (const one of [note, spent]) landed(down.claiming(one))
  for (const one of [note, spent]) expect(errorOf(down.claiming(one))).toBe('already_claimed')
  landed(down.challenging(spent))
  down.passTo(2)
  landed(down.paying(note))
  for (const one of [note, spent]) expect(errorOf(down.claiming(one))).toBe('already_claimed')
  expect(errorOf(down.paying(note))).toBe('claim_closed')
  expect(errorOf(down.paying(spent))).toBe('claim_closed')
  expect(errorOf(down.challenging(spent))).toBe('claim_closed')
  expect(errorOf(down.chain.send(down.redirection(note, bytes32('x'))))).toBe('claim_closed')
})

test('a claim under a kept root, and one after the refund note of another', () => {
  const down = new WindDown()
  const note = down.deposit(40_000n)
  down.queue(1_000n)
  down.freeze(note)
  const old = claimEscapeInstruction(down.claimOf(note))
  down.passTo(0, 5)
  down.vault.pay()
  expect(down.chain.outcome(claimEscapeInstruction(down.claimOf(note)))).toBe('landed')
  landed(down.chain.send(old))
})

test('anyone cancels the claim of a spent note before it is paid and takes the bond', () => {
  for (const late of [false, true]) {
    const { down, note, spent } = frozen()
    if (late) down.passTo(1)
    landed(down.claiming(spent))
    down.passTo(5)
    const before = down.held(down.challenger.key)
    const { nullifier } = spent
    const { events } = landed(down.challenging(spent))
    expect(events).toEqual([{ kind: 'escape_challenged', nullifier, challenger: down.challenger.key }])
    expect(down.held(down.challenger.key)).toBe(before + ESCAPE_BOND)
    expect(down.claimAccount(spent)!.lamports).toBe(down.chain.svm.minimumBalanceForRentExemption(200n))
    expect(down.claim(spent)).toMatchObject({ state: 'cancelled', paid: 0n })
    expect(down.chain.mintRecord(spent.mint).window_total).toBe(0n)
    expect(down.received(spent)).toBe(0n)
    landed(down.claiming(note))
  }
})

test('the claim of an unspent note is cancelled by no other proof', () => {
  const { down, note, spent } = frozen()
  for (const one of [note, spent]) landed(down.claiming(one))
  const send = (fields: Partial<Parameters<typeof challengeEscapeInstruction>[0]>): string =>
    down.chain.outcome(challengeEscapeInstruction({ ...down.challengeOf(note, 2), ...fields }))
  expect(send({})).toBe('invalid_spent_proof')
  expect(send({ nullifiers: [note.nullifier] })).toBe('invalid_spent_proof')
  const good = down.challengeOf(spent)
  const bad = (fields: Partial<Parameters<typeof challengeEscapeInstruction>[0]>): string =>
    down.chain.outcome(challengeEscapeInstruction({ ...good, ...fields }))
  expect(bad({ batch: 1 })).toBe('invalid_spent_proof')
  expect(bad({ batch: 0 })).toBe('invalid_spent_proof')
  expect(bad({ batch: 2 ** 40 + 2 })).toBe('invalid_data')
  expect(bad({ cited_spent_root: bytes32('root') })).toBe('unknown_spent_root')
  expect(bad({ path: [bytes32('sibling'), ...good.path.slice(1)] })).toBe('invalid_spent_proof')
  expect(bad({ nullifier: note.nullifier })).toBe('invalid_spent_proof')
  expect(down.chain.outcome(without(challengeEscapeInstruction(good), 0))).toBe('missing_signature')
  expect(bad({})).toBe('landed')
})

test('mint record, destination, owner and bond payer of a payment are those of the claim', () => {
  const { down, note } = frozen()
  const other = bytes32('other mint')
  const outside = down.vault.registerMint(other)
  expect(errorOf(outside)).toBe('vault_frozen')
  landed(down.claiming(note))
  down.passTo(2)
  const elsewhere = bytes32('elsewhere')
  down.vault.setToken(elsewhere, { owner: down.challenger.key })
  const changed = (place: number, address: Uint8Array): string => {
    const good = down.payment(note)
    const accounts = good.accounts.map((one, at) => (at === place ? { ...one, address } : one))
    return down.chain.outcome({ ...good, accounts })
  }
  expect(changed(6, elsewhere)).toBe('payout_mismatch')
  expect(changed(8, down.challenger.key)).toBe('wrong_address')
  expect(changed(9, down.challenger.key)).toBe('wrong_address')
  expect(changed(0, elsewhere)).toBe('wrong_owner')
  const copy = bytes32('copy')
  down.chain.setAccount(copy, down.claimAccount(note)!.data, down.vault.program)
  expect(changed(7, copy)).toBe('wrong_address')
  const flagged = down.payment(note)
  expect(down.chain.outcome({ ...flagged, data: Uint8Array.of(flagged.data[0]!, 2) })).toBe('invalid_data')
  const trailing = down.payment(note)
  expect(down.chain.outcome({ ...trailing, data: Uint8Array.of(...trailing.data, 0) })).toBe('invalid_data')
  landed(down.paying(note))
})

test('a claim is paid and challenged in its own mint only', () => {
  const down = new WindDown()
  const other = bytes32('other mint')
  landed(down.vault.registerMint(other))
  const source = bytes32('other source')
  down.vault.setToken(source, { mint: other, owner: down.vault.trader.key, amount: 50_000n })
  down.vault.depositIn(other, source, 50_000n)
  const note = down.deposit(40_000n)
  const [spent, foreign] = [down.settle([10n])[0]!, down.settle([9_000n], [], other)[0]!]
  down.settle([], [spent])
  down.freeze(note)
  for (const one of [note, spent, foreign]) landed(down.claiming(one))
  expect(down.chain.mintRecord(other).window_total).toBe(9_000n)
  const challenge = challengeEscapeInstruction({ ...down.challengeOf(spent), mint: other })
  expect(errorOf(down.chain.send(challenge))).toBe('payout_mismatch')
  landed(down.challenging(spent))
  down.passTo(2)
  const elsewhere = down.payment({ ...note, mint: other })
  expect(errorOf(down.chain.send(elsewhere))).toBe('payout_mismatch')
  for (const one of [note, foreign]) landed(down.paying(one))
  expect([down.received(note), down.received(foreign)]).toEqual([40_000n, 9_000n])
  expect(down.vault.balance(down.chain.mintRecord(other).vault_token)).toBe(41_000n)
})

test('a destination that cannot receive keeps the claim open; its owner signs another', () => {
  const { down, note } = frozen()
  landed(down.claiming(note))
  down.passTo(2)
  const { destination, owner, mint } = note
  const owned = { owner: owner.key, mint }
  const states: [string, () => void][] = [
    ['frozen', () => down.vault.setToken(destination, { ...owned, state: 'frozen' })],
    ['missing', () => down.chain.setAccount(destination, new Uint8Array(), bytes32('system'), 0n)],
    ['of another mint', () => down.vault.setToken(destination, { ...owned, mint: bytes32('other mint') })],
    ['of another token program', () => down.vault.setToken(destination, owned, TOKEN_2022_PROGRAM)],
    [
      'too large',
      () => {
        const large = new Uint8Array(1_025)
        large.set(tokenBytes(owned))
        down.chain.setAccount(destination, large, TOKEN_2022_PROGRAM)
      },
    ],
  ]
  for (const [name, spoil] of states) {
    spoil()
    expect([name, errorOf(down.paying(note))]).toEqual([name, 'destination_unusable'])
  }
  const vault_account = down.chain.account(down.vault.vault_token)!
  const usable = bytes32('usable')
  down.vault.setToken(usable, owned)
  expect(errorOf(down.chain.send(down.redirection(note, usable, 2)))).toBe('wrong_sequence')
  expect(errorOf(down.chain.send(without(down.redirection(note, usable), 0)))).toBe('missing_signature')
  const thief = { ...note, owner: down.challenger }
  expect(errorOf(down.chain.send(down.redirection(thief, usable)))).toBe('wrong_address')
  landed(down.chain.send(down.redirection(note, down.vault.vault_token)))
  expect(errorOf(down.paying(note))).toBe('destination_unusable')
  const { events } = landed(down.chain.send(down.redirection(note, usable, 2)))
  const { nullifier } = note
  expect(events).toEqual([{ kind: 'escape_redirected', nullifier, sequence: 2, destination: usable }])
  expect(errorOf(down.chain.send(down.redirection(note, destination, 2)))).toBe('wrong_sequence')
  const stopped = tokenBytes({ mint, owner: down.chain.vault.config, amount: 40_000n, state: 'frozen' })
  down.chain.setAccount(down.vault.vault_token, stopped, down.vault.depositOf(1n, usable).token_program)
  expect(errorOf(down.paying(note))).toBe('destination_unusable')
  down.chain.setAccount(
    down.vault.vault_token,
    vault_account.data,
    down.vault.depositOf(1n, usable).token_program,
  )
  landed(down.paying(note))
  expect(down.vault.balance(usable)).toBe(40_000n)
})

test('lamports sent to the claim’s address beforehand block nothing and add nothing to the bond', () => {
  const { down, note } = frozen()
  const address = claimEscapeInstruction(down.claimOf(note)).accounts[6]!.address
  down.chain.svm.airdrop(addressOf(address), 5_000_000n as never)
  landed(down.claiming(note))
  const rent = down.chain.svm.minimumBalanceForRentExemption(200n)
  expect(down.claimAccount(note)!.lamports).toBe(rent + ESCAPE_BOND)
})

test('a served exit is cancelled by the batch that served it, whether or not its request is closed', () => {
  const down = new WindDown()
  const [note, served] = [down.deposit(40_000n), down.deposit(5_000n)]
  down.request(served)
  const { destination, nullifier } = served
  const payout = { ...down.vault.withdrawal(5_000n, destination, EXIT_REFUND), nullifier }
  down.vault.settle({ nullifiers: [served.nullifier], payouts: [payout] })
  down.freeze(note)
  landed(down.claiming(served))
  landed(down.challenging(served))
  down.vault.pay()
  expect(down.received(served)).toBe(5_000n)
})

test('nullifiers of 1,000 batches of a signer void no claim', () => {
  const down = new WindDown()
  const note = down.deposit(40_000n)
  for (let batch = 0; batch < 1_000; batch++)
    down.vault.settle({ nullifiers: elements(`arbitrary ${batch}`, 1 + (batch % 3)) })
  down.freeze(note)
  landed(down.claiming(note))
  for (const batch of [1, 500, 1_000]) {
    const challenge = challengeEscapeInstruction(down.challengeOf(note, batch))
    expect(errorOf(down.chain.send(challenge))).toBe('invalid_spent_proof')
  }
  down.passTo(2)
  landed(down.paying(note))
  expect(down.received(note)).toBe(40_000n)
}, 180_000)

test('every account that changes must be writable', () => {
  const { down, note, spent } = frozen()
  const closed = (instruction: VaultInstruction): string[] =>
    instruction.accounts.flatMap((account, place) => {
      if (!account.writable) return []
      const accounts = instruction.accounts.map((one, at) =>
        at === place ? { ...one, writable: false } : one,
      )
      return [down.chain.outcome({ ...instruction, accounts })]
    })
  const times = (count: number): string[] => Array.from({ length: count }, () => 'not_writable')
  expect(closed(claimEscapeInstruction(down.claimOf(note)))).toEqual(times(3))
  for (const one of [note, spent]) landed(down.claiming(one))
  expect(closed(challengeEscapeInstruction(down.challengeOf(spent)))).toEqual(times(3))
  expect(closed(down.redirection(note, bytes32('elsewhere')))).toEqual(times(1))
  down.passTo(2)
  expect(closed(down.payment(note))).toEqual(times(5))
})

test('the program, the system program and the state accounts are no others', () => {
  const { down, note, spent } = frozen()
  const replaced = (instruction: VaultInstruction, places: readonly number[]): string[] =>
    places.map((place) => {
      const address = bytes32('stranger')
      const accounts = instruction.accounts.map((one, at) => (at === place ? { ...one, address } : one))
      return down.chain.outcome({ ...instruction, accounts })
    })
  const [other, foreign] = ['wrong_address', 'wrong_owner']
  const claim = claimEscapeInstruction(down.claimOf(note))
  expect(replaced(claim, [2, 3, 4, 5, 7, 8])).toEqual([foreign, other, other, foreign, other, other])
  for (const one of [note, spent]) landed(down.claiming(one))
  const challenge = challengeEscapeInstruction(down.challengeOf(spent))
  expect(replaced(challenge, [1, 2, 3, 4, 5, 6])).toEqual([foreign, other, other, foreign, foreign, other])
  const redirect = down.redirection(note, bytes32('elsewhere'))
  expect(replaced(redirect, [1, 2, 3])).toEqual([foreign, foreign, other])
  down.passTo(2)
  const places = [0, 1, 2, 3, 4, 5, 7]
  expect(replaced(down.payment(note), places)).toEqual([
    foreign,
    other,
    foreign,
    other,
    other,
    other,
    foreign,
  ])
})

test('an instruction with bytes behind its data or without its last one is refused', () => {
  const { down, note, spent } = frozen()
  for (const one of [note, spent]) landed(down.claiming(one))
  const fresh = frozen()
  const tried: [WindDown, VaultInstruction][] = [
    [fresh.down, claimEscapeInstruction(fresh.down.claimOf(fresh.note))],
    [down, challengeEscapeInstruction(down.challengeOf(spent))],
    [down, down.redirection(note, bytes32('elsewhere'))],
    [down, down.payment(note)],
  ]
  for (const [{ chain }, instruction] of tried) {
    const { data, accounts } = instruction
    expect(chain.outcome({ ...instruction, data: Uint8Array.of(...data, 0) })).toBe('invalid_data')
    expect(chain.outcome({ ...instruction, data: data.slice(0, -1) })).toBe('invalid_data')
    expect(chain.outcome({ ...instruction, accounts: accounts.slice(0, -1) })).toBe('missing_accounts')
  }
})

test('a pause stops neither claims nor challenges nor payments', () => {
  const { down, note, spent } = frozen()
  const { program, admin } = down.vault
  landed(down.chain.send(pauseInstruction({ program, admin: admin.key })))
  for (const one of [note, spent]) landed(down.claiming(one))
  landed(down.challenging(spent))
  down.passTo(2)
  landed(down.paying(note))
  expect(down.received(note)).toBe(40_000n)
})
