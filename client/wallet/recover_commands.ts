/** Finds what a key's note-creating commands left on chain: fills of orders, withdrawals, reshapes. */
import { encodeBase58 } from '../../protocol/base58'
import { deriveAnchor, deriveOrderId } from '../../protocol/derive'
import { type BlindingParts, outputBlinding } from '../../protocol/notes'
import { findOutput } from './find_output'
import { keepProgramNotes, keepRecovered } from './keep_recovered'
import { fewestInputs } from './merged_inputs'
import type { KeyScan } from './recover'

const ANCHORS_PER_COMMAND = 16
const NO_ORDER = new Uint8Array(16)
const REFUND_INDEX_ROLE = 3
const RESHAPE_OUTPUTS_MAX = 4
/** How many anchors an order may have had; what this wallet gives its orders first. */
const ANCHOR_COUNTS: readonly number[] = [4, 1, 2, 3, ...Array.from({ length: 12 }, (_, at) => at + 5)]

export function recoverCommands(scan: KeyScan): void {
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
  for (let j = 1; j < RESHAPE_OUTPUTS_MAX; j++) {
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
