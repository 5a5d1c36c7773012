/** Recovers every note of a seed from the vault's public history (protocol.md "Wallet derivation and recovery"). */
import { encodeBase58 } from '../../protocol/base58'
import { equalBytes } from '../../protocol/bytes'
import { RESHAPE_NOTES_MAX } from '../../protocol/limits'
import {
  ANCHORS_PER_COMMAND,
  deriveAnchor,
  deriveDepositBlinding,
  deriveOrderId,
} from '../../protocol/notes/derive'
import {
  type BlindingParts,
  decodeMemo,
  memoTag,
  noteInner,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import { TacitError } from '../../protocol/tacit_error'
import type { Amount } from '../../protocol/units'
import { GAP_LIMITS } from '../limits'
import { keepProgramNotes, keepRecovered, REFUND_INDEX_ROLE, type RecoveredNote } from './absorb'
import { tagOf, type VaultHistory } from './vault_history'
import { Wallet, type WalletState } from './wallet'

/** The numbers of unused keys, deposits and commands in a row that end a search. */
export type GapLimits = { keys: number; deposits: number; commands: number }

/** One key's search. */
export type KeyScan = {
  wallet: Wallet
  history: VaultHistory
  limits: GapLimits
  /** Every generation of the vault: a note keeps the one of its creation. */
  generations: readonly number[]
  key_index: number
  /** Public key of `key_index`. */
  owner: Uint8Array
  /** A command spends only deposits and notes of earlier commands: once all are explained, none is left to find. */
  spending: Spending
}

/** Commands of the seed, or notes that they spent, are still to be found. */
export class RecoveryIncomplete extends TacitError<{ missing: readonly MissingCommands[] }> {
  override readonly name = 'RecoveryIncomplete'
  readonly code = 'recovery_incomplete'
  constructor(
    /** Result of the search. */
    readonly wallet: Wallet,
    /** Of a key: the batches, and how many commands were tried in a row without a find. */
    missing: readonly MissingCommands[],
  ) {
    const parts = missing.map(
      ({ key_index, batches, tried }) =>
        `key ${key_index} has commands or notes in settlement batch ${batches.join(', ')} that were not found (${tried} commands tried after the last)`,
    )
    super(`the recovery is not complete: ${parts.join('; ')}`, { missing })
  }
}
type MissingCommands = { key_index: number; batches: readonly number[]; tried: number }

/**
 * The wallet with every note that its keys ever had, spent ones marked by their nullifiers. Counters follow the last use
 * that left a trace on chain; `alignCounters` adds orders that never filled. However many orders did not fill, the search goes
 * on while a batch of the history spent a note of the key and the command is not found.
 *
 * Cost: a tried deposit is one derivation and one Poseidon hash, so the default limits take 21,000 hashes for an unused
 * seed: 1 s of one core compiled, 4 s in JavaScript. A command takes three to five hashes, but commands are tried only for
 * keys with a deposit, which alone brings a key its first note, and only while a spent note lacks its spending command.
 * @param generation the vault's current generation (config account)
 * @param known counters that a wallet of this seed has: it is searched to their ends at least
 * @throws RecoveryIncomplete
 */
export function recoverWallet(
  seed: Uint8Array,
  history: VaultHistory,
  generation: number,
  limits: GapLimits = GAP_LIMITS,
  known: WalletState['keys'] = [],
): Wallet {
  const wallet = new Wallet(seed)
  wallet.state.generation = generation
  const generations = Array.from({ length: generation + 1 }, (_, at) => at)
  const missing: { key_index: number; batches: readonly number[]; tried: number }[] = []
  for (let key_index = 0, unused = 0; unused < limits.keys || key_index < known.length; key_index++) {
    const owner = wallet.tradingKey(key_index)
    const scan: KeyScan = {
      wallet,
      history,
      limits,
      generations,
      key_index,
      owner,
      spending: new Spending(),
    }
    if (recoverDeposits(scan, known[key_index]?.deposits ?? 0)) {
      const tried = recoverCommands(scan)
      const batches = scan.spending.unexplained
      if (batches.length > 0) missing.push({ key_index, batches, tried })
      unused = 0
    } else {
      unused += 1
    }
  }
  if (missing.length > 0) throw new RecoveryIncomplete(wallet, missing)
  return wallet
}

/** Finds a key's deposits and the refunds of its exits, which are derived as deposits. @returns whether the key was used */
function recoverDeposits(scan: KeyScan, known: number): boolean {
  const { wallet, history, limits, key_index } = scan
  let count = 0
  for (let d = 0; d - count < limits.deposits || d < known; d++) {
    const { used, inner } = keepProgramNotes(scan, deriveDepositBlinding(wallet.seed, key_index, d))
    if (used || history.exit_inners.has(inner)) count = d + 1
  }
  if (count > 0) wallet.counters(key_index).deposits = count
  return count > 0
}

/** A command's number and its first anchor. */
type Command = { n: number; anchor: Uint8Array }
const NO_ORDER = new Uint8Array(16)
/** Possible numbers of anchors of an order, starting with that of this wallet's own orders. */
const ANCHOR_COUNTS: readonly number[] = [4, 1, 2, 3, ...Array.from({ length: 12 }, (_, at) => at + 5)]

/** Finds the fills, withdrawals and reshapes of a key's commands. @returns how many were tried after the last one found */
function recoverCommands(scan: KeyScan): number {
  const { wallet, limits, key_index, generations } = scan
  let [n, count] = [0, 0]
  for (; scan.spending.lacksCommand && n - count < limits.commands; n++) {
    const parts = { n, anchor: deriveAnchor(wallet.seed, key_index, ANCHORS_PER_COMMAND * n) }
    // A copy of the seed from before a restore may have used the number again.
    const found = generations.filter(
      (generation) => recoverFills(scan, parts, generation) || recoverPayment(scan, parts, generation),
    )
    if (found.length > 0) count = n + 1
  }
  wallet.counters(key_index).commands = count
  return n - count
}

/**
 * Finds the fills of an order in sequence: each landed fill left proceeds or change, so the first index without either
 * ends the search. Fill j used anchor j mod count; the count is not on chain, so every count that explains the previous
 * fills is tried.
 */
function recoverFills(scan: KeyScan, { n, anchor: first }: Command, generation: number): boolean {
  const { seed } = scan.wallet
  const order_id = deriveOrderId(seed, scan.key_index, n)
  const anchors = new Map([[0, first]])
  const anchorAt = (i: number): Uint8Array => {
    const anchor = anchors.get(i) ?? deriveAnchor(seed, scan.key_index, ANCHORS_PER_COMMAND * n + i)
    anchors.set(i, anchor)
    return anchor
  }
  let counts = ANCHOR_COUNTS
  for (let j = 0; ; j++) {
    const index = [...new Set(counts.map((count) => j % count))].find((i) => {
      const parts = { anchor: anchorAt(i), order_id, nonce: BigInt(n + 1), generation }
      const proceeds = outputOf(scan, { ...parts, index_role: 2 * j })
      const change = outputOf(scan, { ...parts, index_role: 2 * j + 1 })
      if (proceeds !== undefined) keepRecovered(scan, { ...proceeds, origin: 'proceeds' })
      if (change !== undefined) keepRecovered(scan, { ...change, origin: 'change' })
      const made = proceeds ?? change
      // The fill spent the order's collateral: a note of an earlier command, or the previous fill's change.
      if (made !== undefined) scan.spending.single(made.batch)
      return made !== undefined
    })
    if (index === undefined) return j > 0
    counts = counts.filter((count) => j % count === index)
  }
}

/** A withdrawal leaves change, or a refund, or only its payout; a reshape leaves one to four outputs. */
function recoverPayment(scan: KeyScan, { n, anchor }: Command, generation: number): boolean {
  const parts = { anchor, order_id: NO_ORDER, nonce: BigInt(n + 1), generation }
  const first = outputOf(scan, { ...parts, index_role: 1 })
  const withdrawn_in = recoverRefund(scan, parts)
  if (withdrawn_in !== undefined) {
    if (first !== undefined) keepRecovered(scan, { ...first, origin: 'change' })
    scan.spending.single(withdrawn_in)
    return true
  }
  if (first === undefined) return false
  const outputs = [first]
  for (let j = 1; j < RESHAPE_NOTES_MAX; j++) {
    const output = outputOf(scan, { ...parts, index_role: 2 * j + 1 })
    if (output === undefined) break
    outputs.push(output)
  }
  for (const output of outputs) keepRecovered(scan, { ...output, origin: 'reshape' })
  const sum = outputs.reduce((total, { amount }) => total + amount, 0n)
  scan.spending.reshape(first.batch, encodeBase58(first.mint), sum)
  return true
}

/**
 * Every payout event carries its refund's inner hash, so paid and refunded withdrawals are both recognised.
 * @returns the batch of the withdrawal
 */
function recoverRefund(scan: KeyScan, parts: Omit<BlindingParts, 'index_role'>): number | undefined {
  if (scan.history.withdrawal_inners.size === 0) return undefined
  const blinding = outputBlinding({ ...parts, index_role: REFUND_INDEX_ROLE })
  return scan.history.withdrawal_inners.get(keepProgramNotes(scan, blinding).inner)
}

/** The output of a command with these parts. */
function outputOf(scan: KeyScan, parts: BlindingParts) {
  return findOutput(scan.history, scan.owner, outputBlinding(parts))
}

type FoundOutput = Omit<RecoveredNote, 'origin'> & { batch: number }

/** The settlement output of a blinding: its memo's tag finds candidates, the recomputed commitment of a mint proves one. */
function findOutput(history: VaultHistory, owner: Uint8Array, blinding: Uint8Array): FoundOutput | undefined {
  const candidates = history.outputs_by_tag.get(tagOf(memoTag(blinding)))
  if (candidates === undefined) return undefined
  const inner = noteInner(owner, blinding)
  for (const { commitment, memo, batch } of candidates) {
    const amount = decodeMemo(memo, blinding)!
    for (const mint of history.mints) {
      if (equalBytes(settlementCommitment({ mint, amount, inner }), commitment))
        return { commitment, mint, amount, blinding, batch }
    }
  }
  return undefined
}

type Spent = { mint: string; amount: Amount }
/** Of one key in one batch. */
type BatchUse = {
  /** Spent by commands; exits are no commands. */
  notes: Spent[]
  /** Fills and withdrawals. */
  singles: number
  reshapes: { mint: string; sum: Amount }[]
}

/**
 * Decides whether the commands found so far explain every spent note of a key. A command spends its notes in the batch that
 * makes its outputs: a fill or withdrawal one note, a reshape one to four that sum to its outputs.
 */
export class Spending {
  private readonly uses = new Map<number, BatchUse>()
  private readonly open = new Set<number>()

  note(batch: number, note: Spent): void {
    this.change(batch, ({ notes }) => notes.push(note))
  }
  single(batch: number): void {
    this.change(batch, (use) => {
      use.singles += 1
    })
  }
  reshape(batch: number, mint: string, sum: Amount): void {
    this.change(batch, ({ reshapes }) => reshapes.push({ mint, sum }))
  }

  /** Batches with a note that no command found so far spent, or with more commands than notes. */
  get unexplained(): readonly number[] {
    return [...this.open]
  }
  /** Whether a further command can explain a batch: one with more commands than notes lacks a note. */
  get lacksCommand(): boolean {
    return this.unexplained.some((batch) => {
      const { notes, singles, reshapes } = this.uses.get(batch)!
      return notes.length > singles + reshapes.length || reshapes.length > 0
    })
  }

  private change(batch: number, apply: (use: BatchUse) => unknown): void {
    const use = this.uses.get(batch) ?? { notes: [], singles: 0, reshapes: [] }
    this.uses.set(batch, use)
    apply(use)
    if (isExplained(use)) this.open.delete(batch)
    else this.open.add(batch)
  }
}

/** Whether disjoint groups of notes sum to the reshapes and leave one note for each fill and withdrawal. */
function isExplained({ notes, singles, reshapes }: BatchUse): boolean {
  const grouped = notes.length - singles
  if (grouped < reshapes.length || grouped > RESHAPE_NOTES_MAX * reshapes.length) return false
  const sorted = [...notes].sort((a, b) => (a.amount < b.amount ? 1 : a.amount > b.amount ? -1 : 0))
  return splits(sorted, reshapes, grouped)
}

/** Whether exactly `count` of the notes form the groups of the reshapes. */
function splits(notes: readonly Spent[], reshapes: BatchUse['reshapes'], count: number): boolean {
  const [reshape, ...rest] = reshapes
  if (reshape === undefined) return count === 0
  const alike = notes.filter(({ mint }) => mint === reshape.mint)
  const others = notes.filter(({ mint }) => mint !== reshape.mint)
  for (const left of remaindersOf(alike, reshape.sum, RESHAPE_NOTES_MAX))
    if (splits([...left, ...others], rest, count - (alike.length - left.length))) return true
  return false
}

/** The rest of the notes, which descend, after 1 to `most` that sum to `sum`; equal amounts are tried once. */
function* remaindersOf(notes: readonly Spent[], sum: Amount, most: number): Generator<Spent[]> {
  for (const [at, { amount }] of notes.entries()) {
    if (amount > sum || notes[at - 1]?.amount === amount) continue
    const [before, after] = [notes.slice(0, at), notes.slice(at + 1)]
    if (amount === sum) yield [...before, ...after]
    else if (most > 1)
      for (const left of remaindersOf(after, sum - amount, most - 1)) yield [...before, ...left]
  }
}
