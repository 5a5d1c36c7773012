/**
 * Keeps the texts of a batch's events in memory that both threads read. Strings would be copied to the other thread, and live long
 * enough for the collector to promote them.
 */

import { LIMITS } from '../limits'
import type { LoggedEvents, NewTexts } from './contract'

/** Before each text: the number of its account in the batch, and its bytes. */
const HEADER_BYTES = 8
/** Of UTF-8, for each unit of a string. */
const BYTES_PER_UNIT = 3

export class EventLog {
  private bytes = 0

  /** @param memory of a log that is no longer read */
  constructor(private memory = shared(LIMITS.history_log_bytes)) {}

  /** Returns the place of the text. */
  add(account: number, text: string): number {
    const at = this.bytes + HEADER_BYTES
    const needed = at + text.length * BYTES_PER_UNIT
    if (needed > this.memory.length) {
      const larger = shared(Math.max(needed, 2 * this.memory.length))
      this.memory.copy(larger, 0, 0, this.bytes)
      this.memory = larger
    }
    const written = this.memory.write(text, at)
    this.memory.writeUInt32LE(account, this.bytes)
    this.memory.writeUInt32LE(written, this.bytes + 4)
    this.bytes = at + written
    return at
  }

  text(at: number): string {
    return this.memory.toString('utf8', at, at + this.memory.readUInt32LE(at - 4))
  }

  /** For the other thread, which reads while this one does. */
  shared = (): Pick<LoggedEvents, 'memory' | 'bytes'> => ({
    memory: this.memory.buffer as unknown as SharedArrayBuffer,
    bytes: this.bytes,
  })

  /** For another log, once nothing reads this one. */
  free = (): Buffer => this.memory
}

const shared = (bytes: number): Buffer => Buffer.from(new SharedArrayBuffer(bytes) as unknown as ArrayBuffer)

/** Each account's events in order. */
export function textsOf({ memory, bytes, account_ids }: LoggedEvents): NewTexts[] {
  const from = Buffer.from(memory as unknown as ArrayBuffer)
  const accounts = account_ids.map((account_id): NewTexts => ({ account_id, texts: [] }))
  for (let at = 0; at < bytes; ) {
    const text_at = at + HEADER_BYTES
    const account = from.readUInt32LE(at)
    at = text_at + from.readUInt32LE(at + 4)
    accounts[account]!.texts.push(from.toString('utf8', text_at, at))
  }
  return accounts
}
