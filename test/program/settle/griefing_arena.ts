/** A vault between a venue that settles and strangers who act at any moment, with laws after every turn. */
import { expect } from 'bun:test'
import { compareBytes, equalBytes, toHex } from '../../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { decodeExitRequest, type ExitRequest } from '../../../protocol/vault/accounts'
import {
  exitRequestAddress,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  vaultTokenAddress,
} from '../../../protocol/vault/addresses'
import type { EventOf } from '../../../protocol/vault/events'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import {
  type PayoutFields,
  payUnits,
  type SettleFields,
  settleInstruction,
  settleUnits,
} from '../../../protocol/vault/settle'
import { bytes32, landed, outputsOf, runningVault } from '../../kit/vault/open_vault'
import { type Failed, type Landed, testKey, tokenBytes } from '../../kit/vault/vault_chain'
import type { Chance } from '../fuzz/world'

export const AMOUNT = 2_000n
const LOADED_BYTES = 64 * 1_048_576
const NOW_S = 1_800_000_000

/** `dust`: strangers' gifts to the vault's token account. */
export type ArenaMint = { mint: Uint8Array; token_program: Uint8Array; source: Uint8Array; dust: bigint }
export type Note = {
  of: ArenaMint
  blinding: Uint8Array
  leaf_index: number
  nullifier: Uint8Array
  spent_in?: number
}

export class Arena {
  readonly vault = runningVault(0n)
  readonly owner = this.vault.chain.fund(testKey('owner'))
  readonly mints: ArenaMint[] = []
  readonly notes: Note[] = []
  /** Addresses that strangers control; their accounts change at any time. */
  readonly strangers: Uint8Array[] = []
  /** Withdrawals that wait for a place in the queue. */
  readonly waiting: PayoutFields[] = []
  /** Exits queued, by nullifier (hex): none is queued or paid twice. */
  readonly #exits = new Map<string, 'queued' | 'closed'>()
  /** Accounts of 10 MiB made so far. */
  large = 0
  #slot = 1_000

  constructor(
    readonly chance: Chance,
    readonly count: (name: string) => void,
  ) {
    const { vault } = this
    // A transaction that is signed waits while strangers land theirs.
    vault.chain.svm.withBlockhashCheck(false)
    this.#addMint(vault.mint, TOKEN_PROGRAM, vault.source)
    this.#addMint(bytes32('issued'), TOKEN_PROGRAM, bytes32('issued source'))
    this.#addMint(bytes32('token 2022'), TOKEN_2022_PROGRAM, bytes32('token 2022 source'))
    this.pass(18)
    for (const of of this.mints) this.deposit(of)
  }

