/** A vault begins once, a mint is registered once, and a deposit's commitment, leaf and root are the program's own. */

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { address } from '@solana/kit'
import { addressOf } from '../../engine/chain/client/chain_client'
import { venueId } from '../../protocol/bodies/statements'
import { toHex } from '../../protocol/bytes'
import { EMPTY_SPENT_SUBTREES, EMPTY_SUBTREES } from '../../protocol/notes/merkle_tree'
import { depositCommitment } from '../../protocol/notes/notes'
import { FIELD_MODULUS, fieldToBytes } from '../../protocol/notes/poseidon'
import { ACCOUNT_BYTES } from '../../protocol/vault/accounts'
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM, vaultTokenAddress } from '../../protocol/vault/addresses'
import {
  type InitializeFields,
  initializeInstruction,
  pauseInstruction,
  registerMintInstruction,
} from '../../protocol/vault/admin'
import { depositInstruction } from '../../protocol/vault/exits'
import {
  bytes32,
  EXIT_DELAY_S,
  element,
  errorOf,
  GENESIS_HASH,
  initializationOf,
  landed,
  MIN_DEPOSIT,
  MIN_EXIT,
  OpenVault,
  runningVault,
} from '../kit/vault/open_vault'
import { DECIMALS, mintBytes, testKey, VAULT_SO, VaultChain } from '../kit/vault/vault_chain'

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

const mint = bytes32('second mint')

function fieldsOf(vault: OpenVault): Parameters<typeof registerMintInstruction>[0] {
  const { program, admin, chain } = vault
  return {
    program,
    admin: admin.key,
    payer: chain.payer.key,
    mint,
    token_program: TOKEN_PROGRAM,
    min_deposit: MIN_DEPOSIT,
    min_exit: MIN_EXIT,
  }
}

test('a record and an empty vault token account come into being', () => {
  const vault = new OpenVault()
  landed(vault.registerMint(mint, { freeze_authority: bytes32('issuer') }))
  expect(vault.chain.mintRecord(mint)).toMatchObject({
    mint,
    token_program: TOKEN_PROGRAM,
    vault_token: vaultTokenAddress(vault.program, mint),
    decimals: DECIMALS,
    freezable: true,
    mint_index: 1,
    min_deposit: MIN_DEPOSIT,
    min_exit: MIN_EXIT,
    liabilities: 0n,
  })
  const token = vault.chain.account(vaultTokenAddress(vault.program, mint))!
  expect(toHex(token.data.slice(0, 32))).toBe(toHex(mint))
  expect(toHex(token.data.slice(32, 64))).toBe(toHex(vault.chain.vault.config))
  expect(vault.chain.mintRecord(vault.mint)).toMatchObject({ mint_index: 0, freezable: false })
  expect(vault.chain.config().mint_count).toBe(2)
})

test('a mint is registered once and by the admin alone', () => {
  const vault = new OpenVault()
  landed(vault.registerMint(mint))
  expect(errorOf(vault.registerMint(mint))).toBe('already_initialized')
  const thief = vault.chain.fund(testKey('thief'))
  const forged = registerMintInstruction({ ...fieldsOf(vault), admin: thief.key })
  expect(errorOf(vault.chain.send(forged))).toBe('not_admin')
  const unsigned = registerMintInstruction(fieldsOf(vault))
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
})

test('both minimums are at least one unit', () => {
  const vault = new OpenVault()
  vault.chain.setAccount(mint, mintBytes(), TOKEN_PROGRAM)
  const send = (fields: Partial<Parameters<typeof registerMintInstruction>[0]>): string =>
    errorOf(vault.chain.send(registerMintInstruction({ ...fieldsOf(vault), ...fields })))
  expect(send({ min_deposit: 0n })).toBe('invalid_data')
  expect(send({ min_exit: 0n })).toBe('invalid_data')
})

test('something that is not an initialized mint of the named token program is refused', () => {
  const vault = new OpenVault()
  expect(errorOf(vault.registerMint(mint, { initialized: false }))).toBe('mint_uninitialized')
  const register = (): string => errorOf(vault.chain.send(registerMintInstruction(fieldsOf(vault))))
  vault.setToken(mint, { owner: vault.trader.key })
  expect(register()).toBe('unsupported_mint')
  vault.chain.setAccount(mint, mintBytes(), TOKEN_2022_PROGRAM)
  expect(register()).toBe('wrong_owner')
  const other = registerMintInstruction({ ...fieldsOf(vault), token_program: bytes32('token') })
  expect(errorOf(vault.chain.send(other))).toBe('wrong_address')
})

