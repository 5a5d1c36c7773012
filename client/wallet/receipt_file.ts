/** Keeps verified receipts and their certificates next to the wallet, sealed under a key of its seed. Bun and Node. */
import { toHex, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { RECEIPTS_KEPT_MAX } from '../limits'
import {
  certifiedBy,
  PROOF_FORMAT,
  type ReceiptProof,
  type StatementCertificate,
} from '../verify/verify_receipt'
import { writeWhole } from '../whole_file'
import { hexBytes, sealBytes, unsealBytes } from './sealed_text'

/** A receipt that was verified when it came. `id` is that of the request's outcome. */
export type KeptReceipt = Pick<ReceiptProof, 'command' | 'receipt'> & { id: string }

/** Asked for when it is used: a browser's bundle has no such module. */
const disk = (): typeof import('node:fs') => process.getBuiltinModule('node:fs')
/** The first character of a line. */
type Kind = 'c' | 'r'

export class ReceiptFile {
  private readonly path: string
  private readonly key: Uint8Array
  /** By epoch. */
  private readonly known = new Map<string, StatementCertificate>()
  private count = 0
  /** Lines that a full disk did not take; the next write carries them. */
  private unwritten = ''

  /** @param wallet_path the wallet's file; the receipts' is in the same folder */
  constructor(wallet_path: string, seed: Uint8Array) {
    this.path = `${wallet_path}.receipts`
    this.key = sha256(utf8('tacit/receipts/v1'), seed)
    const lines = this.lines()
    this.count = lines.filter((line) => line.startsWith('r')).length
    for (const line of lines) {
      const one = line.startsWith('c') ? this.opened<StatementCertificate>(line) : undefined
      if (one !== undefined) this.known.set(one.certificate, one)
    }
  }

  /** Of every epoch that this wallet's sessions verified and that is still kept, oldest first. */
  get certificates(): readonly StatementCertificate[] {
    return [...this.known.values()]
  }

  /** The newest receipt of an order or request. */
  find(id: string): KeptReceipt | undefined {
    for (const line of this.lines().reverse()) {
      const one = line.startsWith('r') ? this.opened<KeptReceipt>(line) : undefined
      if (one?.id === id) return one
    }
    return undefined
  }

  /** Undefined where the certificate of its epoch is gone. */
  proofOf({ command, receipt }: KeptReceipt): ReceiptProof | undefined {
    const one = this.certificates.find((other) => certifiedBy(other).epoch === BigInt(receipt.epoch))
    return one && { format: PROOF_FORMAT, ...one, command, receipt }
  }

  keepCertificate(one: StatementCertificate): void {
    if (this.known.has(one.certificate)) return
    this.known.set(one.certificate, one)
    this.append('c', one)
  }
  keep(receipt: KeptReceipt): void {
    this.append('r', receipt)
    this.count += 1
    if (this.count >= 2 * RECEIPTS_KEPT_MAX) this.shorten()
  }

  /** A disk that takes nothing keeps no order from being traded: the line waits for the next one. */
  private append(kind: Kind, value: object): void {
    this.unwritten += `${this.sealed(kind, value)}\n`
    const { closeSync, fsyncSync, ftruncateSync, fstatSync, openSync, writeFileSync } = disk()
    let file: number | undefined
    try {
      file = openSync(this.path, 'a', 0o600)
      const { size } = fstatSync(file)
      try {
        // A line that was torn by an end of the process ends here.
        writeFileSync(file, size === 0 ? this.unwritten : `\n${this.unwritten}`)
        fsyncSync(file)
        this.unwritten = ''
      } catch {
        ftruncateSync(file, size)
      }
    } catch {
      // Nothing was written.
    } finally {
      if (file !== undefined) closeSync(file)
    }
  }

  /** Drops the older half, and certificates that no receipt kept needs. */
  private shorten(): void {
    const kept = this.lines()
      .filter((line) => line.startsWith('r'))
      .slice(-RECEIPTS_KEPT_MAX)
    const newest = this.certificates.slice(-RECEIPTS_KEPT_MAX).map((one) => this.sealed('c', one))
    try {
      writeWhole(this.path, `${[...newest, ...kept].join('\n')}\n`, 0o600)
      this.count = kept.length
    } catch {
      // The longer file stays.
    }
  }

  private lines(): string[] {
    const { existsSync, readFileSync } = disk()
    if (!existsSync(this.path)) return []
    return readFileSync(this.path, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
  }
  private sealed(kind: Kind, value: object): string {
    return `${kind}${toHex(sealBytes(JSON.stringify(value), this.key, kind))}`
  }
  /** Undefined for a torn or changed line. */
  private opened<T>(line: string): T | undefined {
    const text = unsealBytes(hexBytes(line.slice(1)) ?? new Uint8Array(), this.key, line.slice(0, 1))
    return text === undefined ? undefined : (JSON.parse(text) as T)
  }
}