  #addMint(mint: Uint8Array, token_program: Uint8Array, source: Uint8Array): void {
    const { vault } = this
    if (!equalBytes(mint, vault.mint))
      landed(vault.registerMint(mint, { freeze_authority: vault.trader.key }, token_program))
    vault.setToken(source, { mint, owner: vault.trader.key, amount: 1_000_000_000n }, token_program)
    this.mints.push({ mint, token_program, source, dust: 0n })
    vault.depositIn(mint, source, 300_000_000n, { token_program })
  }

  /** A transaction that may load all that Solana allows, as the venue's do. */
  send(instruction: VaultInstruction): Landed | Failed {
    const { chain } = this.vault
    return chain.send(instruction, chain.payer, LOADED_BYTES)
  }

  pass(slots: number): void {
    this.#slot += slots
    this.vault.chain.setTime(this.#slot, NOW_S)
  }

  deposit(of: ArenaMint): void {
    const { vault, owner, chance } = this
    const { mint, token_program, source } = of
    const blinding = chance.element()
    const inner = noteInner(owner.key, blinding)
    const leaf_index = vault.depositIn(mint, source, AMOUNT, { token_program, inner })
    const commitment = depositCommitment({ mint, amount: AMOUNT, inner, leaf_index })
    this.notes.push({ of, blinding, leaf_index, nullifier: nullifierOf(commitment, blinding) })
  }

  requestOf({ nullifier }: Note): ExitRequest | undefined {
    const account = this.vault.chain.account(exitRequestAddress(this.vault.program, nullifier))
    return account && decodeExitRequest(account.data)
  }

  /** Notes, newest first, that a test of `isWanted` finds. */
  note(isWanted: (note: Note, request: ExitRequest | undefined) => boolean): Note | undefined {
    return this.notes.slice(-60).findLast((note) => isWanted(note, this.requestOf(note)))
  }

  /** The venue's batch: it spends notes, serves finalized requests, and pays withdrawals while the queue has room. */
  build(): { batch: SettleFields; spent: Note[]; room: number } {
    const { chance, vault, notes } = this
    // Deposits and refunds of strangers replace the present state, never a kept one.
    const cited = vault.chain.ring().states.at(-1)!
    const unspent = notes.filter(
      ({ spent_in, leaf_index }) => spent_in === undefined && leaf_index < cited.leaf_count,
    )
    const asked = chance.oneIn(4) ? [] : unspent.filter((note) => this.requestOf(note) !== undefined)
    const from = asked.length > 0 ? asked : unspent
    const spent = [
      ...new Set(Array.from({ length: from.length && chance.below(5) }, () => chance.pick(from))),
    ]
    const { capacity, entries } = vault.chain.queue()
    const room = capacity - entries.length
    const exits = spent.flatMap((note): PayoutFields[] => {
      const request = this.requestOf(note)
      if (request === undefined || room < spent.length || chance.oneIn(6)) return []
      const { mint, amount, destination, refund_inner: inner, nullifier } = request
      return [{ mint, destination, amount, inner, nullifier }]
    })
    const withdrawals = this.waiting.splice(0, Math.min(20, room - exits.length))
    const commitments = Array.from({ length: chance.below(6) }, () => chance.element()).sort(compareBytes)
    const batch = vault.batchOf({
      nullifiers: spent.map(({ nullifier }) => nullifier).sort(compareBytes),
      outputs: outputsOf(commitments),
      payouts: [...exits, ...withdrawals],
      cited_leaf_count: cited.leaf_count,
      cited_root: cited.root,
    })
    return { batch, spent, room }
  }

  /** Builds, signs and lands a batch; strangers act before each of the three. */
  settle(act: (moment: string) => void): void {
    const { vault } = this
    act('before a batch is built')
    const { batch, spent, room } = this.build()
    act('between building and signing')
    const signed = vault.chain.signed(settleInstruction(batch), vault.signer)
    act('between signing and landing')
    const event = vault.settled(vault.chain.land(signed))
    const exits = batch.payouts.filter(({ nullifier }) => nullifier !== undefined).length
    const withdrawals = batch.payouts.length - exits
    const shape = { nullifiers: batch.nullifiers.length, outputs: batch.outputs.length, withdrawals, exits }
    expect(Number(event.units)).toBeLessThanOrEqual(settleUnits(shape))
    for (const note of spent) note.spent_in = event.batch
    for (const { kind, nullifier, served } of event.payouts) {
      expect(served).toBe(kind === 'exit')
      this.count(`${kind} queued`)
      if (nullifier === undefined) continue
      expect(this.#exits.has(toHex(nullifier))).toBe(false)
      this.#exits.set(toHex(nullifier), 'queued')
    }
    if (room === 0) this.count('batch landed while the queue was full')
  }

  /** Anyone closes some entries: one transaction of at most 8, for every kind of destination. */
  pay(): boolean {
    const { chance, vault } = this
    const { entries } = vault.chain.queue()
    const chosen = entries.filter(() => chance.oneIn(2)).slice(0, 8)
    if (chosen.length === 0) return false
    const result = landed(this.send(vault.payment(chosen)))
    expect(Number(result.units)).toBeLessThanOrEqual(payUnits(chosen.length))
    this.#closed(vault.paid(result), chosen)
    expect(vault.chain.queue().entries).toHaveLength(entries.length - chosen.length)
    return true
  }

  #closed(paid: EventOf<'paid'>[], chosen: readonly { number: number }[]): void {
    expect(paid.map(({ number }) => number)).toEqual(chosen.map(({ number }) => number))
    for (const { outcome, payout, nullifier } of paid) {
      this.count(`outcome ${outcome}`)
      if (payout !== 'exit') continue
      expect(this.#exits.get(toHex(nullifier!))).toBe('queued')
      this.#exits.set(toHex(nullifier!), 'closed')
    }
  }

  /** Ends a request by `send`, and checks that `receiver` gets rent and bond. */
  endRequest({ nullifier }: Note, receiver: Uint8Array, send: () => Landed): void {
    const { chain, program } = this.vault
    // Where its payer made a program or token account of it, only lamports arrive.
    if (this.chance.oneIn(2)) chain.setAccount(receiver, new Uint8Array(), SYSTEM_PROGRAM, 1_000_000n)
    const address = exitRequestAddress(program, nullifier)
    const held = chain.account(address)!.lamports
    const had = chain.account(receiver)?.lamports ?? 0n
    send()
    expect(chain.account(address)).toBeUndefined()
    expect(chain.account(receiver)!.lamports).toBe(had + held)
  }

  /** Freezes the vault's own token account of a mint, or thaws it, as its issuer can. True when it changed. */
  issuerFreezes(of: ArenaMint, frozen: boolean): boolean {
    const { vault } = this
    const address = vaultTokenAddress(vault.program, of.mint)
    const { data } = vault.chain.account(address)!
    if ((data[108] === 2) === frozen) return false
    data[108] = frozen ? 2 : 1
    vault.chain.setAccount(address, data, of.token_program)
    return true
  }

  /** A stranger's gift to the vault's token account. */
  donate(of: ArenaMint): void {
    const { vault } = this
    const address = vaultTokenAddress(vault.program, of.mint)
    const { data } = vault.chain.account(address)!
    const owner = data.slice(32, 64)
    const amount = vault.balance(address) + 1n
    const fresh = tokenBytes({
      mint: of.mint,
      owner,
      amount,
      state: data[108] === 2 ? 'frozen' : 'initialized',
    })
    data.set(fresh.subarray(64, 72), 64)
    vault.chain.setAccount(address, data, of.token_program)
    of.dust += 1n
  }

  judge(): void {
    const { vault, mints } = this
    const { entries } = vault.chain.queue()
    for (const { mint, dust } of mints) {
      const { liabilities, queued } = vault.chain.mintRecord(mint)
      const open = entries.filter((entry) => equalBytes(entry.mint, mint))
      expect(queued).toBe(open.reduce((sum, { amount }) => sum + amount, 0n))
      expect(vault.balance(vaultTokenAddress(vault.program, mint))).toBe(liabilities + queued + dust)
    }
    const roots = { root: vault.tree.root(), spent_root: vault.spent.root() }
    expect(vault.chain.tree()).toMatchObject({ leaf_count: vault.tree.leaf_count, ...roots })
    expect(vault.chain.config()).toMatchObject({ frozen: false, paused: false })
  }

  /** Every queued payout is closed, every exit once. */
  drain(): void {
    while (this.vault.chain.queue().entries.length > 0) this.pay()
    expect([...this.#exits.values()].filter((state) => state !== 'closed')).toEqual([])
    this.judge()
  }
}
