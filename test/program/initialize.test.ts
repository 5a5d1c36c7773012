/** A vault comes to life once, by its deployer, and only where an escape could land. */

import { expect, test } from 'bun:test'
import { EMPTY_SUBTREES } from '../../protocol/notes/merkle_tree'
import { EMPTY_SPENT_ROOT } from '../../protocol/notes/spent_tree'
import { INITIALIZE_BYTES, type InitializeFields, initializeInstruction } from '../../protocol/vault/admin'
import { ESCAPE_BYTES, REQUEST_EXIT_BYTES } from '../../protocol/vault/exits'
import { errorOf, landed } from '../kit/vault/open_vault'
import { testKey, VaultChain } from '../kit/vault/vault_chain'

const [admin, signer] = [testKey('admin').key, testKey('signer').key]

function fieldsOf(chain: VaultChain): InitializeFields {
  const { program, payer } = chain
  const program_data = chain.programData()
  return {
    program,
    deployer: payer.key,
    program_data,
    admin,
    settlement_signer: signer,
    exit_delay_s: 604_800,
  }
}

test('a new vault has empty trees, generation 0 and no epoch', () => {
  const chain = new VaultChain()
  landed(chain.send(initializeInstruction(fieldsOf(chain))))
  const config = chain.config()
  expect(config).toMatchObject({ admin, settlement_signer: signer, exit_delay_s: 604_800, generation: 0 })
  expect(config).toMatchObject({ epoch: 0, last_batch: 0, mint_count: 0, paused: false, frozen: false })
  expect(config).toMatchObject({ spent_count: 0, spent_root: EMPTY_SPENT_ROOT })
  expect(chain.tree()).toMatchObject({ leaf_count: 0, root: EMPTY_SUBTREES[32]! })
  expect(chain.ring()).toEqual({ states: [], spent_roots: [] })
})

test('a vault cannot be initialized twice', () => {
  const chain = new VaultChain()
  landed(chain.send(initializeInstruction(fieldsOf(chain))))
  expect(errorOf(chain.send(initializeInstruction(fieldsOf(chain))))).toBe('already_initialized')
})

test('lamports sent ahead to its addresses do not block it', () => {
  const chain = new VaultChain()
  chain.fund({ ...testKey('nobody'), key: chain.vault.config }, 1n)
  landed(chain.send(initializeInstruction(fieldsOf(chain))))
})

test('only the upgrade authority initializes', () => {
  const chain = new VaultChain()
  const thief = chain.fund(testKey('thief'))
  const forged = initializeInstruction({ ...fieldsOf(chain), deployer: thief.key })
  expect(errorOf(chain.send(forged, thief))).toBe('not_deployer')
  chain.setUpgradeAuthority(undefined)
  expect(errorOf(chain.send(initializeInstruction(fieldsOf(chain))))).toBe('not_deployer')
})

test('a program data account of the deployer’s own making proves nothing', () => {
  const chain = new VaultChain()
  const thief = chain.fund(testKey('thief'))
  const own = testKey('own data').key
  const { data, owner } = chain.account(chain.programData())!
  expect(owner).toBe('BPFLoaderUpgradeab1e11111111111111111111111')
  data.set(thief.key, 13)
  chain.setAccount(own, data, thief.key)
  const forged = initializeInstruction({ ...fieldsOf(chain), deployer: thief.key, program_data: own })
  expect(errorOf(chain.send(forged, thief))).toBe('wrong_address')
})

test('its data is larger than any transaction but a v1 one, and than what an escape needs', () => {
  expect(INITIALIZE_BYTES).toBeGreaterThan(1_232)
  expect(INITIALIZE_BYTES).toBeGreaterThan(ESCAPE_BYTES)
  expect(REQUEST_EXIT_BYTES).toBe(1_178)
  const chain = new VaultChain()
  const good = initializeInstruction(fieldsOf(chain))
  expect(errorOf(chain.send({ ...good, data: good.data.slice(0, 73) }))).toBe('invalid_data')
})

test('zero keys and a delay outside of its range are refused', () => {
  const chain = new VaultChain()
  const send = (fields: Partial<InitializeFields>): string =>
    errorOf(chain.send(initializeInstruction({ ...fieldsOf(chain), ...fields })))
  expect(send({ exit_delay_s: 0 })).toBe('invalid_data')
  expect(send({ exit_delay_s: 31_536_001 })).toBe('invalid_data')
  expect(send({ admin: new Uint8Array(32) })).toBe('invalid_data')
  expect(send({ settlement_signer: new Uint8Array(32) })).toBe('invalid_data')
})

test('its accounts must be the derived ones', () => {
  for (const place of [1, 2, 3, 4, 6]) {
    const chain = new VaultChain()
    const sent = initializeInstruction(fieldsOf(chain))
    sent.accounts[place]!.address = testKey('elsewhere').key
    expect([place, errorOf(chain.send(sent))]).toEqual([place, 'wrong_address'])
  }
})

test('unknown instructions and events from outside are refused', () => {
  const chain = new VaultChain()
  landed(chain.send(initializeInstruction(fieldsOf(chain))))
  const send = (
    data: Uint8Array,
    accounts = [{ address: chain.vault.config, signer: false, writable: false }],
  ) => errorOf(chain.send({ program: chain.program, accounts, data }))
  expect(send(Uint8Array.of(15))).toBe('unknown_instruction')
  expect(send(new Uint8Array())).toBe('unknown_instruction')
  expect(send(Uint8Array.of(255, 1))).toBe('not_emitter')
  expect(send(Uint8Array.of(255, 1), [{ address: chain.payer.key, signer: true, writable: false }])).toBe(
    'wrong_owner',
  )
})