describe('Token-2022 extensions', () => {
  const register = (type: number, size: number): string => {
    const extensions = [{ type, value: new Uint8Array(size) }]
    return errorOf(new OpenVault().registerMint(mint, { extensions }, TOKEN_2022_PROGRAM))
  }
  const refused: [string, number, number][] = [
    ['transfer fee', 1, 108],
    ['close authority', 3, 32],
    ['default account state', 6, 1],
    ['non-transferable', 9, 0],
    ['permanent delegate', 12, 32],
    ['transfer hook', 14, 64],
    ['pausable', 26, 33],
    ['an unknown one', 9_999, 4],
  ]
  for (const [name, type, size] of refused)
    test(`${name} is refused`, () => expect(register(type, size)).toBe('unsupported_mint'))

  test('a refused one hides behind no allowed one', () => {
    const extensions = [
      { type: 18, value: new Uint8Array(64) },
      { type: 12, value: new Uint8Array(32) },
    ]
    expect(errorOf(new OpenVault().registerMint(mint, { extensions }, TOKEN_2022_PROGRAM))).toBe(
      'unsupported_mint',
    )
  })

  test('an entry that claims more bytes than there are is refused', () => {
    const vault = new OpenVault()
    const bytes = mintBytes({ extensions: [{ type: 18, value: new Uint8Array(64) }] })
    vault.chain.setAccount(mint, bytes, TOKEN_2022_PROGRAM)
    const fields = { ...fieldsOf(vault), token_program: TOKEN_2022_PROGRAM }
    const outcome = (): string => vault.chain.outcome(registerMintInstruction(fields))
    expect(outcome()).toBe('landed')
    // Behind the account type byte: type u16, length u16.
    bytes[168] = 65
    vault.chain.setAccount(mint, bytes, TOKEN_2022_PROGRAM)
    expect(outcome()).toBe('unsupported_mint')
  })

  test('metadata, interest display and none at all are accepted', () => {
    expect(register(18, 64)).toBe('landed')
    expect(register(10, 52)).toBe('landed')
    expect(errorOf(new OpenVault().registerMint(mint, {}, TOKEN_2022_PROGRAM))).toBe('landed')
  })
})

const inner = element('inner')

test('a deposit moves the tokens, raises the liabilities and appends the note the protocol computes', () => {
  const vault = runningVault(0n)
  const sent = landed(vault.chain.send(depositInstruction(vault.depositOf(5_000n, inner))))
  const commitment = depositCommitment({ mint: vault.mint, amount: 5_000n, inner, leaf_index: 0 })
  vault.tree.append([commitment])
  expect(vault.balance(vault.vault_token)).toBe(5_000n)
  expect(vault.balance(vault.source)).toBe(1_000_000_000n - 5_000n)
  expect(vault.chain.mintRecord(vault.mint).liabilities).toBe(5_000n)
  expect(vault.chain.tree()).toMatchObject({ leaf_count: 1, root: vault.tree.root() })
  const event = {
    kind: 'deposited' as const,
    leaf_index: 0,
    mint: vault.mint,
    amount: 5_000n,
    inner,
    commitment,
    note_root: vault.tree.root(),
    depositor: vault.trader.key,
  }
  expect(sent.events).toEqual([event])
})

test('equal deposits become different notes and every root equals the protocol tree', () => {
  const vault = runningVault(0n)
  for (let count = 1; count <= 9; count++) {
    vault.deposit(MIN_DEPOSIT, inner)
    expect(vault.chain.tree()).toMatchObject({ leaf_count: count, root: vault.tree.root() })
  }
  expect(vault.tree.leaf(3)).not.toEqual(vault.tree.leaf(4))
})

test('a deposit below the minimum, of a bad inner or of other length is refused', () => {
  const vault = runningVault(0n)
  const send = (amount: bigint, value: Uint8Array): string =>
    errorOf(vault.chain.send(depositInstruction(vault.depositOf(amount, value))))
  expect(send(MIN_DEPOSIT - 1n, inner)).toBe('below_min_deposit')
  expect(send(5_000n, new Uint8Array(32))).toBe('not_field_element')
  const modulus = fieldToBytes(FIELD_MODULUS - 1n)
  modulus[31]! += 1
  expect(send(5_000n, modulus)).toBe('not_field_element')
  const short = depositInstruction(vault.depositOf(5_000n, inner))
  expect(errorOf(vault.chain.send({ ...short, data: short.data.slice(0, 40) }))).toBe('invalid_data')
  expect(errorOf(vault.chain.send({ ...short, data: new Uint8Array([...short.data, 0]) }))).toBe(
    'invalid_data',
  )
})

