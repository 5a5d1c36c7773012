/** The remains of venue and client when everything stops at one moment: folder, wallet, and the caller's knowledge. */
import { copyFileSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

/** @param skips files that hold nothing yet, and those that SQLite makes again */
export function copyFolder(from: string, to: string): void {
  mkdirSync(to, { recursive: true })
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (/^spare|-shm$/.test(entry.name)) continue
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) copyFolder(source, target)
    else copyFileSync(source, target)
  }
}

/** A wallet and the remains of an interrupted save. */
export function copyWallet(from: string, to: string): void {
  for (const end of ['', '.new', '.last']) if (existsSync(from + end)) copyFileSync(from + end, to + end)
}

/** The knowledge of a client's caller besides the wallet: deposits, reported outcomes, and the sent bytes. */
export type Known = {
  deposited: Map<string, bigint>
  told: Map<string, string>
  bytes: Map<string, string>
}
