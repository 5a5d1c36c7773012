/** The public history is read whole or not at all, explained by the commands that spent its notes, and proved from. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import fc from 'fast-check'
import { openChainReader } from '../../client/chain/chain_access'
import { readProofs } from '../../client/chain/exit_note'
import { readVaultHistory } from '../../client/chain/read_history'
import { NotAVault, type VaultState } from '../../client/chain/read_vault'
import { ProofUnavailable, rebuildLog, VaultProofs } from '../../client/exit/prepare_exit'
import { nullifierOfNote } from '../../client/wallet/absorb'
import { Spending } from '../../client/wallet/recover'
import { HistoryIncomplete, vaultHistory } from '../../client/wallet/vault_history'
import { Wallet } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { MerkleTree, spentLogLeaf } from '../../protocol/notes/merkle_tree'
import { nullifierOf } from '../../protocol/notes/notes'
import type { RpcFault } from '../../sandbox/chain/machine'
import { rootFromPath, spentRootFromPath } from '../kit/root_from_path'
import { elements } from '../kit/vault/open_vault'
import { CliSite } from './cli_site'
import { LyingNode } from './lying_node'
import { type MadeNote, ToldHistory } from './told_history'

let site: CliSite
let program_id: string
/** Of each batch. */
const nullifiers: Uint8Array[][] = []
const outputs: Uint8Array[][] = []

beforeAll(async () => {
  site = await CliSite.open()
  program_id = site.program_id
  const notes = await site.deposit(new Wallet(bytes(32)), 5_000n, 6_000n, 7_000n)
  for (const [batch, note] of notes.entries()) {
    nullifiers.push([nullifierOfNote(note)])
    outputs.push(elements(`batch ${batch}`, 2))
    const made = outputs[batch]!.map((commitment) => ({ commitment, memo: bytes(16) }))
    await site.signer.settle({ nullifiers: nullifiers[batch]!, outputs: made })
  }
}, 120_000)
afterAll(() => site.close())

const chain = () => openChainReader(site.chain.url)
/** Reads while requests of the node end as `fault` says. */
async function readUnder(fault: (method: string) => RpcFault | undefined) {
  site.chain.faults.rpc = fault
  try {
    return await readVaultHistory(chain(), program_id)
  } finally {
    site.chain.faults.rpc = undefined
  }
}
const bytes = (count: number) => crypto.getRandomValues(new Uint8Array(count))
const failureOf = (answer: Promise<unknown>): Promise<unknown> =>
  answer.then(
    () => 'done',
    (error: unknown) => error,
  )

test('leaves, batches and outputs of real transactions are all there, in their order', async () => {
  const history = await readVaultHistory(chain(), program_id)
  const made = outputs.flat().map(toHex)
  expect(history.leaves.slice(3).map(toHex)).toEqual(made)
  expect(history.nullifier_batches).toEqual(nullifiers)
  const told = [...history.outputs_by_tag.values()].flat().map(({ commitment }) => toHex(commitment))
  expect(told.sort()).toEqual(made.sort())
  expect([...history.program_notes.values()].flat().map(({ amount }) => amount)).toEqual([
    5_000n,
    6_000n,
    7_000n,
  ])
  expect(history.mints).toHaveLength(1)
})

test('a history of many pages is the same as one of a single page', async () => {
  const whole = await readVaultHistory(chain(), program_id)
  for (const page_size of [1, 2, 3])
    expect(await readVaultHistory(chain(), program_id, { page_size })).toEqual(whole)
})

test('a node that answers 429 and 503 in between is asked again', async () => {
  const whole = await readVaultHistory(chain(), program_id)
  let asked = 0
  const history = await readUnder(() => {
    asked += 1
    return asked % 3 === 1 ? { status: asked % 2 === 0 ? 429 : 503 } : undefined
  })
  expect(history).toEqual(whole)
  expect(asked).toBeGreaterThan(7)
})

test('a node that always refuses is not asked endlessly', async () => {
  const refused = await failureOf(readUnder(() => ({ error: { code: -32_602, message: 'no' } })))
  expect(refused).toBeInstanceOf(Error)
})

test('the gap of a history is named from its first to its last entry', () => {
  const none = { first_leaf_index: 0, outputs: [], payouts: [], nullifiers: [], spent_count: 0 }
  const settled = (batch: number) => ({ kind: 'settled', batch, ...none }) as never
  const deposited = { kind: 'deposited', leaf_index: 3, inner: bytes(32), commitment: bytes(32) } as never
  const partOf = (...events: never[]): string => {
    try {
      return `${vaultHistory(events).leaves.length} leaves`
    } catch (error) {
      return (error as HistoryIncomplete).facts.part
    }
  }
  expect(partOf(settled(1), settled(5))).toBe('settlement batch 2 to 4')
  expect(partOf(settled(3), settled(1))).toBe('settlement batch 2')
  expect(partOf(settled(2))).toBe('settlement batch 1')
  expect(partOf(deposited)).toBe('leaf 0 to 2')
  expect(partOf(settled(1))).toBe('0 leaves')
})

