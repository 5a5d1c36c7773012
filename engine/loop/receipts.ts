/** Signs one receipt per group of records and hands each client command its own proof (engine.md "Receipts"). */
import { concatBytes, toHex } from '../../protocol/bytes'
import { encodeReceipt, receiptLeaf } from '../../protocol/receipt'
import { sha256 } from '../../protocol/sha256'
import type { Receipt } from '../../protocol/wire'
import type { Appended } from '../journal/contract'

export type ReceiptSigner = {
  venue: Uint8Array
  epoch: number
  /** Ed25519 by the statement key over the 128 receipt bytes. */
  sign: (body: Uint8Array) => Uint8Array
}

/** What the receipts of one group are made of, in little room: any of them can be made again. */
export type ReceiptGroup = {
  readonly common: Omit<Receipt, 'index' | 'path'>
  /** 32 bytes each, in order. */
  readonly leaves: Uint8Array
}

/** One receipt per entry of `signed`, in order; each entry is a canonical body with its signature. */
export function receiptsOf(
  signer: ReceiptSigner,
  appended: Appended,
  signed: readonly Uint8Array[],
): { group: ReceiptGroup; receipts: Receipt[] } | undefined {
  if (signed.length === 0) return undefined
  const leaves = signed.map(receiptLeaf)
  const { root, paths } = receiptTree(leaves)
  const { seq_last: seq, head } = appended
  const { venue, epoch } = signer
  const body = encodeReceipt({ venue, epoch: BigInt(epoch), seq: BigInt(seq), head, root })
  const signature = toHex(signer.sign(body))
  const common = { epoch, seq, head: toHex(head), root: toHex(root), signature }
  return {
    group: { common, leaves: concatBytes(...leaves) },
    receipts: paths.map((path, index) => ({ ...common, index, path })),
  }
}

/** The receipt of the group's entry `index`, made again. */
export function receiptOf({ common, leaves }: ReceiptGroup, index: number): Receipt {
  const each = Array.from({ length: leaves.length / 32 }, (_, at) => leaves.subarray(32 * at, 32 * at + 32))
  return { ...common, index, path: receiptTree(each).paths[index]! }
}

/**
 * Root and all audit paths, in hex, of an RFC 6962 tree at once: the paths of one leaf at a time would hash a group of n
 * commands n times. A node's text is made once and stands in the paths of all leaves across from it.
 */
export function receiptTree(leaves: readonly Uint8Array[]): { root: Uint8Array; paths: string[][] } {
  const paths: string[][] = leaves.map(() => [])
  const climb = (from: number, to: number): Uint8Array => {
    if (to - from === 1) return leaves[from]!
    let size = 1
    while (size * 2 < to - from) size *= 2
    const left = climb(from, from + size)
    const right = climb(from + size, to)
    const left_text = toHex(left)
    const right_text = toHex(right)
    for (let at = from; at < to; at++) paths[at]!.push(at < from + size ? right_text : left_text)
    return sha256(NODE, left, right)
  }
  return { root: climb(0, leaves.length), paths }
}

const NODE = Uint8Array.of(1)
