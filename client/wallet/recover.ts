/** Recovers every note of a seed from the public history. */
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
import { GAP_LIMITS } from '../limits'
import { keepProgramNotes, keepRecovered, type RecoveredNote } from './absorb_recovered'
import { tagOf, type VaultHistory } from './vault_history'
import { Wallet, type WalletNote } from './wallet'

// Finds the settlement output made with a blinding: its memo's tag leads to it, its commitment proves it.

type FoundOutput = Omit<RecoveredNote, 'origin'> & { batch: number }

/** Equal tags are settled by recomputing the commitment for each mint the vault ever took. */
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

// How many notes a recovered reshape spent: the chain shows its outputs and, unconnected, the nullifiers of its batch.

/** A note of the key that a batch spent. */
type SpentNote = Pick<WalletNote, 'mint' | 'amount'> & { batch: number }

/**
 * The fewest notes spent in its batch that sum to the outputs. The true inputs are among them, so the answer is never
 * above the true count, and a search that counts with it never ends too early.
 */
function fewestInputs(
  spent: readonly SpentNote[],
  made: { mint: string; batch: number; sum: bigint },
): number {
  const alike = spent.filter(({ mint, batch }) => mint === made.mint && batch === made.batch)
  const amounts = alike.map(({ amount }) => BigInt(amount))
  for (let count = 1; count <= RESHAPE_NOTES_MAX; count++)
    if (sumsTo(amounts, made.sum, count, 0)) return count
  return 1
}

/** Whether `count` of the amounts from place `from` on sum to `sum`. */
function sumsTo(amounts: readonly bigint[], sum: bigint, count: number, from: number): boolean {
  if (count === 0) return sum === 0n
  for (let at = from; at <= amounts.length - count; at++)
    if (amounts[at]! <= sum && sumsTo(amounts, sum - amounts[at]!, count - 1, at + 1)) return true
  return false
}

// Finds what a key's note-creating commands left on chain: fills of orders, withdrawals, reshapes.

const NO_ORDER = new Uint8Array(16)
const REFUND_INDEX_ROLE = 3
/** How many anchors an order may have had; what this wallet gives its orders first. */
const ANCHOR_COUNTS: readonly number[] = [4, 1, 2, 3, ...Array.from({ length: 12 }, (_, at) => at + 5)]

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

/** The outputs of a command under a given anchor. */
function outputOf(scan: KeyScan, parts: BlindingParts) {
  return findOutput(scan.history, scan.owner, outputBlinding(parts))
}

/**
 * Fills are found one after the other: each landed fill left proceeds or change, so the first one without either is the
 * last. Fill j used anchor j mod count; the count is not on chain, so the anchors of every count that explains the fills
 * before are tried.
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
    // It spent the order's collateral: a note of an earlier command, or the change of the fill before.
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

/** Every payout tells its refund's inner hash, so a withdrawal is recognised whether it was paid or refunded. */
function recoverRefund(scan: KeyScan, parts: Omit<BlindingParts, 'index_role'>): boolean {
  if (scan.history.withdrawal_inners.size === 0) return false
  const blinding = outputBlinding({ ...parts, index_role: REFUND_INDEX_ROLE })
  const { inner } = keepProgramNotes(scan, blinding)
  return scan.history.withdrawal_inners.has(inner)
}

// Recovers a wallet from its seed and the vault's public history alone (protocol.md "Wallet derivation and recovery").
//
// Cost: a deposit tried is one derivation and one Poseidon hash, so the default limits ask some 21,000 hashes even of a seed
// that was never used: 1 s of one core compiled, 4 s in pure JavaScript. Commands cost three to five hashes each, but are
// tried only for keys that own a deposit, because nothing else brings a key its first note, and only while a spent note of the
// key still lacks the command that spent it: the search ends with a key's last command.

/** How many unused places in a row end a search. */
export type GapLimits = { keys: number; deposits: number; commands: number }

/** One key's search. */
export type KeyScan = {
  wallet: Wallet
  history: VaultHistory
  limits: GapLimits
  /** Every generation of the vault: a note keeps the one it was made in. */
  generations: readonly number[]
  key_index: number
  /** Public key. */
  owner: Uint8Array
  /** Notes of the key that commands spent. */
  spent: SpentNote[]
  /**
   * How many of them no found command spent. A command can only spend notes of commands before it and of deposits, so
   * at 0 there is no command left to find.
   */
  unexplained: number
}

/**
 * The wallet with every note its keys ever had, spent ones marked by their nullifiers. Counters stand behind the last
 * use that left a trace; `alignCounters` takes the venue's, which also counts orders that never filled.
 * @param generation the vault's generation now (config account)
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

// Finds a key's deposits, and the refunds of its exits, whose notes are derived as deposits are.

/** @returns whether the key was ever used */
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
