/**
 * Random settlements between strangers who choose destinations, bond payers and moments: every batch lands at once within its
 * formula of units, every queue entry closes, every served owner gets the bond. TACIT_GRIEF_RUNS makes it longer,
 * TACIT_GRIEF_SEED repeats a run.
 */
import { expect, test } from 'bun:test'
import { lamports } from '@solana/kit'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { loadNativePoseidon } from '../../../native/load_poseidon'
import { decodeBase58 } from '../../../protocol/base58'
import { compareBytes } from '../../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { installPoseidon } from '../../../protocol/notes/poseidon'
import { decodeExitRequest, type ExitRequest } from '../../../protocol/vault/accounts'
import {
  exitRequestAddress,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  UPGRADEABLE_LOADER,
} from '../../../protocol/vault/addresses'
import {
  closeExitInstruction,
  refuseExitInstruction,
  requestExitInstruction,
} from '../../../protocol/vault/exits'
import { payUnits } from '../../../protocol/vault/queue'
import { type PayoutFields, settleUnits } from '../../../protocol/vault/settle'
import { bytes32, element, landed, outputsOf, runningVault } from '../../kit/vault/open_vault'
import { tokenBytes } from '../../kit/vault/tokens'
import { testKey } from '../../kit/vault/vault_chain'
import { Chance } from '../fuzz/chance'

