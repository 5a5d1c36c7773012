/** A vault comes to life once, by its deployer, and with empty trees and an empty payout queue. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { address } from '@solana/kit'
import { addressOf } from '../../engine/chain/client/chain_client'
import { venueId } from '../../protocol/bodies/venue_id'
import { toHex } from '../../protocol/bytes'
import { EMPTY_SPENT_SUBTREES, EMPTY_SUBTREES } from '../../protocol/notes/merkle_tree'
import { ACCOUNT_BYTES } from '../../protocol/vault/accounts'
import { type InitializeFields, initializeInstruction } from '../../protocol/vault/admin'
import { EXIT_DELAY_S, errorOf, GENESIS_HASH, initializationOf, landed } from '../kit/vault/open_vault'
import { testKey, VAULT_SO, VaultChain } from '../kit/vault/vault_chain'

const admin = testKey('admin').key

test('a new vault has empty trees, generation 0 and no epoch', () => {
  const chain = new VaultChain()
  landed(chain.send(initializeInstruction(initializationOf(chain))))
  const config = chain.config()
  expect(config).toMatchObject({
    admin,
    settlement_signer: new Uint8Array(32),
    exit_delay_s: EXIT_DELAY_S,
    generation: 0,
  })
  expect(config).toMatchObject({ epoch: 0, last_batch: 0, mint_count: 0, paused: false, frozen: false })
  expect(config).toMatchObject({ spent_count: 0, settled_leaf_count: 0, commit_seq: 0, outage_at_s: 0 })
  const { program, tree, ring, queue } = chain.vault
  expect(config).toMatchObject({ tree, ring, queue, genesis_hash: GENESIS_HASH })
  const parts = { genesis_hash: GENESIS_HASH, program_id: program, config_account: chain.vault.config }
  expect(config.venue).toEqual(venueId({ ...parts, generation: 0 }))
  const roots = { root: EMPTY_SUBTREES[40]!, spent_root: EMPTY_SPENT_SUBTREES[40]! }
  expect(chain.tree()).toMatchObject({ leaf_count: 0, ...roots })
  expect(chain.ring()).toEqual({ states: [] })
  expect(chain.queue()).toEqual({ next_number: 1, capacity: 60, entries: [] })
  expect(chain.account(queue)!.data).toHaveLength(ACCOUNT_BYTES.queue)
})

test('a vault cannot be initialized twice', () => {
  const chain = new VaultChain()
  landed(chain.send(initializeInstruction(initializationOf(chain))))
  expect(errorOf(chain.send(initializeInstruction(initializationOf(chain))))).toBe('already_initialized')
})

test('lamports sent ahead to its addresses do not block it', () => {
  const chain = new VaultChain()
  chain.fund({ ...testKey('nobody'), key: chain.vault.config }, 1n)
  landed(chain.send(initializeInstruction(initializationOf(chain))))
})

test('only the upgrade authority initializes', () => {
  const chain = new VaultChain()
  const thief = chain.fund(testKey('thief'))
  const forged = initializeInstruction({ ...initializationOf(chain), deployer: thief.key })
  expect(errorOf(chain.send(forged, thief))).toBe('not_deployer')
  chain.setUpgradeAuthority(undefined)
  expect(errorOf(chain.send(initializeInstruction(initializationOf(chain))))).toBe('not_deployer')
})

test('a program data account of the deployer’s own making proves nothing', () => {
  const chain = new VaultChain()
  const thief = chain.fund(testKey('thief'))
  const own = testKey('own data').key
  const { data, owner } = chain.account(chain.programData())!
  expect(owner).toBe('BPFLoaderUpgradeab1e11111111111111111111111')
  data.set(thief.key, 13)
  chain.setAccount(own, data, thief.key)
  const forged = initializeInstruction({ ...initializationOf(chain), deployer: thief.key, program_data: own })
  expect(errorOf(chain.send(forged, thief))).toBe('wrong_address')
})

test('under the loader that changes no program there is no authority to ask for', () => {
  const open = () => {
    const chain = new VaultChain()
    const loader = address('BPFLoader2111111111111111111111111111111111')
    chain.svm.addProgramWithLoader(addressOf(chain.program), VAULT_SO, loader)
    return { chain, anyone: chain.fund(testKey('anyone')) }
  }
  const by = ({ chain, anyone }: ReturnType<typeof open>, program_data: Uint8Array) =>
    chain.send(
      initializeInstruction({ ...initializationOf(chain), deployer: anyone.key, program_data }),
      anyone,
    )
  const [one, other] = [open(), open()]
  landed(by(one, one.chain.program))
  expect(errorOf(by(other, other.anyone.key))).toBe('wrong_address')
})

test('the program knows the empty subtrees of both trees', () => {
  const source = readFileSync(join(import.meta.dir, '../../program/src/tree/empty_subtrees.rs'), 'utf8')
  const roots = [...source.matchAll(/^ {4}([0-9a-f]{64})/gm)].map(([, digits]) => digits)
  expect(roots).toEqual([...EMPTY_SUBTREES, ...EMPTY_SPENT_SUBTREES].map(toHex))
})

test('data of another length is refused', () => {
  const chain = new VaultChain()
  const good = initializeInstruction(initializationOf(chain))
  for (const data of [good.data.slice(0, -1), Uint8Array.of(...good.data, 0)])
    expect(errorOf(chain.send({ ...good, data }))).toBe('invalid_data')
})

test('zero keys, a zero genesis hash and a delay outside of its range are refused', () => {
  const chain = new VaultChain()
  const send = (fields: Partial<InitializeFields>): string =>
    errorOf(chain.send(initializeInstruction({ ...initializationOf(chain), ...fields })))
  expect(send({ exit_delay_s: 0 })).toBe('invalid_data')
  expect(send({ exit_delay_s: 31_536_001 })).toBe('invalid_data')
  expect(send({ admin: new Uint8Array(32) })).toBe('invalid_data')
  expect(send({ genesis_hash: new Uint8Array(32) })).toBe('invalid_data')
})

test('its accounts must be the derived ones', () => {
  for (const place of [1, 2, 3, 4, 5, 7]) {
    const chain = new VaultChain()
    const sent = initializeInstruction(initializationOf(chain))
    sent.accounts[place]!.address = testKey('elsewhere').key
    expect([place, errorOf(chain.send(sent))]).toEqual([place, 'wrong_address'])
  }
})

test('unknown instructions and events from outside are refused', () => {
  const chain = new VaultChain()
  landed(chain.send(initializeInstruction(initializationOf(chain))))
  const send = (
    data: Uint8Array,
    accounts = [{ address: chain.vault.config, signer: false, writable: false }],
  ) => errorOf(chain.send({ program: chain.program, accounts, data }))
  for (const retired of [3, 9, 10]) expect(send(Uint8Array.of(retired))).toBe('unknown_instruction')
  expect(send(new Uint8Array())).toBe('unknown_instruction')
  expect(send(Uint8Array.of(255, 1))).toBe('not_emitter')
  const emitter = chain.fund(testKey('emitter'))
  const signing = [{ address: emitter.key, signer: true, writable: false }]
  for (const size of [ACCOUNT_BYTES.config, 8, ACCOUNT_BYTES.config + 8]) {
    chain.setAccount(emitter.key, new Uint8Array(size), chain.program)
    expect(send(Uint8Array.of(255, 1), signing)).toBe('wrong_account')
  }
  const { data } = chain.account(chain.vault.config)!
  chain.setAccount(emitter.key, Uint8Array.of(...data, 0), chain.program)
  expect(send(Uint8Array.of(255, 1), signing)).toBe('wrong_account')
  expect(send(Uint8Array.of(255, 1), [{ address: chain.payer.key, signer: true, writable: false }])).toBe(
    'wrong_owner',
  )
})