test('the depositor must sign and own the source', () => {
  const vault = runningVault(0n)
  const unsigned = depositInstruction(vault.depositOf(5_000n, inner))
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
  const thief = vault.chain.fund(testKey('thief'))
  const stolen = depositInstruction({ ...vault.depositOf(5_000n, inner), depositor: thief.key })
  expect(errorOf(vault.chain.send(stolen))).toBe('custom 4')
})

test('the vault cannot deposit from itself', () => {
  const vault = runningVault(0n)
  vault.deposit(5_000n, inner)
  const own = depositInstruction({ ...vault.depositOf(5_000n, inner), source: vault.vault_token })
  expect(errorOf(vault.chain.send(own))).toBe('source_is_vault')
})

test('each account of a deposit must be the one of this vault and mint', () => {
  const vault = runningVault(0n)
  const other = bytes32('other mint')
  landed(vault.registerMint(other))
  const cases: [number, Uint8Array, string][] = []
  const good = depositInstruction(vault.depositOf(5_000n, inner))
  const foreign = depositInstruction({ ...vault.depositOf(5_000n, inner), mint: other })
  const at = (name: number): Uint8Array => foreign.accounts[name]!.address
  cases.push([2, vault.source, 'wrong_owner'], [2, vault.chain.vault.tree, 'wrong_account'])
  cases.push([3, vault.chain.vault.config, 'wrong_address'], [4, vault.chain.vault.tree, 'wrong_address'])
  cases.push([5, at(5), 'wrong_address'], [6, other, 'wrong_address'], [7, at(7), 'wrong_address'])
  cases.push([8, bytes32('token program'), 'wrong_address'], [9, bytes32('program'), 'wrong_address'])
  for (const [place, address, error] of cases) {
    const accounts = good.accounts.map((account, index) =>
      index === place ? { ...account, address } : account,
    )
    expect([place, errorOf(vault.chain.send({ ...good, accounts }))]).toEqual([place, error])
  }
  expect(errorOf(vault.chain.send({ ...good, accounts: good.accounts.slice(0, 9) }))).toBe('missing_accounts')
})

test('the source and the state accounts must be writable', () => {
  const vault = runningVault(0n)
  for (const place of [1, 3, 4, 5, 7]) {
    const sent = depositInstruction(vault.depositOf(5_000n, inner))
    sent.accounts[place]!.writable = false
    expect(errorOf(vault.chain.send(sent))).toBe('not_writable')
  }
})

test('a copy of the config at another address owned by the program is not the config', () => {
  const vault = runningVault(0n)
  const copy = bytes32('copy')
  vault.chain.setAccount(copy, vault.chain.account(vault.chain.vault.config)!.data, vault.program)
  const sent = depositInstruction(vault.depositOf(5_000n, inner))
  sent.accounts[2]!.address = copy
  expect(errorOf(vault.chain.send(sent))).toBe('wrong_address')
})

test('a paused vault takes no deposit', () => {
  const vault = runningVault(0n)
  landed(vault.chain.send(pauseInstruction({ program: vault.program, admin: vault.admin.key })))
  expect(errorOf(vault.chain.send(depositInstruction(vault.depositOf(5_000n, inner))))).toBe('vault_paused')
})

test('a vault that holds less than it owes takes no deposit', () => {
  const vault = runningVault(0n)
  vault.deposit(5_000n, inner)
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 4_000n })
  expect(errorOf(vault.chain.send(depositInstruction(vault.depositOf(5_000n, inner))))).toBe('insolvent')
})

test('queued payouts are owed too', () => {
  const vault = runningVault(5_000n)
  vault.settle({ payouts: [vault.withdrawal(4_000n, bytes32('destination'))] })
  expect(vault.chain.mintRecord(vault.mint)).toMatchObject({ liabilities: 1_000n, queued: 4_000n })
  const deposit = depositInstruction(vault.depositOf(MIN_DEPOSIT, inner))
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 4_999n })
  expect(vault.chain.outcome(deposit)).toBe('insolvent')
  vault.setToken(vault.vault_token, { owner: vault.chain.vault.config, amount: 5_000n })
  expect(vault.chain.outcome(deposit)).toBe('landed')
})

test('a vault without an epoch takes no deposit', () => {
  const vault = new OpenVault()
  expect(errorOf(vault.chain.send(depositInstruction(vault.depositOf(5_000n, inner))))).toBe('stale_epoch')
})