const RUNS = Number(process.env['TACIT_GRIEF_RUNS'] ?? 120)
const SEED = Number(process.env['TACIT_GRIEF_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
/** Settlements of one vault: its trees are modelled in memory. */
const ARENA_RUNS = 300
const LOADED_BYTES = 64 * 1_048_576
const CLOCK = decodeBase58('SysvarC1ock11111111111111111111111111111111', 32)!
const AMOUNT = 2_000n

const native = loadNativePoseidon()
if (native) installPoseidon(native)

type Note = { blinding: Uint8Array; leaf_index: number; nullifier: Uint8Array; spent_in?: number }

/** How often each thing happened, so that a run that tries nothing fails. */
const tally: Record<string, number> = {}
const count = (name: string): void => {
  tally[name] = (tally[name] ?? 0) + 1
}

class Arena {
  readonly vault = runningVault(0n)
  readonly owner = this.vault.chain.fund(testKey('owner'))
  readonly notes: Note[] = []
  /** Addresses that strangers control; what is at them changes at any time. */
  readonly strangers: Uint8Array[] = []
  slot = 1_000
  #names = 0

  constructor(readonly chance: Chance) {
    this.vault.deposit(900_000_000n, element('liquidity'))
  }

  deposit(): void {
    const { vault, owner, chance } = this
    const blinding = chance.element()
    const inner = noteInner(owner.key, blinding)
    const leaf_index = vault.deposit(AMOUNT, inner)
    const commitment = depositCommitment({ mint: vault.mint, amount: AMOUNT, inner, leaf_index })
    this.notes.push({ blinding, leaf_index, nullifier: nullifierOf(commitment, blinding) })
  }

  requestOf({ nullifier }: Note): ExitRequest | undefined {
    const account = this.vault.chain.account(exitRequestAddress(this.vault.program, nullifier))
    return account && decodeExitRequest(account.data)
  }

  /** An address of strangers, or one that no transfer can reach. */
  destination(): Uint8Array {
    const { vault, chance, strangers } = this
    const { config, tree, queue, program } = vault.chain.vault
    const special = [config, tree, queue, program, vault.mint, vault.vault_token, CLOCK, TOKEN_PROGRAM]
    if (chance.oneIn(5)) return chance.pick(special)
    if (strangers.length > 0 && chance.oneIn(2)) return chance.pick(strangers)
    const key = bytes32(`stranger ${this.#names++}`)
    strangers.push(key)
    this.transform(key)
    return key
  }

  /** A stranger makes something else of an address: a token account in any state, a program, much data, nothing. */
  transform(key: Uint8Array): void {
    const { vault, chance } = this
    const { chain, mint, trader } = vault
    const token = (fields: object, program = TOKEN_PROGRAM) =>
      chain.setAccount(key, tokenBytes({ mint, owner: trader.key, ...fields }), program)
    const forms = [
      () => token({}),
      () => token({}),
      () => token({ state: 'frozen' }),
      () => token({ state: 'uninitialized' }),
      () => token({ mint: bytes32('other mint') }),
      () => token({}, TOKEN_2022_PROGRAM),
      () => token({}, vault.program),
      () =>
        chain.setAccount(
          key,
          new Uint8Array(chance.oneIn(40) ? 10 * 1_048_576 : 3_000),
          TOKEN_PROGRAM,
          100_000_000_000n,
        ),
      () => chain.setAccount(key, new Uint8Array(), SYSTEM_PROGRAM, 0n),
      () => chain.setAccount(key, new Uint8Array(), SYSTEM_PROGRAM),
      () => this.becomeProgram(key),
    ]
    chance.pick(forms)()
  }

  becomeProgram(key: Uint8Array): void {
    const data = Uint8Array.of(2, 0, 0, 0, ...bytes32('program data'))
    const programAddress = addressOf(UPGRADEABLE_LOADER)
    const account = {
      data,
      executable: true,
      lamports: lamports(10_000_000_000n),
      programAddress,
      space: 36n,
    }
    this.vault.chain.svm.setAccount({ address: addressOf(key), ...account })
  }

  /** A request for a note, spent or not, its bond paid by a stranger who may be the destination. */
  request(note: Note): void {
    const { vault, owner, chance } = this
    const bond_payer = vault.chain.fund(testKey(`bond payer ${chance.below(8)}`))
    if (this.requestOf(note) !== undefined) return
    const { leaf_count, root } = vault.chain.tree()
    const { blinding, leaf_index, nullifier } = note
    const fields = {
      program: vault.program,
      owner: owner.key,
      payer: bond_payer.key,
      mint: vault.mint,
      opening: { form: 'deposit' as const, amount: AMOUNT, blinding, leaf_index },
      nullifier,
      cited_leaf_count: leaf_count,
      cited_root: root,
      destination: chance.oneIn(4) ? bond_payer.key : this.destination(),
      refund_inner: chance.element(),
      path: vault.tree.siblings(leaf_index),
    }
    vault.chain.setAccount(bond_payer.key, new Uint8Array(), SYSTEM_PROGRAM, 50_000_000_000n)
    landed(vault.chain.send(requestExitInstruction(fields), vault.chain.payer))
    if (chance.oneIn(2)) this.transform(bond_payer.key)
  }

  /** What strangers do between two batches. */
  stir(): void {
    const { chance, vault, strangers } = this
    this.slot += chance.below(30)
    vault.chain.setTime(this.slot, 1_800_000_000)
    while (chance.oneIn(2)) this.deposit()
    if (this.notes.length > 0 && chance.oneIn(2)) this.request(chance.pick(this.notes))
    while (strangers.length > 0 && chance.oneIn(2)) this.transform(chance.pick(strangers))
    const gift = this.notes.length > 0 && exitRequestAddress(vault.program, chance.pick(this.notes).nullifier)
    if (gift && vault.chain.account(gift) === undefined && chance.oneIn(8))
      vault.chain.setAccount(gift, new Uint8Array(), SYSTEM_PROGRAM, 5_000_000n)
  }

  /** The venue's batch: it spends notes, serves most requests, and pays withdrawals wherever they go. */
  settle(): void {
    const { chance, vault, notes } = this
    const unspent = notes.filter(({ spent_in }) => spent_in === undefined)
    const asked = chance.oneIn(2) ? unspent.filter((note) => this.requestOf(note) !== undefined) : []
    const from = asked.length > 0 ? asked : unspent
    const count_spent = from.length === 0 ? 0 : chance.below(5)
    const spent = new Set(Array.from({ length: count_spent }, () => chance.pick(from)))
    const room = 60 - vault.chain.queue().entries.length
    const exits = [...spent].flatMap((note): PayoutFields[] => {
      const request = this.requestOf(note)
      if (request === undefined || chance.oneIn(6)) return []
      const { mint, amount, destination, refund_inner: inner, nullifier } = request
      return [{ mint, destination, amount: chance.oneIn(8) ? amount - 1n : amount, inner, nullifier }]
    })
    const withdrawals = Array.from({ length: chance.below(4) }, () =>
      vault.withdrawal(1n + BigInt(chance.below(50)), this.destination(), chance.element()),
    )
    const payouts = room >= 8 ? [...exits, ...withdrawals] : []
    const nullifiers = [...spent].map(({ nullifier }) => nullifier).sort(compareBytes)
    const commitments = Array.from({ length: chance.below(6) }, () => chance.element()).sort(compareBytes)
    const before = [...spent].map((note) => this.requestOf(note))
    const event = vault.settle({ nullifiers, outputs: outputsOf(commitments), payouts })
    const shape = { nullifiers: nullifiers.length, outputs: commitments.length }
    const queued =
      room >= 8 ? { withdrawals: withdrawals.length, exits: exits.length } : { withdrawals: 0, exits: 0 }
    expect(Number(event.units)).toBeLessThanOrEqual(settleUnits({ ...shape, ...queued }))
    for (const note of spent) note.spent_in = event.batch
    for (const { nullifier, amount, served } of event.payouts) {
      const request = before.find((one) => nullifier && one && compareBytes(one.nullifier, nullifier) === 0)
      if (request !== undefined) expect(served).toBe(request.amount === amount)
      count(served ? 'served' : 'queued')
    }
  }

  /** Anyone closes some entries. */
  pay(): void {
    const { chance, vault } = this
    const { entries } = vault.chain.queue()
    const chosen = entries.filter(() => entries.length > 40 || chance.oneIn(2)).slice(0, 8)
    if (chosen.length === 0) return
    const { units, events } = landed(vault.chain.send(vault.payment(chosen), vault.chain.payer, LOADED_BYTES))
    expect(Number(units)).toBeLessThanOrEqual(payUnits(chosen.length))
    const paid = events.filter((event) => event.kind === 'paid')
    expect(paid.map(({ number }) => number)).toEqual(chosen.map(({ number }) => number))
    for (const { outcome } of paid) count(outcome)
    vault.tree.append(paid.flatMap(({ refund }) => refund?.commitment ?? []))
    expect(vault.chain.queue().entries).toHaveLength(entries.length - chosen.length)
  }

  /** A served request is closed for its payer; one that another batch spent is refused. */
  endRequests(): void {
    const { vault, chance } = this
    const { chain, program } = vault
    for (const note of this.notes) {
      const { nullifier, spent_in } = note
      const request = spent_in === undefined ? undefined : this.requestOf(note)
      if (request === undefined || spent_in === undefined) continue
      // Its payer made a program or token account of it; only lamports arrive there.
      if (chance.oneIn(2)) chain.setAccount(request.bond_payer, new Uint8Array(), SYSTEM_PROGRAM, 1_000_000n)
      const held = chain.account(exitRequestAddress(program, nullifier))!.lamports
      const had = chain.account(request.bond_payer)?.lamports ?? 0n
      const bond_payer = request.bond_payer
      if (request.served) {
        count('closed')
        landed(chain.send(closeExitInstruction({ program, nullifier, bond_payer })))
        expect(chain.account(bond_payer)!.lamports).toBe(had + held)
      } else {
        const proof = { cited_spent_root: vault.spent.root(), path: vault.spent.siblings(spent_in - 1) }
        const nullifiers = [...vault.batches[spent_in - 1]!]
        const fields = { program, refuser: chain.payer.key, nullifier, batch: spent_in, nullifiers, ...proof }
        count('refused')
        landed(chain.send(refuseExitInstruction(fields)))
      }
    }
  }

  judge(): void {
    const { vault } = this
    const { liabilities, queued } = vault.chain.mintRecord(vault.mint)
    const waiting = vault.chain.queue().entries.reduce((sum, { amount }) => sum + amount, 0n)
    expect(queued).toBe(waiting)
    expect(vault.balance(vault.vault_token)).toBe(liabilities + queued)
    const roots = { root: vault.tree.root(), spent_root: vault.spent.root() }
    expect(vault.chain.tree()).toMatchObject({ leaf_count: vault.tree.leaf_count, ...roots })
  }
}

test(`strangers hinder no batch, no payment and no bond (seed ${SEED})`, () => {
  const chance = new Chance(SEED)
  for (let run = 0; run < RUNS; ) {
    const arena = new Arena(chance)
    for (let turn = 0; turn < ARENA_RUNS && run < RUNS; turn++, run++) {
      arena.stir()
      arena.settle()
      arena.stir()
      arena.pay()
      if (chance.oneIn(4)) arena.endRequests()
      arena.judge()
    }
    while (arena.vault.chain.queue().entries.length > 0) arena.pay()
    arena.endRequests()
    arena.judge()
  }
  console.log(`griefing: seed ${SEED}, ${RUNS} settlements, ${JSON.stringify(tally)}`)
  const wanted = [
    'served',
    'queued',
    'closed',
    'refused',
    'paid',
    'destination_missing',
    'destination_frozen',
  ]
  expect(wanted.filter((name) => tally[name] === undefined)).toEqual([])
}, 86_400_000)
