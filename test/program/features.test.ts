/** The program does the same under the features of mainnet and under every feature that a cluster may activate. */
import { expect, test } from 'bun:test'
import { FeatureSet } from 'litesvm'
import { decodeBase58 } from '../../protocol/base58'
import { closeExitInstruction, requestExitInstruction } from '../../protocol/vault/exits'
import { ExitNote } from '../kit/vault/exit_note'
import { bytes32, elements, landed, outputsOf } from '../kit/vault/open_vault'

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
