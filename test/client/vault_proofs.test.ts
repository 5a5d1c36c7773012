/** Proofs are built from a history that has been compared with the vault, and lead to the roots they cite. */

import { expect, test } from 'bun:test'
import type { VaultState } from '../../client/chain/read_vault'
import { ProofUnavailable, rebuildLog, VaultProofs } from '../../client/exit/vault_proofs'
import { HistoryIncomplete } from '../../client/wallet/vault_history'
import { toHex } from '../../protocol/bytes'
import { MerkleTree, spentLogLeaf } from '../../protocol/notes/merkle_tree'
import { nullifierOf } from '../../protocol/notes/notes'
import { rootFromPath, spentRootFromPath } from '../kit/root_from_path'
import { type MadeNote, ToldHistory } from './told_history'

/** State of both trees as an account or the ring would hold it. */
function stateOf(history: ToldHistory) {
  const { leaves, nullifier_batches } = history.read()
  const tree = new MerkleTree()
  tree.append(leaves)
  const { log } = rebuildLog(nullifier_batches, { states: [] })
  return { slot: 1, leaf_count: leaves.length, root: tree.root(), spent_root: log.root() }
}

/** The vault's accounts after `history`, with earlier states in the ring. */
function vaultAfter(history: ToldHistory, states: ReturnType<typeof stateOf>[]): VaultState {
  const batches = history.read().nullifier_batches
  const spent_count = batches.reduce((sum, { length }) => sum + length, 0)
  const config = { spent_count, last_batch: batches.length }
  return { slot: 9, config, tree: stateOf(history), ring: { states } } as unknown as VaultState
}

function played() {
  const history = new ToldHistory()
  const [first, second] = [history.deposit(0, 0), history.deposit(0, 1)]
  const output = history.output(0, 0, { j: 0, role: 0 })
  history.settle([first], [output])
  const kept = stateOf(history)
  const last = history.deposit(0, 2)
  history.settle([last], [])
  return { history, first, second, output, last, kept, vault: vaultAfter(history, [kept]) }
}
const nullifier = (note: MadeNote): Uint8Array => nullifierOf(note.commitment, note.blinding)
function reasonOf(prove: () => unknown): string {
  try {
    prove()
    return 'proven'
  } catch (error) {
    if (error instanceof ProofUnavailable) return error.facts.reason
    throw error
  }
}

test('a note is shown under a state of the ring where that covers it, else under the tree as it is', () => {
  const { history, output, last, kept, vault } = played()
  const proofs = new VaultProofs(history.read(), vault)
  for (const [note, cited] of [
    [output, kept],
    [last, vault.tree],
  ] as const) {
    const proof = proofs.inclusion(note.commitment)
    expect(proof.cited_leaf_count).toBe(cited.leaf_count)
    const reached = rootFromPath(note.commitment, proof.leaf_index, proof.siblings)
    expect([toHex(reached), toHex(proof.cited_root)]).toEqual([toHex(cited.root), toHex(cited.root)])
  }
  expect(reasonOf(() => proofs.inclusion(nullifier(last)))).toBe('not_in_tree')
})

test('a spent note is shown by its batch, under a spent root of the ring where that covers it', () => {
  const { history, first, second, last, kept, vault } = played()
  const proofs = new VaultProofs(history.read(), vault)
  for (const [note, cited] of [
    [first, kept],
    [last, vault.tree],
  ] as const) {
    const { cited_spent_root, batch, nullifiers, path } = proofs.spending(nullifier(note))
    expect(nullifiers.map(toHex)).toContain(toHex(nullifier(note)))
    const reached = spentRootFromPath(spentLogLeaf(batch, nullifiers), batch - 1, path)
    expect([toHex(reached), toHex(cited_spent_root)]).toEqual([
      toHex(cited.spent_root),
      toHex(cited.spent_root),
    ])
    expect(reasonOf(() => proofs.requireUnspent(nullifier(note)))).toBe('spent')
  }
  expect(reasonOf(() => proofs.spending(nullifier(second)))).toBe('not_spent')
  expect(reasonOf(() => proofs.requireUnspent(nullifier(second)))).toBe('proven')
})

test('a history that ends early, or lies about a note or a nullifier, gives no proof', () => {
  const { history, output, second, vault } = played()
  new VaultProofs(history.read(), vault).check()
  const whole = [...history.events]
  const proofs = () => new VaultProofs(history.read(), vault)
  history.events.pop()
  expect(() => proofs().check()).toThrow('lacks settlement batch 2:')
  expect(() => proofs().requireUnspent(nullifier(second))).toThrow(HistoryIncomplete)
  history.events.splice(-1)
  expect(() => proofs().check()).toThrow('lacks leaf 3:')
  history.events.splice(1)
  expect(() => proofs().inclusion(output.commitment)).toThrow(ProofUnavailable)
  expect(() => proofs().check()).toThrow('lacks leaf 1 to 3:')
  history.events.splice(0, whole.length, ...whole)
  const settled = whole.findIndex(({ kind }) => kind === 'settled')
  const batch = whole[settled]!
  if (batch.kind === 'settled')
    history.events.splice(
      0,
      whole.length,
      ...whole.with(settled, { ...batch, nullifiers: [nullifier(second)] }),
    )
  expect(reasonOf(() => proofs().check())).toBe('history_differs')
  const [deposited] = whole
  if (deposited?.kind !== 'deposited') throw new Error('the first event is no deposit')
  const told = (change: object) =>
    history.events.splice(0, whole.length, ...whole.with(0, { ...deposited, ...change }))
  told({ commitment: deposited.inner })
  expect(reasonOf(() => proofs().inclusion(output.commitment))).toBe('history_differs')
  // The leaf stays, its owner would not find it.
  for (const change of [{ inner: deposited.commitment }, { amount: 7n }, { mint: deposited.inner }]) {
    told(change)
    expect(reasonOf(() => proofs().check())).toBe('history_differs')
  }
})

test('another reading of the accounts is covered only where both trees are of the history, and no longer than it', () => {
  const { history, kept, vault } = played()
  const proofs = new VaultProofs(history.read(), vault)
  const reading = (change: Partial<typeof kept> = {}, last_batch = 1) =>
    ({ tree: { ...kept, ...change }, config: { last_batch } }) as unknown as VaultState
  expect([proofs.covers(reading()), proofs.covers(vault)]).toEqual([true, true])
  for (const other of [
    reading({ root: vault.tree.root }),
    reading({ spent_root: vault.tree.spent_root }),
    reading({ leaf_count: vault.tree.leaf_count + 1 }),
    reading({}, 3),
  ])
    expect(proofs.covers(other)).toBe(false)
})
