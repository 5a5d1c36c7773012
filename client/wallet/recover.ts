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
import type { Amount } from '../../protocol/units'
import { GAP_LIMITS } from '../limits'
import { keepProgramNotes, keepRecovered, REFUND_INDEX_ROLE, type RecoveredNote } from './absorb_recovered'
import { tagOf, type VaultHistory } from './vault_history'
import { Wallet, type WalletNote } from './wallet'

/** The numbers of unused keys, deposits and commands in a row that end a search. */
export type GapLimits = { keys: number; deposits: number; commands: number }

/** A note of the key, and the batch that spent it. */
type SpentNote = Pick<WalletNote, 'mint' | 'amount'> & { batch: number }

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
  /** Notes of the key that its commands spent. */
  spent: SpentNote[]
  /**
   * Number of spent notes without a known spending command. A command spends only deposits and notes of earlier
   * commands, so at 0 no command is left to find.
   */
  unexplained: number
}

/**
 * The wallet with every note that its keys ever had, spent ones marked by their nullifiers. Counters follow the last use
 * that left a trace on chain; `alignCounters` adds orders that never filled.
 *
 * Cost: a tried deposit is one derivation and one Poseidon hash, so the default limits take 21,000 hashes for an unused
 * seed: 1 s of one core compiled, 4 s in JavaScript. A command takes three to five hashes, but commands are tried only for
 * keys with a deposit, which alone brings a key its first note, and only while a spent note lacks its spending command.
 * @param generation the vault's current generation (config account)
 */
export function recoverWallet(
  seed: Uint8Array,
  history: VaultHistory,
  generation: number,
  limits: GapLimits = GAP_LIMITS,
): Wallet {
  const wallet = new Wallet(seed)
  const generations = Array.from({ length: generation + 1 }, (_, at) => at)
  for (let key_index = 0, unused = 0; unused < limits.keys; key_index++) {
    const owner = wallet.tradingKey(key_index)
    const scan: KeyScan = {
      wallet,
      history,
      limits,
      generations,
      key_index,
      owner,
      spent: [],
      unexplained: 0,
    }
    if (recoverDeposits(scan)) {
      recoverCommands(scan)
      unused = 0
    } else {
      unused += 1
    }
  }
  return wallet
}

/** Finds a key's deposits and the refunds of its exits, which are derived as deposits. @returns whether the key was used */
function recoverDeposits(scan: KeyScan): boolean {
  const { wallet, history, limits, key_index } = scan
  let count = 0
  for (let d = 0; d - count < limits.deposits; d++) {
    const { used, inner } = keepProgramNotes(scan, deriveDepositBlinding(wallet.seed, key_index, d))
    if (used || history.exit_inners.has(inner)) count = d + 1
  }
  if (count > 0) wallet.counters(key_index).deposits = count
  return count > 0
}

const NO_ORDER = new Uint8Array(16)
/** Possible numbers of anchors of an order, starting with that of this wallet's own orders. */
const ANCHOR_COUNTS: readonly number[] = [4, 1, 2, 3, ...Array.from({ length: 12 }, (_, at) => at + 5)]

/** Finds the fills, withdrawals and reshapes of a key's commands. */
function recoverCommands(scan: KeyScan): void {
  const { wallet, limits, key_index, generations } = scan
  let count = 0
  for (let n = 0; scan.unexplained !== 0 && n - count < limits.commands; n++) {
    const found = generations.some(
      (generation) => recoverFills(scan, n, generation) || recoverPayment(scan, n, generation),
    )
    if (found) count = n + 1
  }
  wallet.counters(key_index).commands = count
}

/**
 * Finds the fills of an order in sequence: each landed fill left proceeds or change, so the first index without either
 * ends the search. Fill j used anchor j mod count; the count is not on chain, so every count that explains the previous
 * fills is tried.
 */
function recoverFills(scan: KeyScan, n: number, generation: number): boolean {
  const { seed } = scan.wallet
  const order_id = deriveOrderId(seed, scan.key_index, n)
  const anchors = new Map<number, Uint8Array>()
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
      return proceeds !== undefined || change !== undefined
    })
    if (index === undefined) return j > 0
    counts = counts.filter((count) => j % count === index)
    // The fill spent the order's collateral: a note of an earlier command, or the previous fill's change.
    scan.unexplained -= 1
  }
}

/** A withdrawal leaves change, or a refund, or only its payout; a reshape leaves one to four outputs. */
function recoverPayment(scan: KeyScan, n: number, generation: number): boolean {
  const anchor = deriveAnchor(scan.wallet.seed, scan.key_index, ANCHORS_PER_COMMAND * n)
  const parts = { anchor, order_id: NO_ORDER, nonce: BigInt(n + 1), generation }
  const first = outputOf(scan, { ...parts, index_role: 1 })
  const withdrawn = recoverRefund(scan, parts)
  if (first === undefined && !withdrawn) return false
  if (first === undefined || withdrawn) {
    if (first !== undefined) keepRecovered(scan, { ...first, origin: 'change' })
    scan.unexplained -= 1
    return true
  }
  const outputs = [first]
  for (let j = 1; j < RESHAPE_NOTES_MAX; j++) {
    const output = outputOf(scan, { ...parts, index_role: 2 * j + 1 })
    if (output === undefined) break
    outputs.push(output)
  }
  for (const output of outputs) keepRecovered(scan, { ...output, origin: 'reshape' })
  const sum = outputs.reduce((total, { amount }) => total + amount, 0n)
  scan.unexplained -= fewestInputs(scan.spent, { mint: encodeBase58(first.mint), batch: first.batch, sum })
  return true
}

/** Every payout event carries its refund's inner hash, so paid and refunded withdrawals are both recognised. */
function recoverRefund(scan: KeyScan, parts: Omit<BlindingParts, 'index_role'>): boolean {
  if (scan.history.withdrawal_inners.size === 0) return false
  const blinding = outputBlinding({ ...parts, index_role: REFUND_INDEX_ROLE })
  const { inner } = keepProgramNotes(scan, blinding)
  return scan.history.withdrawal_inners.has(inner)
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

/**
 * The least number of notes, spent in the batch of a reshape, that sum to its outputs. The chain does not connect a
 * reshape with the nullifiers of its batch; its inputs are among them, so the result never exceeds their true count and
 * the search for commands never ends too early.
 */
function fewestInputs(
  spent: readonly SpentNote[],
  made: { mint: string; batch: number; sum: Amount },
): number {
  const alike = spent.filter(({ mint, batch }) => mint === made.mint && batch === made.batch)
  const amounts = alike.map(({ amount }) => BigInt(amount))
  for (let count = 1; count <= RESHAPE_NOTES_MAX; count++)
    if (sumsTo(amounts, made.sum, count, 0)) return count
  return 1
}

/** Whether `count` of the amounts from index `from` on sum to `sum`. */
function sumsTo(amounts: readonly Amount[], sum: Amount, count: number, from: number): boolean {
  if (count === 0) return sum === 0n
  for (let at = from; at <= amounts.length - count; at++)
    if (amounts[at]! <= sum && sumsTo(amounts, sum - amounts[at]!, count - 1, at + 1)) return true
  return false
}
