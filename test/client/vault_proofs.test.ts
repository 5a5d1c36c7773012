/** Proofs are made from public history and only when it leads to the very roots the vault has. */

import { expect, test } from 'bun:test'
import type { VaultState } from '../../client/chain/read_vault'
import { ProofUnavailable, VaultProofs } from '../../client/exit/vault_proofs'
import { compareBytes, equalBytes, isZero, toHex } from '../../protocol/bytes'
import { MerkleTree, rootFromPath } from '../../protocol/notes/merkle_tree'
import { nullifierOf } from '../../protocol/notes/notes'
import { SpentTree, spentLeaf } from '../../protocol/notes/spent_tree'
import { type MadeNote, ToldHistory } from './told_history'

/** What the vault's accounts say after `history`, with one earlier note state in the ring. */
function vaultAfter(history: ToldHistory, ring_leaf_count: number): VaultState {
  const { leaves, nullifier_batches } = history.read()
  const rootOf = (leaf_count: number) => {
    const tree = new MerkleTree()
    tree.append(leaves.slice(0, leaf_count))
    return { leaf_count, root: tree.root() }
  }
  const spent = new SpentTree()
  spent.insertBatches(nullifier_batches)
  const { spent_count } = spent
  const config = { spent_count, spent_root: spent.root(), last_batch: nullifier_batches.length }
  const ring = { states: [{ slot: 1, ...rootOf(ring_leaf_count) }], spent_roots: [] }
  return { slot: 9, config, tree: rootOf(leaves.length), ring } as unknown as VaultState
}

function played() {
  const history = new ToldHistory()
  const [first, second] = [history.deposit(0, 0), history.deposit(0, 1)]
  const output = history.output(0, 0, { j: 0, role: 0 })
  history.settle([first], [output])
  const last = history.deposit(0, 2)
  return { history, first, second, output, last, vault: vaultAfter(history, 3) }
}
const nullifier = (note: MadeNote): Uint8Array => nullifierOf(note.commitment, note.blinding)
function reasonOf(prove: () => unknown): string {
  try {
    prove()
    return 'proven'
  } catch (error) {
    if (error instanceof ProofUnavailable) return error.reason
    throw error
  }
}

test('a note is shown under a state of the ring where that covers it, else under the tree as it is', () => {
  const { history, output, last, vault } = played()
  const proofs = new VaultProofs(history.read(), vault)
  for (const [note, cited] of [
    [output, vault.ring.states[0]!],
    [last, vault.tree],
  ] as const) {
    const proof = proofs.inclusion(note.commitment)
    expect(proof.cited_leaf_count).toBe(cited.leaf_count)
    const reached = rootFromPath(note.commitment, proof.leaf_index, proof.siblings)
    expect([toHex(reached), toHex(proof.cited_root)]).toEqual([toHex(cited.root), toHex(cited.root)])
  }
  const final = proofs.finalInclusion(output.commitment)
  expect(toHex(rootFromPath(output.commitment, final.leaf_index, final.siblings))).toBe(
    toHex(vault.tree.root),
  )
  expect(reasonOf(() => proofs.inclusion(nullifier(last)))).toBe('not_in_tree')
})

test('absence is shown by the spent leaf below, and never for a spent or escaped note', () => {
  const { history, first, second, vault } = played()
  const proofs = new VaultProofs(history.read(), vault)
  const { low_value, low_next, low_index, siblings } = proofs.absence(nullifier(second))
  const reached = rootFromPath(spentLeaf(low_value, low_next), low_index, siblings)
  expect(equalBytes(reached, vault.config.spent_root)).toBe(true)
  expect(compareBytes(low_value, nullifier(second))).toBeLessThan(0)
  expect(isZero(low_next) || compareBytes(nullifier(second), low_next) < 0).toBe(true)
  expect(reasonOf(() => proofs.absence(nullifier(first)))).toBe('spent')
  const { commitment, amount } = second
  const escaped = { nullifier: nullifier(second), mint: commitment, amount, destination: commitment }
  history.events.push({ kind: 'escaped', ...escaped })
  const after = new VaultProofs(history.read(), vault)
  expect(reasonOf(() => after.absence(nullifier(second)))).toBe('spent')
})

test('a history that ends early, or lies about a note, gives no proof', () => {
  const { history, output, vault } = played()
  new VaultProofs(history.read(), vault).check()
  const whole = [...history.events]
  history.events.pop()
  expect(reasonOf(() => new VaultProofs(history.read(), vault).check())).toBe('history_differs')
  history.events.pop()
  const short = new VaultProofs(history.read(), vault)
  expect(reasonOf(() => short.absence(nullifier(output)))).toBe('history_differs')
  history.events.splice(0, history.events.length, ...whole)
  const [deposited] = history.events
  if (deposited?.kind === 'deposited') history.events[0] = { ...deposited, commitment: deposited.inner }
  const lied = new VaultProofs(history.read(), vault)
  expect(reasonOf(() => lied.inclusion(output.commitment))).toBe('history_differs')
})
