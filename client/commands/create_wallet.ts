/** `wallet create`: a new seed in a file, an empty wallet beside it, and the addresses they give. */
import { closeSync, existsSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { Wallet } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import { CommandRefused } from './command_refused'
import type { CommandOptions } from './options'

/** Never writes over a file: a lost seed is lost money. */
export function createWallet(options: CommandOptions): void {
  const path = options.text('seed-file')
  const wallet_path = options.optional('wallet')
  if (wallet_path !== undefined && existsSync(wallet_path))
    throw new CommandRefused(`${wallet_path} exists: name another`)
  const seed = crypto.getRandomValues(new Uint8Array(32))
  let file: number
  try {
    file = openSync(path, 'wx', 0o600)
  } catch {
    throw new CommandRefused(`${path} exists, or cannot be made: name another, a seed is never written over`)
  }
  writeSync(file, `${toHex(seed)}\n`)
  fsyncSync(file)
  closeSync(file)
  console.log(`seed         ${path} (back it up: with the public chain it recovers every note)`)
  const wallet = new Wallet(seed)
  if (wallet_path !== undefined) {
    saveWallet(wallet_path, wallet)
    console.log(`wallet       ${wallet_path}`)
  }
  // A seed of its own may also be a payer's, and whoever funds one must not take the trading key for its address.
  else console.log(`as payer     ${encodeBase58(publicKeyOf(seed))}`)
  console.log(`trading key  ${wallet.tradingKeyText(0)}`)
}
