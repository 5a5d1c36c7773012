/**
 * Keeps the vault's public history in a file, so that the next read asks a node only for newer transactions. Bun and Node.
 *
 * Lines of JSON: a head that names chain and vault, transactions in the order they were read, and after every read a seal,
 * the SHA-256 of all lines before it. Lines after the last valid seal are ignored. A seal proves integrity, not truth: the
 * trees rebuilt from the history are compared with the vault.
 */
import { closeSync, existsSync, fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs'
import { sha256 } from '@noble/hashes/sha2.js'
import { toHex } from '../../protocol/bytes'

/** A transaction of the vault: the data of its inner instructions to the program, events included. */
export type KeptTransaction = { signature: string; slot: number; data: readonly Uint8Array[] }
/** The chain and the vault of a history, base58. */
type HistoryOf = { genesis_hash: string; program_id: string }
type KeptHistory = { transactions: KeptTransaction[]; sealed_bytes: number }

const VERSION = 1
type Line = { signature: string; slot: number; data: string[]; seal?: string }

/** Empty when there is no file or it has another vault or version; the next write replaces it. */
export function loadHistory(path: string, of: HistoryOf): KeptHistory {
  const empty: KeptHistory = { transactions: [], sealed_bytes: 0 }
  if (!existsSync(path)) return empty
  const content = readFileSync(path)
  const seal = sha256.create()
  const kept: KeptHistory = { transactions: [], sealed_bytes: 0 }
  let unsealed: KeptTransaction[] = []
  for (let from = 0, to = 0; from < content.length; from = to) {
    to = content.indexOf('\n', from) + 1
    if (to === 0) break
    const line = content.subarray(from, to)
    if (from === 0 && !line.equals(headOf(of))) return empty
    if (from > 0) {
      const read = parse(line)
      if (read === undefined) break
      if (typeof read !== 'string') unsealed.push(read)
      else if (read === toHex(seal.clone().digest())) {
        kept.transactions.push(...unsealed)
        kept.sealed_bytes = to
        unsealed = []
      } else break
    }
    seal.update(line)
  }
  return kept
}

/** Appends `fresh` after the last seal and seals it; synced to disk before it returns. */
export function extendHistory(
  path: string,
  of: HistoryOf,
  kept: KeptHistory,
  fresh: readonly KeptTransaction[],
): void {
  if (fresh.length === 0) return
  const sealed = kept.sealed_bytes === 0 ? headOf(of) : readFileSync(path).subarray(0, kept.sealed_bytes)
  const lines = fresh.map(({ signature, slot, data }) =>
    lineOf({ signature, slot, data: data.map((one) => Buffer.from(one).toString('base64')) }),
  )
  const added = Buffer.concat(lines)
  const seal = toHex(sha256.create().update(sealed).update(added).digest())
  const file = openSync(path, kept.sealed_bytes === 0 ? 'w' : 'r+', 0o600)
  try {
    ftruncateSync(file, kept.sealed_bytes)
    const whole = Buffer.concat([...(kept.sealed_bytes === 0 ? [sealed] : []), added, lineOf({ seal })])
    writeSync(file, whole, 0, whole.length, kept.sealed_bytes)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

const lineOf = (value: object): Buffer => Buffer.from(`${JSON.stringify(value)}\n`)
const headOf = ({ genesis_hash, program_id }: HistoryOf): Buffer =>
  lineOf({ version: VERSION, genesis_hash, program_id })

/** A transaction, or a seal; undefined for neither. */
function parse(line: Buffer): KeptTransaction | string | undefined {
  try {
    const { seal, signature, slot, data } = JSON.parse(line.toString('utf8')) as Line
    if (seal !== undefined) return seal
    return { signature, slot, data: data.map((one) => new Uint8Array(Buffer.from(one, 'base64'))) }
  } catch {
    return undefined
  }
}
