/** The ring of known states: earlier states stay citable for at least 2,048 slots, one entry per 16 slots. */
import { expect, test } from 'bun:test'
import { isKnownState } from '../../protocol/vault/accounts'
import { element, elements, errorOf, landed, OpenVault, outputsOf } from '../kit/vault/open_vault'

const START = { slot: 1_000, unix_s: 1_800_000_000 }

function running(): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  return vault
}

const stateOf = (vault: OpenVault): { leaf_count: number; root: Uint8Array } => vault.chain.tree()

test('the state left is kept, unless the newest kept one is younger than 16 slots', () => {
  const vault = running()
  const empty = stateOf(vault)
  vault.deposit(1_000n, element('a'))
  const one = stateOf(vault)
  expect(vault.chain.ring().states).toEqual([{ slot: START.slot, leaf_count: 0, root: empty.root }])
  vault.chain.setTime(START.slot + 15, START.unix_s)
  vault.deposit(1_000n, element('b'))
  expect(vault.chain.ring().states).toHaveLength(1)
  expect(isKnownState(one, vault.chain.tree(), vault.chain.ring())).toBe(false)
  vault.chain.setTime(START.slot + 16, START.unix_s)
  const two = stateOf(vault)
  vault.deposit(1_000n, element('c'))
  expect(vault.chain.ring().states[1]).toEqual({ slot: START.slot + 16, leaf_count: 2, root: two.root })
})

test('a kept state can be cited, one that was passed over cannot', () => {
  const vault = running()
  const cite = (state: { leaf_count: number; root: Uint8Array }): string => {
    const { leaf_count, root } = state
    const outputs = outputsOf(elements(`c ${leaf_count} ${vault.chain.config().last_batch}`, 1))
    return errorOf(vault.send(vault.batchOf({ outputs, cited_leaf_count: leaf_count, cited_root: root })))
  }
  const empty = stateOf(vault)
  vault.deposit(1_000n, element('a'))
  const one = stateOf(vault)
  vault.deposit(1_000n, element('b'))
  expect(cite(one)).toBe('unknown_state')
  expect(cite(empty)).toBe('landed')
})

test('the ring keeps the newest 128 states and forgets the oldest', () => {
  const vault = running()
  const first = stateOf(vault)
  const roots: Uint8Array[] = []
  for (let index = 0; index < 130; index++) {
    vault.chain.setTime(START.slot + 16 * index, START.unix_s)
    roots.push(stateOf(vault).root)
    landed(vault.send(vault.batchOf({ outputs: outputsOf([element(`c ${index}`)]) })))
  }
  const { states } = vault.chain.ring()
  expect(states.map(({ root }) => root)).toEqual(roots.slice(2))
  expect(states.map(({ leaf_count }) => leaf_count)).toEqual(Array.from({ length: 128 }, (_, at) => at + 2))
  const batch = vault.batchOf({ outputs: outputsOf(elements('late', 1)) })
  const cited = { ...batch, cited_leaf_count: first.leaf_count, cited_root: first.root }
  expect(errorOf(vault.send(cited))).toBe('unknown_state')
  const oldest = states[0]!
  landed(vault.send({ ...batch, cited_leaf_count: oldest.leaf_count, cited_root: oldest.root }))
})

test('the last 32 spent roots are kept, and only batches that spend count', () => {
  const vault = running()
  const roots: Uint8Array[] = []
  for (let index = 0; index < 34; index++) {
    roots.push(vault.chain.config().spent_root)
    vault.settle({ nullifiers: elements(`n ${index}`, 1) })
    vault.settle({ outputs: outputsOf(elements(`c ${index}`, 1)) })
  }
  expect(vault.chain.ring().spent_roots).toEqual(roots.slice(2))
})
