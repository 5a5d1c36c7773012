/** Keeps a wallet in a file that only its owner can read. Bun and Node. */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { fromHex, toHex } from '../../protocol/bytes'
import { Wallet, type WalletState } from './wallet'

/** A file without a version is of version 1. */
const VERSION = 1
type Content = { version?: unknown; seed?: unknown; state?: WalletState }

/** The file exists and is not a wallet; the message names the next step. */
export class NotAWallet extends Error {
  constructor(path: string, finding: string) {
    super(`${path} ${finding}`)
    this.name = 'NotAWallet'
  }
}

/** Synced to disk before it returns; an interrupted save leaves the previous file. */
export function saveWallet(path: string, wallet: Wallet): void {
  const content: Content = { version: VERSION, seed: toHex(wallet.seed), state: wallet.state }
  const file = openSync(`${path}.new`, 'w', 0o600)
  try {
    // Writes all of it or throws; writeSync may write a part.
    writeFileSync(file, `${JSON.stringify(content, null, 1)}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(`${path}.new`, path)
}

/** Undefined when there is no file. @throws NotAWallet */
export function loadWallet(path: string): Wallet | undefined {
  if (!existsSync(path)) return undefined
  const { version = 1, seed, state } = parse(path)
  if (version !== VERSION)
    throw new NotAWallet(
      path,
      `has version ${version}, this program reads ${VERSION}: use the one that wrote it`,
    )
  const bytes = typeof seed === 'string' ? fromHex(seed, 32) : undefined
  if (bytes === undefined || !Array.isArray(state?.notes))
    throw new NotAWallet(path, 'is not a wallet: recover it from its seed into another file')
  return new Wallet(bytes, state)
}

function parse(path: string): Content {
  try {
    return (JSON.parse(readFileSync(path, 'utf8')) ?? {}) as Content
  } catch {
    throw new NotAWallet(path, 'cannot be read as a wallet: recover it from its seed into another file')
  }
}
