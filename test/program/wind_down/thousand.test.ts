/** A whole wind-down: 1,000 notes are claimed, a tenth of them were spent before; watchers cancel those. */
import { expect, test } from 'bun:test'
import { loadNativePoseidon } from '../../../native/load_poseidon'
import { installPoseidon } from '../../../protocol/notes/poseidon'
import { challengeEscapeInstruction } from '../../../protocol/vault/exits'
import { errorOf, landed } from '../../kit/vault/open_vault'
import { ESCAPE_BOND, type OwnedNote, WindDown } from '../../kit/vault/wind_down'

const NOTES = 1_000
const PER_BATCH = 50

const native = loadNativePoseidon()
if (native) installPoseidon(native)

test('every owner is paid in full and every false claim is refused', () => {
  const down = new WindDown()
  const amounts = Array.from({ length: NOTES }, (_, at) => BigInt(1 + ((at * 7_919) % 10_007)))
  const backing = down.deposit(amounts.reduce((sum, one) => sum + one, 0n))
  const notes: OwnedNote[] = []
  for (let at = 0; at < NOTES; at += PER_BATCH)
    notes.push(...down.settle(amounts.slice(at, at + PER_BATCH), at === 0 ? [backing] : []))
  const isFalse = (at: number): boolean => at % 10 === 3
  const spent = notes.filter((_, at) => isFalse(at))
  const moved: OwnedNote[] = []
  for (let at = 0; at < spent.length; at += PER_BATCH) {
    const inputs = spent.slice(at, at + PER_BATCH)
    moved.push(...down.settle([inputs.reduce((sum, { opening }) => sum + opening.amount, 0n)], inputs))
  }
  const honest = [...notes.filter((_, at) => !isFalse(at)), ...moved]
  down.freeze(honest[1]!)
  for (const note of [...notes, ...moved]) landed(down.claiming(note))
  down.passTo(1)
  const before = down.held(down.challenger.key)
  for (const note of notes) {
    const { batch } = down.challengeOf(note)
    const isSpent = batch > NOTES / PER_BATCH && spent.includes(note)
    if (isSpent) landed(down.challenging(note))
  }
  for (const note of honest.slice(0, 5)) {
    const challenge = challengeEscapeInstruction(down.challengeOf(note, NOTES / PER_BATCH + 1))
    expect(errorOf(down.chain.send(challenge))).toBe('invalid_spent_proof')
  }
  expect(down.held(down.challenger.key)).toBe(before + BigInt(spent.length) * ESCAPE_BOND)
  down.passTo(2)
  for (const note of spent) expect(errorOf(down.paying(note))).toBe('claim_closed')
  for (const note of honest) landed(down.paying(note))
  expect(honest.map((note) => down.received(note))).toEqual(honest.map(({ opening }) => opening.amount))
  expect(spent.every((note) => down.received(note) === 0n)).toBe(true)
  expect(down.vault.balance(down.vault.vault_token)).toBe(0n)
  expect(down.chain.mintRecord(down.vault.mint)).toMatchObject({ liabilities: 0n, window_owed: 0n })
}, 120_000)
