/** A settlement batch lands once, in order, on a known state, and the chain computes the root of its leaves. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { SETTLE_LIMITS } from '../../../protocol/limits'
import { CONFIG, TREE } from '../../../protocol/vault/accounts'
import { pauseInstruction, unpauseInstruction } from '../../../protocol/vault/admin'
import { type SettleFields, settleDataBytes, settleInstruction } from '../../../protocol/vault/settle'
import {
  bytes32,
  element,
  elements,
  errorOf,
  isKnownState,
  landed,
  OpenVault,
  outputsOf,
  runningVault,
} from '../../kit/vault/open_vault'
import { testKey } from '../../kit/vault/vault_chain'

test('a batch appends its outputs and a leaf of the spent log, stores the journal head and says so in one event', () => {
  const vault = runningVault()
  const [nullifiers, outputs] = [elements('n', 2), outputsOf(elements('c', 4))]
  const event = vault.settle({ nullifiers, outputs })
  expect(event).toMatchObject({ kind: 'settled', batch: 1, epoch: 1, first_leaf_index: 1, spent_count: 2 })
  expect(event).toMatchObject({ nullifiers, outputs, payouts: [], note_root: vault.tree.root() })
  expect(event.spent_root).toEqual(vault.spent.root())
  const spent_root = vault.spent.root()
  expect(vault.chain.tree()).toMatchObject({ leaf_count: 5, root: vault.tree.root(), spent_root })
  expect(vault.chain.config()).toMatchObject({
    last_batch: 1,
    journal_seq: 1,
    journal_head: bytes32('head 1'),
    spent_count: 2,
    settled_leaf_count: 5,
  })
})

test('any sequence of deposits and batches gives the roots of the protocol’s trees', () => {
  const step = fc.oneof(
    fc.constant({ outputs: 0 }),
    fc.record({ outputs: fc.integer({ min: 1, max: 9 }), nullifiers: fc.integer({ min: 0, max: 3 }) }),
  )
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 6 }), (steps) => {
      const vault = runningVault()
      steps.forEach((parts, index) => {
        if (!('nullifiers' in parts)) vault.deposit(1_000n, element(`inner ${index}`))
        else {
          const outputs = outputsOf(elements(`c${index}`, parts.outputs))
          vault.settle({ nullifiers: elements(`n${index}`, parts.nullifiers), outputs })
        }
        const tree = vault.chain.tree()
        expect(tree.root).toEqual(vault.tree.root())
        expect(tree.leaf_count).toBe(vault.tree.leaf_count)
        expect(tree.spent_root).toEqual(vault.spent.root())
      })
    }),
    { numRuns: 12 },
  )
})

test('28 orders with two outputs each fit one v1 transaction and its compute budget', () => {
  const vault = runningVault()
  const parts = { nullifiers: elements('n', 28), outputs: outputsOf(elements('c', 56)) }
  const { bytes, units } = vault.settle(parts)
  expect(settleDataBytes(28, 56, 0)).toBe(3_685)
  // A separate fee payer adds a signature and an address.
  expect(bytes + 96).toBeLessThanOrEqual(4_072)
  expect(Number(units)).toBeLessThan(1_400_000)
  expect(vault.chain.tree().root).toEqual(vault.tree.root())
})

test('a batch cannot land twice, nor can one be skipped', () => {
  const vault = runningVault()
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 2)) })
  landed(vault.send(batch))
  expect(errorOf(vault.send(batch))).toBe('batch_out_of_sequence')
  expect(errorOf(vault.send({ ...batch, batch: 3 }))).toBe('batch_out_of_sequence')
})

test('an epoch that is not current fences its instance', () => {
  const vault = runningVault()
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 2)) })
  landed(vault.openEpoch())
  expect(errorOf(vault.send(batch))).toBe('not_settlement_signer')
  const settlement_signer = vault.signer.key
  expect(errorOf(vault.send({ ...batch, settlement_signer }))).toBe('stale_epoch')
  expect(errorOf(vault.send({ ...batch, settlement_signer, epoch: 3 }))).toBe('stale_epoch')
  landed(vault.send({ ...batch, settlement_signer, epoch: 2 }))
})

test('before the first epoch nothing settles', () => {
  const vault = new OpenVault()
  for (const epoch of [0, 1]) {
    const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)), epoch })
    expect(errorOf(vault.send(batch))).toBe('not_settlement_signer')
  }
})

test('only the settlement signer settles', () => {
  const vault = runningVault()
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)) })
  const thief = vault.chain.fund(testKey('thief'))
  const forged = { ...batch, settlement_signer: thief.key }
  expect(errorOf(vault.chain.send(settleInstruction(forged), thief))).toBe('not_settlement_signer')
  const unsigned = settleInstruction(batch)
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
})

test('a state the vault never had is refused, and so is a wrong count for a right root', () => {
  const vault = runningVault()
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)) })
  expect(errorOf(vault.send({ ...batch, cited_root: bytes32('root') }))).toBe('unknown_state')
  expect(errorOf(vault.send({ ...batch, cited_leaf_count: 2 }))).toBe('unknown_state')
})

test('nullifiers and commitments must ascend strictly and be field elements', () => {
  const vault = runningVault()
  const [first, second] = elements('x', 2) as [Uint8Array, Uint8Array]
  const tooLarge = new Uint8Array(32).fill(0xff)
  const cases: [Uint8Array[], string][] = [
    [[second, first], 'not_ascending'],
    [[first, first], 'not_ascending'],
    [[new Uint8Array(32), first], 'not_ascending'],
    [[first, tooLarge], 'not_field_element'],
  ]
  const batch = vault.batchOf()
  for (const [values, error] of cases) {
    expect(errorOf(vault.send({ ...batch, nullifiers: values }))).toBe(error)
    expect(errorOf(vault.send({ ...batch, outputs: outputsOf(values) }))).toBe(error)
  }
})

test('an older journal position is ignored, and one position has one head', () => {
  const vault = runningVault()
  vault.settle({ journal_seq: 10, journal_head: bytes32('ten') })
  const stored = { journal_seq: 10, journal_head: bytes32('ten') }
  expect(errorOf(vault.send(vault.batchOf({ journal_seq: 10 })))).toBe('journal_conflict')
  landed(vault.send(vault.batchOf({ journal_seq: 9 })))
  landed(vault.send(vault.batchOf(stored)))
  expect(vault.chain.config()).toMatchObject(stored)
})

test('an empty batch appends its leaf to the spent log and no note', () => {
  const vault = runningVault()
  const before = vault.chain.tree()
  vault.settle({})
  const { spent_root, ...notes } = vault.chain.tree()
  expect(notes).toMatchObject({ leaf_count: before.leaf_count, root: before.root })
  expect(spent_root).toEqual(vault.spent.root())
  expect(spent_root).not.toEqual(before.spent_root)
})

test('no more nullifiers or outputs than the limits', () => {
  const vault = runningVault()
  const outcome = (nullifiers: number, outputs: number): string => {
    const parts = { nullifiers: elements('n', nullifiers), outputs: outputsOf(elements('c', outputs)) }
    const { program, accounts, data } = settleInstruction(vault.batchOf(parts))
    return vault.chain.outcome({ program, accounts, data }, vault.signer)
  }
  expect(outcome(SETTLE_LIMITS.nullifiers, 0)).toBe('landed')
  expect(outcome(SETTLE_LIMITS.nullifiers + 1, 0)).toBe('invalid_data')
  expect(outcome(0, SETTLE_LIMITS.outputs)).toBe('landed')
  expect(outcome(0, SETTLE_LIMITS.outputs + 1)).toBe('invalid_data')
})

test('a full note tree and a full spent log take nothing more', () => {
  const vault = runningVault()
  const { chain, program } = vault
  const outcome = (leaf_count: number, last_batch: number, outputs: number): string => {
    chain.setAccount(chain.vault.tree, TREE.encode({ ...chain.tree(), leaf_count }), program)
    chain.setAccount(chain.vault.config, CONFIG.encode({ ...chain.config(), last_batch }), program)
    const batch = settleInstruction(vault.batchOf({ outputs: outputsOf(elements('c', outputs)) }))
    return chain.outcome(batch, vault.signer)
  }
  expect(outcome(2 ** 40 - 2, 0, 2)).toBe('landed')
  expect(outcome(2 ** 40 - 1, 0, 2)).toBe('tree_full')
  expect(outcome(2 ** 40, 0, 0)).toBe('landed')
  expect(outcome(0, 2 ** 40 - 1, 1)).toBe('landed')
  expect(outcome(0, 2 ** 40, 1)).toBe('tree_full')
})

test('data of another length and another number of accounts are refused', () => {
  const vault = runningVault()
  const good = settleInstruction(vault.batchOf({ outputs: outputsOf(elements('c', 2)) }))
  const cut = { ...good, data: good.data.slice(0, -1) }
  expect(errorOf(vault.chain.send(cut, vault.signer))).toBe('invalid_data')
  const long = { ...good, data: new Uint8Array([...good.data, 0]) }
  expect(errorOf(vault.chain.send(long, vault.signer))).toBe('invalid_data')
  const more = { ...good, accounts: [...good.accounts, good.accounts[4]!] }
  expect(errorOf(vault.chain.send(more, vault.signer))).toBe('missing_accounts')
  const fewer = { ...good, accounts: good.accounts.slice(0, 4) }
  expect(errorOf(vault.chain.send(fewer, vault.signer))).toBe('missing_accounts')
})

test('the state accounts must be those of this vault, writable, each in its place', () => {
  const vault = runningVault()
  const good = settleInstruction(vault.batchOf({ outputs: outputsOf(elements('c', 2)) }))
  for (const place of [1, 2, 3]) {
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, writable: false } : one))
    expect(errorOf(vault.chain.send({ ...good, accounts }, vault.signer))).toBe('not_writable')
  }
  const { config, tree, ring } = vault.chain.vault
  for (const [place, address, error] of [
    [1, tree, 'wrong_account'],
    [2, ring, 'wrong_address'],
    [3, config, 'wrong_address'],
    [2, config, 'wrong_address'],
  ] as const) {
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, address } : one))
    expect(errorOf(vault.chain.send({ ...good, accounts }, vault.signer))).toBe(error)
  }
  for (const [place, source] of [
    [1, config],
    [2, tree],
    [3, ring],
  ] as const) {
    const copy = bytes32(`copy ${place}`)
    vault.chain.setAccount(copy, vault.chain.account(source)!.data, vault.program)
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, address: copy } : one))
    expect(errorOf(vault.chain.send({ ...good, accounts }, vault.signer))).toBe('wrong_address')
  }
})

test('a paused vault settles nothing until it is unpaused', () => {
  const vault = runningVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)) })
  landed(vault.chain.send(pauseInstruction(admin)))
  expect(errorOf(vault.send(batch))).toBe('vault_paused')
  landed(vault.chain.send(unpauseInstruction(admin)))
  landed(vault.send(batch))
})

const AHEAD = 8

/** Consecutive batches that all cite one state, built from the chain's present content. */
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

test('a batch keeps the state that it leaves', () => {
  const vault = vaultWithKeptState()
  vault.chain.setTime(1_200, 1_800_000_000)
  const left = vault.chain.tree()
  vault.settle({ outputs: outputsOf(elements('c', 2)) })
  expect(isKnownState(left, vault.chain.tree(), vault.chain.ring())).toBe(true)
})
