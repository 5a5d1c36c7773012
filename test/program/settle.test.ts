/** A settlement batch lands once, in order, on a known state, and the chain computes the root of what it appends. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { pauseInstruction, unpauseInstruction } from '../../protocol/vault/admin'
import { settleDataBytes, settleInstruction } from '../../protocol/vault/settle'
import { bytes32, element, elements, errorOf, landed, OpenVault, outputsOf } from '../kit/vault/open_vault'
import { testKey } from '../kit/vault/vault_chain'

const inner = element('inner')

function running(): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(50_000n, inner)
  return vault
}

test('a batch appends its outputs, stores spent root and journal head and says so in one event', () => {
  const vault = running()
  const [nullifiers, outputs] = [elements('n', 2), outputsOf(elements('c', 4))]
  const event = vault.settle({ nullifiers, outputs })
  expect(event).toMatchObject({ kind: 'settled', batch: 1, epoch: 1, first_leaf_index: 1, spent_count: 2 })
  expect(event).toMatchObject({ nullifiers, outputs, payouts: [], note_root: vault.tree.root() })
  expect(event.spent_root).toEqual(vault.spent.root())
  expect(vault.chain.tree()).toMatchObject({ leaf_count: 5, root: vault.tree.root() })
  const config = vault.chain.config()
  expect(config).toMatchObject({
    last_batch: 1,
    journal_seq: 1,
    journal_head: bytes32('head 1'),
    spent_count: 2,
  })
  expect(config.spent_root).toEqual(vault.spent.root())
})

test('any sequence of deposits and batches gives the roots of the protocol tree', () => {
  const step = fc.oneof(
    fc.constant({ outputs: 0 }),
    fc.record({ outputs: fc.integer({ min: 1, max: 9 }), nullifiers: fc.integer({ min: 0, max: 3 }) }),
  )
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 6 }), (steps) => {
      const vault = running()
      steps.forEach((parts, index) => {
        if (!('nullifiers' in parts)) vault.deposit(1_000n, element(`inner ${index}`))
        else {
          const outputs = outputsOf(elements(`c${index}`, parts.outputs))
          vault.settle({ nullifiers: elements(`n${index}`, parts.nullifiers), outputs })
        }
        const tree = vault.chain.tree()
        expect(tree.root).toEqual(vault.tree.root())
        expect(tree.leaf_count).toBe(vault.tree.leaf_count)
        expect(vault.chain.config().spent_root).toEqual(vault.spent.root())
      })
    }),
    { numRuns: 12 },
  )
})

test('28 orders with two outputs each fit one v1 transaction and its compute budget', () => {
  const vault = running()
  const parts = { nullifiers: elements('n', 28), outputs: outputsOf(elements('c', 56)) }
  const { bytes, units } = vault.settle(parts)
  expect(settleDataBytes(28, 56, 0)).toBe(3_717)
  expect(bytes).toBeLessThanOrEqual(4_096)
  expect(Number(units)).toBeLessThan(1_400_000)
  expect(vault.chain.tree().root).toEqual(vault.tree.root())
})

test('a batch cannot land twice, nor can one be skipped', () => {
  const vault = running()
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 2)) })
  landed(vault.send(batch))
  expect(errorOf(vault.send(batch))).toBe('batch_out_of_sequence')
  expect(errorOf(vault.send({ ...batch, batch: 3 }))).toBe('batch_out_of_sequence')
})

test('an epoch that is not current fences its instance', () => {
  const vault = running()
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 2)) })
  landed(vault.openEpoch())
  expect(errorOf(vault.send(batch))).toBe('stale_epoch')
  expect(errorOf(vault.send({ ...batch, epoch: 3 }))).toBe('stale_epoch')
  landed(vault.send({ ...batch, epoch: 2 }))
})

test('before the first epoch nothing settles', () => {
  const vault = new OpenVault()
  expect(errorOf(vault.send(vault.batchOf({ outputs: outputsOf(elements('c', 1)) })))).toBe('stale_epoch')
})

test('only the settlement signer settles', () => {
  const vault = running()
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)) })
  const thief = vault.chain.fund(testKey('thief'))
  const forged = { ...batch, settlement_signer: thief.key }
  expect(errorOf(vault.chain.send(settleInstruction(forged), thief))).toBe('not_settlement_signer')
  const unsigned = settleInstruction(batch)
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
})

test('a state the vault never had is refused, and so is a wrong count for a right root', () => {
  const vault = running()
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)) })
  expect(errorOf(vault.send({ ...batch, cited_root: bytes32('root') }))).toBe('unknown_state')
  expect(errorOf(vault.send({ ...batch, cited_leaf_count: 2 }))).toBe('unknown_state')
})

test('nullifiers and commitments must ascend strictly and be field elements', () => {
  const vault = running()
  const [first, second] = elements('x', 2) as [Uint8Array, Uint8Array]
  const tooLarge = new Uint8Array(32).fill(0xff)
  const cases: [Uint8Array[], string][] = [
    [[second, first], 'not_ascending'],
    [[first, first], 'not_ascending'],
    [[new Uint8Array(32), first], 'not_field_element'],
    [[first, tooLarge], 'not_field_element'],
  ]
  const batch = vault.batchOf()
  for (const [values, error] of cases) {
    const spending = { ...batch, nullifiers: values, spent_root: element('spent') }
    expect(errorOf(vault.send(spending))).toBe(error)
    expect(errorOf(vault.send({ ...batch, outputs: outputsOf(values) }))).toBe(error)
  }
})

test('the spent root changes exactly when something is spent', () => {
  const vault = running()
  const outputs = outputsOf(elements('c', 1))
  const batch = vault.batchOf({ outputs })
  expect(errorOf(vault.send({ ...batch, spent_root: element('spent') }))).toBe('spent_root_mismatch')
  const unchanged = { ...batch, nullifiers: elements('n', 1) }
  expect(errorOf(vault.send(unchanged))).toBe('spent_root_mismatch')
  const foreign = { ...unchanged, spent_root: new Uint8Array(32).fill(0xff) }
  expect(errorOf(vault.send(foreign))).toBe('not_field_element')
})

test('the journal position never goes back and one position has one head', () => {
  const vault = running()
  const outputs = outputsOf(elements('c', 1))
  vault.settle({ outputs, journal_seq: 10, journal_head: bytes32('ten') })
  const batch = vault.batchOf({ outputs })
  expect(errorOf(vault.send({ ...batch, journal_seq: 9 }))).toBe('journal_regressed')
  expect(errorOf(vault.send({ ...batch, journal_seq: 10 }))).toBe('journal_conflict')
  landed(vault.send({ ...batch, journal_seq: 10, journal_head: bytes32('ten') }))
})

test('an empty batch and a batch of other length are refused', () => {
  const vault = running()
  expect(errorOf(vault.send(vault.batchOf()))).toBe('empty_batch')
  const good = settleInstruction(vault.batchOf({ outputs: outputsOf(elements('c', 2)) }))
  const cut = { ...good, data: good.data.slice(0, -1) }
  expect(errorOf(vault.chain.send(cut, vault.signer))).toBe('invalid_data')
  const long = { ...good, data: new Uint8Array([...good.data, 0]) }
  expect(errorOf(vault.chain.send(long, vault.signer))).toBe('invalid_data')
  const more = { ...good, accounts: [...good.accounts, good.accounts[4]!] }
  expect(errorOf(vault.chain.send(more, vault.signer))).toBe('missing_accounts')
})

test('the state accounts must be those of this vault, writable, each in its place', () => {
  const vault = running()
  const good = settleInstruction(vault.batchOf({ outputs: outputsOf(elements('c', 2)) }))
  for (const place of [1, 2, 3]) {
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, writable: false } : one))
    expect(errorOf(vault.chain.send({ ...good, accounts }, vault.signer))).toBe('not_writable')
  }
  const { config, tree, ring } = vault.chain.vault
  for (const [place, address] of [
    [1, tree],
    [2, ring],
    [3, config],
    [2, config],
  ] as const) {
    const accounts = good.accounts.map((one, index) => (index === place ? { ...one, address } : one))
    expect(errorOf(vault.chain.send({ ...good, accounts }, vault.signer))).toBe('wrong_account')
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
  const vault = running()
  const admin = { program: vault.program, admin: vault.admin.key }
  const batch = vault.batchOf({ outputs: outputsOf(elements('c', 1)) })
  landed(vault.chain.send(pauseInstruction(admin)))
  expect(errorOf(vault.send(batch))).toBe('vault_paused')
  landed(vault.chain.send(unpauseInstruction(admin)))
  landed(vault.send(batch))
})