test('a transaction that is listed and not served makes the history incomplete', async () => {
  const stored = site.chain.machine.store.transaction.bind(site.chain.machine.store)
  let served = 0
  site.chain.machine.store.transaction = (signature) => (served++ === 3 ? undefined : stored(signature))
  const failed = await failureOf(readVaultHistory(chain(), program_id))
  site.chain.machine.store.transaction = stored
  expect(failed).toBeInstanceOf(HistoryIncomplete)
})

test('a transaction that a fork let fail after it was listed has no events', async () => {
  const node = new LyingNode(site.chain.url)
  node.lies = {
    getTransaction: (told) => {
      const found = told as { meta: { err: unknown } }
      return { ...found, meta: { ...found.meta, err: { InstructionError: [0, { Custom: 1 }] } } }
    },
  }
  expect((await readVaultHistory(openChainReader(node.url), program_id)).leaves).toEqual([])
  await node.stop()
})

test('without a vault there is nothing to prove', async () => {
  expect(await failureOf(readProofs(chain(), encodeBase58(bytes(32))))).toBeInstanceOf(NotAVault)
  expect(await failureOf(readProofs(chain(), 'not an address'))).toBeInstanceOf(RangeError)
})

/** Inputs of each command in one batch; 0 is a fill or withdrawal, which spends one note. */
const commands = fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 1, maxLength: 14 })
const MINTS = ['a', 'b']

type Told = (spending: Spending) => void
/** Every amount is another power of two, so no other notes sum to a reshape. */
function told(inputs: readonly number[], batch: number): { notes: Told[]; made: Told[] } {
  let at = 0
  const notes: Told[] = []
  const made = inputs.map((count, command): Told => {
    const mint = MINTS[command % 2]!
    const amounts = Array.from({ length: Math.max(1, count) }, () => 1n << BigInt(at++))
    for (const amount of amounts) notes.push((spending) => spending.note(batch, { mint, amount }))
    if (count === 0) return (spending) => spending.single(batch)
    const sum = amounts.reduce((total, amount) => total + amount, 0n)
    return (spending) => spending.reshape(batch, mint, sum)
  })
  return { notes, made }
}
function unexplained(all: readonly Told[]): readonly number[] {
  const spending = new Spending()
  for (const tell of all) tell(spending)
  return spending.unexplained
}

test('all commands explain all notes in any order, and none can be missing', () => {
  fc.assert(
    fc.property(commands, commands, fc.nat(), fc.boolean(), (one, other, gone, turned) => {
      const [first, second] = [told(one, 1), told(other, 2)]
      const all = [...first.notes, ...second.notes, ...second.made, ...first.made]
      expect(unexplained(turned ? all.toReversed() : all)).toEqual([])
      const lost = first.made[gone % first.made.length]!
      expect(unexplained(all.filter((tell) => tell !== lost))).toEqual([1])
      const unknown = first.notes[gone % first.notes.length]!
      expect(unexplained(all.filter((tell) => tell !== unknown))).toEqual([1])
    }),
    { numRuns: 300 },
  )
})

test('equal amounts cost no search', () => {
  const spending = new Spending()
  for (let at = 0; at < 53; at++) spending.note(1, { mint: 'a', amount: 1_000n })
  for (let at = 0; at < 13; at++) spending.reshape(1, 'a', 4_000n)
  // One note is left for a command that is not known.
  expect(spending.unexplained).toEqual([1])
  expect(spending.lacksCommand).toBe(true)
  spending.single(1)
  expect(spending.unexplained).toEqual([])
})

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
  const newer = new VaultProofs(history.read(), vaultAfter(history, [kept, stateOf(history)]))
  expect(newer.inclusion(output.commitment).cited_leaf_count).toBe(vault.tree.leaf_count)
  const behind = history.deposit(0, 3)
  const known = new VaultProofs(history.read(), vault)
  expect(reasonOf(() => known.inclusion(behind.commitment))).toBe('not_in_tree')
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

test('a vault that counts more nullifiers than its batches have gives no proof', () => {
  const { history, vault } = played()
  const config = { ...vault.config, spent_count: vault.config.spent_count + 1 }
  expect(reasonOf(() => new VaultProofs(history.read(), { ...vault, config }).check())).toBe(
    'history_differs',
  )
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
    { ...vault, config: { ...vault.config, last_batch: 3 } },
  ])
    expect(proofs.covers(other)).toBe(false)
})
