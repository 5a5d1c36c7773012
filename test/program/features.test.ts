/** The program does the same under every feature of a cluster, and fails on random data by a numbered or token error alone. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { FeatureSet } from 'litesvm'
import { decodeBase58 } from '../../protocol/base58'
import { closeExitInstruction, requestExitInstruction } from '../../protocol/vault/exits'
import { settleInstruction } from '../../protocol/vault/settle'
import { ExitNote } from '../kit/vault/exit_note'
import { bytes32, element, elements, landed, OpenVault, outputsOf } from '../kit/vault/open_vault'

/** A deposit, an exit and withdrawals of which one is refunded, from the opening to the returned bond. */
function story(features?: FeatureSet) {
  const note = new ExitNote('deposit')
  const { vault, nullifier, opening, destination } = note
  const { chain, program } = vault
  if (features !== undefined) chain.svm.withFeatureSet(features)
  vault.deposit(9_000n, elements('inner', 1)[0]!)
  landed(chain.send(requestExitInstruction(note.requestOf(chain.payer.key))))
  const withdrawals = [destination, bytes32('nowhere')].map((to) => vault.withdrawal(700n, to))
  const nullifiers = [nullifier, ...elements('n', 2)].sort(Buffer.compare)
  const outputs = outputsOf(elements('c', 4))
  const batch = vault.settle({ nullifiers, outputs, payouts: [note.payout(), ...withdrawals] })
  const outcomes = vault.pay().map(({ outcome }) => outcome)
  expect(outcomes).toEqual(['paid', 'paid', 'destination_missing'])
  expect(vault.balance(destination)).toBe(opening.amount + 700n)
  landed(chain.send(closeExitInstruction({ program, nullifier, bond_payer: chain.payer.key })))
  expect(chain.tree()).toMatchObject({ root: vault.tree.root(), spent_root: vault.spent.root() })
  return { kind: batch.kind, payouts: batch.payouts, tree: chain.tree() }
}

test('every feature active', () => {
  const features = FeatureSet.allEnabled()
  // litesvm 1.5.0 runs no program at all with it.
  features.deactivate(decodeBase58('7VgiehxNxu53KdxgLspGQY8myE6f7UokaWa4jsGcaSz', 32)!)
  expect(story(features)).toEqual(story())
})

const NAMED = /^[a-z_]+$/

test('random data on a plausible account list is refused by name', () => {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000n, element('inner'))
  const { accounts } = settleInstruction(vault.batchOf({ outputs: outputsOf(elements('c', 2)) }))
  const shape = fc.record({
    instruction: fc.integer({ min: 0, max: 25 }),
    data: fc.uint8Array({ maxLength: 400 }),
    count: fc.integer({ min: 0, max: accounts.length }),
  })
  fc.assert(
    fc.property(shape, ({ instruction, data, count }) => {
      const sent = {
        program: vault.program,
        accounts: accounts.slice(0, count),
        data: Uint8Array.of(instruction, ...data),
      }
      const outcome = vault.chain.outcome(sent, vault.signer)
      expect(outcome).toMatch(NAMED)
      expect(outcome).not.toBe('landed')
    }),
    { numRuns: 300 },
  )
})

test('one flipped byte of a batch either is refused by name or changes something nobody can check', () => {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000n, element('inner'))
  const good = settleInstruction(
    vault.batchOf({ nullifiers: elements('n', 2), outputs: outputsOf(elements('c', 2)) }),
  )
  // Journal and the values themselves are the signer's word; the rest of the header is checked.
  const free = (at: number): boolean => at >= 57 && (at < 97 || at >= 101)
  fc.assert(
    fc.property(fc.nat({ max: good.data.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const data = good.data.slice()
      data[at]! ^= flip
      const outcome = vault.chain.outcome({ ...good, data }, vault.signer)
      expect(outcome).toMatch(NAMED)
      if (!free(at)) expect([at, outcome]).not.toEqual([at, 'landed'])
    }),
    { numRuns: 300 },
  )
})
