/** The ring of known states: earlier states stay citable for at least 2,160 slots, one entry per 18 slots. */
import { expect, test } from 'bun:test'
import { EMPTY_SPENT_SUBTREES } from '../../../protocol/notes/merkle_tree'
import {
  bytes32,
  element,
  elements,
  errorOf,
  isKnownState,
  landed,
  type OpenVault,
  outputsOf,
  runningVault,
} from '../../kit/vault/open_vault'

const EMPTY = EMPTY_SPENT_SUBTREES[40]!
const START = { slot: 1_000, unix_s: 1_800_000_000 }

const stateOf = (vault: OpenVault) => vault.chain.tree()

test('the state left is kept, unless the newest kept one is younger than 18 slots', () => {
  const vault = runningVault(0n)
  const empty = stateOf(vault)
  vault.deposit(1_000n, element('a'))
  const one = stateOf(vault)
  expect(vault.chain.ring().states).toEqual([
    { slot: START.slot, leaf_count: 0, root: empty.root, spent_root: EMPTY },
  ])
  vault.chain.setTime(START.slot + 17, START.unix_s)
  vault.deposit(1_000n, element('b'))
  expect(vault.chain.ring().states).toHaveLength(1)
  expect(isKnownState(one, vault.chain.tree(), vault.chain.ring())).toBe(false)
  vault.chain.setTime(START.slot + 18, START.unix_s)
  const two = stateOf(vault)
  vault.deposit(1_000n, element('c'))
  expect(vault.chain.ring().states[1]).toEqual({
    slot: START.slot + 18,
    leaf_count: 2,
    root: two.root,
    spent_root: EMPTY,
  })
})

test('a kept state can be cited, one that was passed over cannot', () => {
  const vault = runningVault(0n)
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

test('the ring keeps the newest 120 states and forgets the oldest', () => {
  const vault = runningVault(0n)
  const first = stateOf(vault)
  const roots: Uint8Array[] = []
  for (let index = 0; index < 122; index++) {
    vault.chain.setTime(START.slot + 18 * index, START.unix_s)
    roots.push(stateOf(vault).root)
    landed(vault.send(vault.batchOf({ outputs: outputsOf([element(`c ${index}`)]) })))
  }
  const { states } = vault.chain.ring()
  expect(states.map(({ root }) => root)).toEqual(roots.slice(2))
  expect(states.map(({ leaf_count }) => leaf_count)).toEqual(Array.from({ length: 120 }, (_, at) => at + 2))
  const batch = vault.batchOf({ outputs: outputsOf(elements('late', 1)) })
  const cited = { ...batch, cited_leaf_count: first.leaf_count, cited_root: first.root }
  expect(errorOf(vault.send(cited))).toBe('unknown_state')
  const oldest = states[0]!
  landed(vault.send({ ...batch, cited_leaf_count: oldest.leaf_count, cited_root: oldest.root }))
})

test('a batch without notes leaves a state too, and every kept state has its spent root', () => {
  const vault = runningVault(0n)
  const roots: Uint8Array[] = []
  for (let index = 0; index < 3; index++) {
    vault.chain.setTime(START.slot + 18 * index, START.unix_s)
    roots.push(stateOf(vault).spent_root)
    vault.settle({ nullifiers: elements(`n ${index}`, 1) })
  }
  const { states } = vault.chain.ring()
  expect(states.map(({ spent_root }) => spent_root)).toEqual(roots)
  expect(states.map(({ leaf_count }) => leaf_count)).toEqual([0, 0, 0])
})

test('a refund leaves a state like a deposit', () => {
  const vault = runningVault(5_000n)
  vault.chain.setTime(START.slot + 18, START.unix_s)
  vault.settle({ payouts: [vault.withdrawal(1_000n, bytes32('nowhere'))] })
  vault.chain.setTime(START.slot + 36, START.unix_s)
  const { leaf_count, root, spent_root } = stateOf(vault)
  vault.pay()
  const slot = START.slot + 36
  expect(vault.chain.ring().states.at(-1)).toEqual({ slot, leaf_count, root, spent_root })
})
