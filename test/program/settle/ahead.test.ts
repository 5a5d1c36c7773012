/** Batches that were built before their predecessors landed: what lets a relayer send several at once. */
import { expect, test } from 'bun:test'
import type { SettleFields } from '../../../protocol/vault/settle'
import {
  element,
  elements,
  errorOf,
  isKnownState,
  landed,
  OpenVault,
  outputsOf,
} from '../../kit/vault/open_vault'

const AHEAD = 8

/** Consecutive batches that all cite one state, built from what the chain holds now. */
function batchesAhead(vault: OpenVault, state: { leaf_count: number; root: Uint8Array }): SettleFields[] {
  const first = vault.batchOf()
  return Array.from({ length: AHEAD }, (_, at) => ({
    ...vault.batchOf({ nullifiers: elements(`n ${at}`, 3), outputs: outputsOf(elements(`c ${at}`, 6)) }),
    batch: first.batch + at,
    journal_seq: first.journal_seq + at,
    cited_leaf_count: state.leaf_count,
    cited_root: state.root,
  }))
}

function vaultWithKeptState(): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000n, element('first'))
  vault.chain.setTime(1_100, 1_800_000_000)
  vault.deposit(5_000n, element('second'))
  return vault
}

test('batches that cite one kept state land one after the other in one slot', () => {
  const vault = vaultWithKeptState()
  const kept = vault.chain.ring().states.at(-1)!
  for (const batch of batchesAhead(vault, kept)) landed(vault.send(batch))
  expect(vault.chain.config().last_batch).toBe(AHEAD)
})

test('a batch that overtakes its predecessor is refused, and lands behind it', () => {
  const vault = vaultWithKeptState()
  const [first, second] = batchesAhead(vault, vault.chain.ring().states.at(-1)!)
  expect(errorOf(vault.send(second!))).toBe('batch_out_of_sequence')
  landed(vault.send(first!))
  landed(vault.send(second!))
})

test('a batch that cites the newest state must be cited again once its predecessor landed', () => {
  const vault = vaultWithKeptState()
  const newest = vault.chain.tree()
  const [first, second] = batchesAhead(vault, newest)
  landed(vault.send(first!))
  expect(isKnownState(newest, vault.chain.tree(), vault.chain.ring())).toBe(false)
  expect(errorOf(vault.send(second!))).toBe('unknown_state')
})
