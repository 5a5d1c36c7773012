/** Keeps a wallet in a file only its owner can read. The seed alone recovers everything else from the chain. */
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, renameSync, writeSync } from 'node:fs'
import { fromHex, toHex } from '../../protocol/bytes'
import { Wallet, type WalletState } from './wallet'

export function saveWallet(path: string, wallet: Wallet): void {
  const file = openSync(`${path}.new`, 'w', 0o600)
  writeSync(file, `${JSON.stringify({ seed: toHex(wallet.seed), state: wallet.state }, null, 1)}\n`)
  fsyncSync(file)
  closeSync(file)
  renameSync(`${path}.new`, path)
}

/** The wallet in the file, or undefined when there is none. @throws Error when the file is not a wallet. */
export function loadWallet(path: string): Wallet | undefined {
  if (!existsSync(path)) return undefined
  const { seed, state } = JSON.parse(readFileSync(path, 'utf8')) as { seed: string; state: WalletState }
  const bytes = fromHex(seed, 32)
  if (bytes === undefined) throw new Error('not a wallet file')
  return new Wallet(bytes, state)
}
