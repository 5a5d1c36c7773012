/** Runs `wallet create`, `words`, `encrypt`, `backup` and `restore`: seeds and wallet files, without chain or venue. */
import { closeSync, existsSync, fsyncSync, openSync, writeFileSync } from 'node:fs'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { Refused } from '../verify/transcript'
import { seedOfWords, wordsOfSeed } from '../wallet/seed_words'
import { Wallet } from '../wallet/wallet'
import { loadWallet, saveWallet } from '../wallet/wallet_file'
import { readInputText } from './command'
import { type CommandOptions, lockPath, requireOwn } from './options'

/**
 * `wallet create`: a new seed file, or one from 24 words, and an empty wallet. Never overwrites a file: a lost seed is lost
 * money.
 */
export function createWallet(options: CommandOptions): void {
  const path = options.text('seed-file')
  const wallet_path = options.optional('wallet')
  const password = options.password()
  if (wallet_path !== undefined && existsSync(wallet_path))
    throw new Refused(`${wallet_path} exists: name another`)
  const words = options.optional('words-file')
  const seed =
    words === undefined
      ? crypto.getRandomValues(new Uint8Array(32))
      : seedOfWords(readInputText(requireOwn(words)))
  let file: number
  try {
    file = openSync(path, 'wx', 0o600)
  } catch {
    throw new Refused(`${path} exists, or cannot be made: name another, a seed is never written over`)
  }
  writeFileSync(file, `${toHex(seed)}\n`)
  fsyncSync(file)
  closeSync(file)
  console.log(`seed         ${path} (back it up: with the public chain it recovers every note)`)
  const wallet = new Wallet(seed)
  if (wallet_path !== undefined) {
    saveWallet(wallet_path, wallet, password === undefined ? {} : { password })
    console.log(`wallet       ${wallet_path}${password === undefined ? '' : ', encrypted'}`)
  }
  // A seed without a wallet may be a payer's, whose address is not the trading key.
  else console.log(`as payer     ${encodeBase58(publicKeyOf(seed))}`)
  console.log(`trading key  ${wallet.tradingKeyText(0)}`)
}

/** `wallet words`: the seed as 24 words, to be written on paper. */
export function showWords(options: CommandOptions): void {
  const words = wordsOfSeed(options.seed('seed-file')).split(' ')
  for (let row = 0; row < words.length; row += 6)
    console.log(
      words
        .slice(row, row + 6)
        .map((word, at) => `${String(row + at + 1).padStart(2)} ${word.padEnd(9)}`)
        .join(''),
    )
}

/** `wallet encrypt`: under the password from now on. A copy of the old file elsewhere stays as it is. */
export function encryptWallet(options: CommandOptions): void {
  const password = neededPassword(options)
  const wallet = options.walletToChange()
  saveWallet(options.text('wallet'), wallet, { password })
  console.log(
    `wallet       ${options.text('wallet')} is encrypted: without its password only the seed opens it`,
  )
}

/** `wallet backup`: an encrypted copy of a wallet that no program is changing. */
export function backupWallet(options: CommandOptions): void {
  const [path, password] = [options.text('out'), neededPassword(options)]
  if (existsSync(path)) throw new Refused(`${path} exists: name another, a backup is never written over`)
  const { seed, state } = options.walletToChange()
  saveWallet(path, new Wallet(seed, state), { password })
  console.log(`backup       ${path}, encrypted: 'wallet restore' reads it`)
}

/** `wallet restore`: a wallet file from a backup, encrypted as the backup is. */
export function restoreWallet(options: CommandOptions): void {
  const [from, path] = [options.text('backup'), options.text('wallet')]
  if (existsSync(path)) throw new Refused(`${path} exists: name another, a wallet is never written over`)
  const password = options.password()
  const wallet = loadWallet(from, password)
  if (wallet === undefined) throw new Refused(`there is no backup at ${from}`)
  lockPath(path)
  saveWallet(path, wallet)
  console.log(`wallet       ${path}`)
  console.log("run 'wallet sync' before anything else: the backup knows nothing of what came after it")
}

function neededPassword(options: CommandOptions): string {
  options.text('password-file')
  return options.password()!
}
