/** The formula of compute units covers every shape of a batch, also of random settlements between strangers. */

import { expect, test } from 'bun:test'
import { lamports } from '@solana/kit'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { loadNativePoseidon } from '../../../native/load_poseidon'
import { decodeBase58 } from '../../../protocol/base58'
import type { Codec } from '../../../protocol/codec'
import { SETTLE_LIMITS } from '../../../protocol/limits'
import { installPoseidon } from '../../../protocol/notes/poseidon'
import { CONFIG, type ExitRequest, MINT_RECORD, RING, TREE } from '../../../protocol/vault/accounts'
import {
  exitRequestAddress,
  mintRecordAddress,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  UPGRADEABLE_LOADER,
  vaultTokenAddress,
} from '../../../protocol/vault/addresses'
import {
  closeExitInstruction,
  freezeInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../protocol/vault/exits'
import { growQueueInstruction, settleDataBytes, settleUnits } from '../../../protocol/vault/settle'
import {
  bytes32,
  elements,
  errorOf,
  landed,
  type OpenVault,
  outputsOf,
  runningVault,
} from '../../kit/vault/open_vault'
import { testKey, tokenBytes } from '../../kit/vault/vault_chain'
import { Chance } from '../fuzz/world'
import { AMOUNT, Arena, type ArenaMint, type Note } from './griefing_arena'

/**
 * Random settlements between strangers who choose destinations, bond payers and moments: every batch lands at once within
 * its formula of units, every queue entry closes, no exit is paid twice, every mint conserves, every served owner's payer
 * gets the bond. TACIT_GRIEF_RUNS makes it longer, TACIT_GRIEF_SEED repeats a run.
 */

const CLOCK = decodeBase58('SysvarC1ock11111111111111111111111111111111', 32)!
const LARGEST_BYTES = 10 * 1_048_576
const LARGE_MAX = 5
const WITHDRAWALS_AT_ONCE = 70

type Act = (arena: Arena) => boolean

/** Puts a token account of a mint at a stranger's address. */
function becomeToken(
  { vault, chance, mints }: Arena,
  key: Uint8Array,
  fields: Partial<Parameters<typeof tokenBytes>[0]> = {},
  { mint, token_program }: ArenaMint = chance.pick(mints),
): boolean {
  vault.chain.setAccount(key, tokenBytes({ mint, owner: vault.trader.key, ...fields }), token_program)
  return true
}

const stranger =
  (act: (arena: Arena, key: Uint8Array) => boolean): Act =>
  (arena) =>
    arena.strangers.length > 0 && act(arena, arena.chance.pick(arena.strangers))

const resizedTo = (bytes: (arena: Arena) => number): Act =>
  stranger((arena, key) => {
    const { chain } = arena.vault
    const data = new Uint8Array(bytes(arena))
    data.set((chain.account(key)?.data ?? data).subarray(0, data.length))
    chain.setAccount(key, data, TOKEN_PROGRAM, 100_000_000_000n)
    return true
  })

/** A few in each vault, because each costs time and memory; one payment may load fewer than seven. */
const resizedToLargest: Act = (arena) => {
  if (arena.large >= LARGE_MAX) return false
  arena.large += 1
  return resizedTo(() => LARGEST_BYTES)(arena)
}

/** Acts on the accounts that payouts name. */
const DESTINATION_ACTS: Record<string, Act> = {
  'open an account': stranger((arena, key) => becomeToken(arena, key)),
  'close an account': stranger(({ vault: { chain } }, key) => {
    const existed = chain.account(key) !== undefined
    chain.setAccount(key, new Uint8Array(), SYSTEM_PROGRAM, 0n)
    return existed
  }),
  'reassign an account': stranger(({ vault, chance }, key) => {
    const account = vault.chain.account(key)
    const owner = chance.pick([SYSTEM_PROGRAM, TOKEN_PROGRAM, TOKEN_2022_PROGRAM, vault.program])
    if (account === undefined || addressOf(owner) === account.owner) return false
    vault.chain.setAccount(key, account.data, owner, account.lamports)
    return true
  }),
  'resize an account': resizedTo(({ chance }) => chance.pick([0, 164, 166, 1_024, 1_025, 100_000])),
  'resize an account to 10 MiB': resizedToLargest,
  'freeze an account': stranger((arena, key) => becomeToken(arena, key, { state: 'frozen' })),
  'require memos': stranger((arena, key) =>
    becomeToken(
      arena,
      key,
      { extensions: [{ type: 8, value: Uint8Array.of(1) }] },
      arena.mints.find(({ token_program }) => token_program === TOKEN_2022_PROGRAM),
    ),
  ),
  'uninitialize an account': stranger((arena, key) => becomeToken(arena, key, { state: 'uninitialized' })),
  'make executable': stranger(({ vault }, key) => {
    vault.chain.svm.setAccount({
      address: addressOf(key),
      data: Uint8Array.of(2, 0, 0, 0, ...bytes32('program data')),
      executable: true,
      lamports: lamports(10_000_000_000n),
      programAddress: addressOf(UPGRADEABLE_LOADER),
      space: 36n,
    })
    return vault.chain.svm.getAccount(addressOf(key)).exists
  }),
  'freeze the vault’s account of one mint': (arena) => arena.issuerFreezes(arena.mints[1]!, true),
  'thaw the vault’s account of one mint': (arena) => arena.issuerFreezes(arena.mints[1]!, false),
  'send tokens to the vault': (arena) => {
    arena.donate(arena.chance.pick(arena.mints))
    return true
  },
}

/** An address of strangers, or one that no transfer can reach. */
function destination(arena: Arena): Uint8Array {
  const { vault, chance, strangers } = arena
  const { config, tree, queue, program } = vault.chain.vault
  const special = [config, tree, queue, program, vault.mint, vault.vault_token, CLOCK, TOKEN_PROGRAM]
  if (chance.oneIn(6)) return chance.pick(special)
  if (strangers.length > 0 && chance.oneIn(2)) return chance.pick(strangers)
  const key = chance.bytes(32)
  strangers.push(key)
  becomeToken(arena, key)
  return key
}

/** A request for a note, its bond paid by a stranger who may be the destination and is something else afterwards. */
function request(arena: Arena, note: Note | undefined): boolean {
  if (note === undefined) return false
  const { vault, owner, chance, strangers } = arena
  const { chain } = vault
  const bond_payer = chain.fund(testKey(`bond payer ${chance.below(8)}`))
  chain.setAccount(bond_payer.key, new Uint8Array(), SYSTEM_PROGRAM, 50_000_000_000n)
  const { leaf_count, root } = chain.tree()
  const { of, blinding, leaf_index, nullifier } = note
  const fields = {
    program: vault.program,
    owner: owner.key,
    payer: bond_payer.key,
    mint: of.mint,
    opening: { form: 'deposit' as const, amount: AMOUNT, blinding, leaf_index },
    nullifier,
    cited_leaf_count: leaf_count,
    cited_root: root,
    destination: chance.oneIn(4) ? bond_payer.key : destination(arena),
    refund_inner: chance.element(),
    path: vault.tree.siblings(leaf_index),
  }
  landed(arena.send(requestExitInstruction(fields)))
  if (chance.oneIn(2)) strangers.push(bond_payer.key)
  return true
}

/** A refusal that proves the spent notes of batch `batch`. */
function refusal({ vault }: Arena, { nullifier }: Note, batch: number) {
  return refuseExitInstruction({
    program: vault.program,
    refuser: vault.chain.payer.key,
    nullifier,
    batch,
    nullifiers: [...vault.batches[batch - 1]!],
    cited_spent_root: vault.spent.root(),
    path: vault.spent.siblings(batch - 1),
  })
}

const open = (request: ExitRequest | undefined): boolean => request !== undefined && !request.served
const served = (request: ExitRequest | undefined): boolean => request?.served === true

/** A transaction of a stranger about a request that matches; `outcome` is the program's required answer. */
const attempt =
  (
    isWanted: Parameters<Arena['note']>[0],
    outcome: string,
    instruction: (arena: Arena, note: Note) => ReturnType<typeof freezeInstruction>,
  ): Act =>
  (arena) => {
    const note = arena.note(isWanted)
    if (note === undefined || arena.vault.batches.length === 0) return false
    expect(errorOf(arena.send(instruction(arena, note)))).toBe(outcome)
    return true
  }

function closing(arena: Arena, note: Note) {
  const { bond_payer } = arena.requestOf(note)!
  return closeExitInstruction({ program: arena.vault.program, nullifier: note.nullifier, bond_payer })
}

/** Acts on exit requests and on the queue, all of them transactions. */
const REQUEST_ACTS: Record<string, Act> = {
  'request an exit': (arena) => {
    const unasked = () => arena.note((note, asked) => note.spent_in === undefined && asked === undefined)
    let requested = 0
    while (requested < 3 && request(arena, unasked())) requested += 1
    return requested > 0
  },
  'invent a request for a spent note': (arena) =>
    request(
      arena,
      arena.note((note, asked) => note.spent_in !== undefined && asked === undefined),
    ),
  'withdraw a request for a spent note': (arena) => {
    const note = arena.note(({ spent_in }, asked) => spent_in !== undefined && open(asked))
    if (note === undefined) return false
    const { chain } = arena.vault
    const before = chain.account(chain.payer.key)!.lamports
    const held = chain.account(exitRequestAddress(arena.vault.program, note.nullifier))!.lamports
    landed(arena.send(refusal(arena, note, note.spent_in!)))
    // Less the fee of the transaction.
    expect(chain.account(chain.payer.key)!.lamports).toBeGreaterThan(before + held - 10_001n)
    return true
  },
  'refuse an unspent request': attempt(
    ({ spent_in }, asked) => spent_in === undefined && open(asked),
    'invalid_spent_proof',
    (arena, note) => refusal(arena, note, 1 + arena.chance.below(arena.vault.batches.length)),
  ),
  'refuse a served request': attempt(
    (_, asked) => served(asked),
    'exit_served',
    (arena, note) => refusal(arena, note, note.spent_in!),
  ),
  'close an open request': attempt((_, asked) => open(asked), 'exit_open', closing),
  'close a served request': (arena) => {
    const note = arena.note((_, asked) => served(asked))
    if (note === undefined) return false
    const { bond_payer } = arena.requestOf(note)!
    arena.endRequest(note, bond_payer, () => landed(arena.send(closing(arena, note))))
    return true
  },
  'freeze before a deadline': attempt(
    (_, asked) => open(asked),
    'deadline_not_reached',
    ({ vault }, { nullifier }) => freezeInstruction(vault.program, nullifier),
  ),
  'freeze for a served request': attempt(
    (_, asked) => served(asked),
    'exit_served',
    ({ vault }, { nullifier }) => freezeInstruction(vault.program, nullifier),
  ),
  'send lamports to a request': ({ vault, chance, notes }) => {
    const address = exitRequestAddress(vault.program, chance.pick(notes).nullifier)
    vault.chain.svm.airdrop(addressOf(address), lamports(5_000_000n))
    return true
  },
  'pay entries': (arena) => arena.pay(),
  'fill the queue': (arena) => {
    if (arena.waiting.length > 0) return false
    for (let count = 0; count < WITHDRAWALS_AT_ONCE; count++) {
      const { mint } = arena.chance.pick(arena.mints)
      const inner = arena.chance.element()
      arena.waiting.push({ ...arena.vault.withdrawal(1n, destination(arena), inner), mint })
    }
    return true
  },
  'grow the queue': (arena) => {
    const { chain, program } = arena.vault
    if (chain.queue().capacity > 60 && !arena.chance.oneIn(50)) return false
    return landed(arena.send(growQueueInstruction(program, chain.payer.key))).ok
  },
  deposit: (arena) => {
    const open = arena.mints.filter(({ mint }) => !isFrozen(arena, mint))
    for (let count = arena.chance.below(4); count >= 0; count--) arena.deposit(arena.chance.pick(open))
    return true
  },
  'let time pass': (arena) => {
    arena.pass(1 + arena.chance.below(30))
    return true
  },
}

function isFrozen({ vault }: Arena, mint: Uint8Array): boolean {
  return vault.chain.account(vaultTokenAddress(vault.program, mint))!.data[108] === 2
}

const ACTS: Record<string, Act> = { ...DESTINATION_ACTS, ...REQUEST_ACTS }

const RUNS = Number(process.env['TACIT_GRIEF_RUNS'] ?? 120)
const RUNS_MORE = 5
const SEED = Number(process.env['TACIT_GRIEF_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
/** Settlements of one vault: its trees are modelled in memory. */
const ARENA_RUNS = 200

const native = loadNativePoseidon()
if (native) installPoseidon(native)

const tally = new Map(Object.keys(ACTS).map((name) => [name, 0]))
const count = (name: string): void => void tally.set(name, (tally.get(name) ?? 0) + 1)

/** Some acts, each the rarest so far of three. */
function act(arena: Arena, moment: string): void {
  const { chance } = arena
  for (let acts = chance.below(5); acts > 0; acts--) {
    const names = Object.keys(ACTS)
    const drawn = [chance.pick(names), chance.pick(names), chance.pick(names)]
    const name = drawn.reduce((least, one) => (tally.get(one)! < tally.get(least)! ? one : least))
    if (!ACTS[name]!(arena)) continue
    count(name)
    count(moment)
  }
}

/** Acts and outcomes that the run lacks so far. */
function missing(): string[] {
  const wanted = ['exit queued', 'withdrawal queued', 'batch landed while the queue was full']
  const refusals = ['destination_missing', 'destination_frozen', 'destination_refuses', 'vault_frozen']
  const outcomes = ['paid', ...refusals].map((name) => `outcome ${name}`)
  return [...tally.keys(), ...wanted, ...outcomes].filter((name) => !tally.get(name))
}

test(`strangers hinder no batch, no payment and no bond (seed ${SEED})`, () => {
  const chance = new Chance(SEED)
  // Some outcomes are rare: a run goes on until it has met each.
  const goesOn = (run: number) => run < RUNS || (missing().length > 0 && run < RUNS_MORE * RUNS)
  for (let run = 0; goesOn(run); ) {
    const arena = new Arena(chance, count)
    for (let turn = 0; turn < ARENA_RUNS && goesOn(run); turn++, run++) {
      arena.settle((moment) => act(arena, moment))
      if (arena.waiting.length === 0 || chance.oneIn(4)) arena.pay()
      arena.judge()
    }
    arena.drain()
    // The collector does not see the memory of the SVM that an arena held.
    Bun.gc(true)
  }
  console.log(`griefing: seed ${SEED}, ${RUNS} settlements, ${JSON.stringify(Object.fromEntries(tally))}`)
  expect(missing()).toEqual([])
}, 86_400_000)

const DEPTH = 40
/** Bytes of a v1 transaction around `settle` without payouts: signature, fee payer, header and six addresses. */
const TRANSACTION_BYTES = 4_096 - 380

type Shape = { nullifiers: number; outputs: number; withdrawals: number; exits: number }

function change<T>({ chain, program }: OpenVault, key: Uint8Array, layout: Codec<T>, to: (old: T) => T) {
  const { data, lamports } = chain.account(key)!
  chain.setAccount(key, layout.encode(to(layout.decode(data))), program, lamports)
}

/** A vault whose ring is full: the state that batches cite is the last one that is looked at. */
function world(): OpenVault {
  const vault = runningVault()
  const states = Array.from({ length: 120 }, (_, at) => ({
    slot: 0,
    leaf_count: 7,
    root: bytes32(`kept ${at}`),
    spent_root: bytes32('spent'),
  }))
  change(vault, vault.chain.vault.ring, RING, (ring) => ({ ...ring, next: 0, length: 120, states }))
  change(vault, mintRecordAddress(vault.program, vault.mint), MINT_RECORD, (record) => ({
    ...record,
    liabilities: 10n ** 15n,
  }))
  return vault
}

let batches = 0

/** Units of a batch of this shape that appends at `leaf_count` and, in the spent log, behind `last_batch` leaves. */
function unitsAt(vault: OpenVault, shape: Shape, leaf_count: number, last_batch: number): number {
  const { chain, program } = vault
  batches += 1
  chain.setTime(10_000 + 20 * batches, 1_800_000_000)
  change(vault, chain.vault.tree, TREE, (tree) => ({ ...tree, leaf_count }))
  change(vault, chain.vault.config, CONFIG, (config) => ({ ...config, last_batch }))
  const nullifiers = elements(`n ${batches}`, Math.max(shape.nullifiers, shape.exits))
  const exits = nullifiers.slice(0, shape.exits).map((nullifier, at) => {
    const payout = { ...vault.withdrawal(10n, bytes32(`to ${at}`)), nullifier }
    vault.putRequest(payout)
    return payout
  })
  const withdrawals = Array.from({ length: shape.withdrawals }, () => vault.withdrawal(10n, bytes32('to')))
  const batch = vault.batchOf({
    nullifiers,
    outputs: outputsOf(elements(`c ${batches}`, shape.outputs)),
    payouts: [...exits, ...withdrawals],
    cited_leaf_count: 7,
    cited_root: bytes32('kept 119'),
  })
  const kept = [chain.vault.queue, chain.vault.ring].map((key) => ({ key, data: chain.account(key)!.data }))
  const { units } = landed(vault.send(batch))
  for (const { key, data } of kept) chain.setAccount(key, data, program)
  return Number(units)
}

/** Places where an append crosses the boundary of a power of two, and where it lies within. */
const places = (count: number): number[] => [
  0,
  ...Array.from({ length: DEPTH }, (_, power) => 2 ** power - 1).filter((at) => at + count <= 2 ** DEPTH),
  ...(count < 2 ** DEPTH ? [2 ** DEPTH - Math.max(count, 1)] : []),
]

function shapes(): Shape[] {
  const all: Shape[] = []
  for (const nullifiers of [0, 1, 14, 28, 56])
    for (const outputs of [0, 1, 2, 3, 16, 33, 56, 80])
      for (const [withdrawals, exits] of [
        [0, 0],
        [1, 0],
        [0, 1],
        [8, 0],
        [0, 13],
        [24, 0],
        [6, 6],
      ] as const) {
        const spent = Math.max(nullifiers, exits)
        const bytes = settleDataBytes(spent, outputs, withdrawals + exits) + 32 * exits
        if (bytes <= TRANSACTION_BYTES) all.push({ nullifiers: spent, outputs, withdrawals, exits })
      }
  return all
}

test('the formula covers every shape where the append crosses the middle of the tree, and exceeds it by less than 15 %', () => {
  const vault = world()
  for (const shape of shapes()) {
    const most = unitsAt(vault, shape, 2 ** (DEPTH - 1) - 1, 0)
    const asked = settleUnits(shape)
    expect([shape, asked >= most, asked <= most / 0.85]).toEqual([shape, true, true])
  }
}, 180_000)

for (const shape of [
  { nullifiers: 28, outputs: 56, withdrawals: 0, exits: 0 },
  { nullifiers: 1, outputs: 2, withdrawals: 0, exits: 0 },
  { nullifiers: 0, outputs: 1, withdrawals: 1, exits: 0 },
  { nullifiers: 3, outputs: 0, withdrawals: 0, exits: 3 },
])
  test(`no place in either tree costs more: ${Object.values(shape).join(' ')}`, () => {
    const vault = world()
    const asked = settleUnits(shape)
    for (const at of places(shape.outputs))
      expect([at, unitsAt(vault, shape, at, Math.max(0, at - 1)) <= asked]).toEqual([at, true])
  }, 180_000)

test('28 orders take at most 103,600 units at an ordinary place', () => {
  const vault = runningVault()
  const parts = { nullifiers: elements('n', 28), outputs: outputsOf(elements('c', 56)) }
  expect(Number(vault.settle(parts).units)).toBeLessThanOrEqual(103_600)
})

test('the limits of a batch are those of the formula’s test', () => {
  expect(SETTLE_LIMITS).toEqual({ nullifiers: 56, outputs: 80, payouts: 24, payout_mints: 8 })
})
