/** Keeps a wallet in a file only its owner can read. */

import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { fromHex, toHex } from '../../protocol/bytes'
import { installPoseidon } from '../../protocol/notes/poseidon'
import { Wallet, type WalletState } from './wallet'

// Keeps a wallet in a file only its owner can read. The seed alone recovers everything else from the chain.

/** Of the file's form; a file without one is of version 1. */
const VERSION = 1
type Content = { version?: unknown; seed?: unknown; state?: WalletState }

/** The file is there and cannot be read as a wallet. */
export class NotAWallet extends Error {
  constructor(path: string, what: string) {
    super(`${path} ${what}`)
    this.name = 'NotAWallet'
  }
}

/** On disk before it returns; whoever is cut short leaves the file as it was. */
export function saveWallet(path: string, wallet: Wallet): void {
  const content: Content = { version: VERSION, seed: toHex(wallet.seed), state: wallet.state }
  const file = openSync(`${path}.new`, 'w', 0o600)
  writeSync(file, `${JSON.stringify(content, null, 1)}\n`)
  fsyncSync(file)
  closeSync(file)
  renameSync(`${path}.new`, path)
}

/** The wallet in the file, or undefined when there is none. @throws NotAWallet */
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

// Lets this process hash with compiled code where there is some: a wallet's search is hashing and little else.

/** Elsewhere the pure implementation goes on; both give the same hashes. */
export function hashFast(): void {
  const native = loadNativePoseidon()
  if (native !== undefined) installPoseidon(native)
}
