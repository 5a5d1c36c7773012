/** `tacit wallet create`, `words`, `encrypt`, `backup` and `restore` make and keep seeds and wallet files, without chain or venue. */
import { existsSync } from 'node:fs'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { Refused } from '../verify/transcript'
import { seedOfWords, wordsOfSeed } from '../wallet/seed_words'
import { Wallet } from '../wallet/wallet'
import { loadWallet, saveWallet } from '../wallet/wallet_file'
import { writeNew } from '../whole_file'
import type { Call, Verb } from './call'
import { readInputText } from './command'
import { lockPath, requireOwn } from './config'

/**
 * `wallet create`: a new seed file, or one from 24 words, and an empty wallet. Never overwrites a file: a lost seed is lost
 * money.
 */
function createWallet(call: Call): void {
  const path = call.text('seed-file')
  const wallet_path = call.optional('wallet')
  const password = call.password()
  if (wallet_path !== undefined && existsSync(wallet_path))
    throw new Refused(`${wallet_path} exists: name another`)
  if (existsSync(path)) throw new Refused(`${path} exists: name another, a seed is never written over`)
  const words = call.optional('words-file')
  const seed =
    words === undefined
      ? crypto.getRandomValues(new Uint8Array(32))
      : seedOfWords(readInputText(requireOwn(words)))
  writeNew(path, `${toHex(seed)}\n`, 0o600)
  call.say('seed', path, `${path} (back it up: with the public chain it recovers every note)`)
  const wallet = new Wallet(seed)
  if (wallet_path !== undefined) {
    saveWallet(wallet_path, wallet, password === undefined ? {} : { password })
    call.say('wallet', wallet_path, `${wallet_path}${password === undefined ? '' : ', encrypted'}`)
  }
  // A seed without a wallet may be a payer's, whose address is not the trading key.
  else call.say('as payer', encodeBase58(publicKeyOf(seed)))
  call.say('trading key', wallet.tradingKeyText(0))
}

/** `wallet words`: the seed as 24 words, to be written on paper. */
function showWords(call: Call): void {
  const words = wordsOfSeed(call.seed('seed-file')).split(' ')
  const numbered = words.map((word, at) => `${String(at + 1).padStart(2)} ${word.padEnd(9)}`)
  call.print(words, () => [0, 6, 12, 18].map((row) => numbered.slice(row, row + 6).join('')))
}

/** `wallet encrypt`: under the password from now on. A copy of the old file elsewhere stays as it is. */
function encryptWallet(call: Call): void {
  const password = neededPassword(call)
  const wallet = call.walletToChange()
  saveWallet(call.text('wallet'), wallet, { password })
  const path = call.text('wallet')
  call.say('wallet', path, `${path} is encrypted: without its password only the seed opens it`)
}

/** `wallet backup`: an encrypted copy of a wallet that no program is changing. */
function backupWallet(call: Call): void {
  const [path, password] = [call.text('out'), neededPassword(call)]
  if (existsSync(path)) throw new Refused(`${path} exists: name another, a backup is never written over`)
  const { seed, state } = call.walletToChange()
  saveWallet(path, new Wallet(seed, state), { password })
  call.say('backup', path, `${path}, encrypted: 'wallet restore' reads it`)
}

/** `wallet restore`: a wallet file from a backup, encrypted as the backup is. */
function restoreWallet(call: Call): void {
  const [from, path] = [call.text('backup'), call.text('wallet')]
  if (existsSync(path)) throw new Refused(`${path} exists: name another, a wallet is never written over`)
  const password = call.password()
  const wallet = loadWallet(from, password)
  if (wallet === undefined) throw new Refused(`there is no backup at ${from}`)
  lockPath(path)
  saveWallet(path, wallet)
  call.say('wallet', path)
  call.hint("run 'wallet sync' before anything else: the backup knows nothing of what came after it")
}

function neededPassword(call: Call): string {
  call.text('password-file')
  return call.password()!
}

export const FILE_VERBS: Readonly<Record<string, Verb>> = {
  'wallet create': {
    form: '--seed-file FILE [--wallet FILE] [--password-file FILE] [--words-file FILE]',
    says: 'makes a new seed, or that of 24 words, and an empty wallet; without --wallet the seed alone, as of a key that pays',
    example: 'tacit wallet create --seed-file seed.hex --wallet wallet.json',
    run: createWallet,
  },
  'wallet words': {
    form: '--seed-file FILE',
    says: 'shows the seed as 24 words, for paper',
    example: 'tacit wallet words --seed-file seed.hex',
    run: showWords,
  },
  'wallet encrypt': {
    form: '',
    reads: ['wallet'],
    says: 'puts the wallet under a password: the first line of a file that only you can read',
    example: 'tacit wallet encrypt --wallet wallet.json --password-file password',
    run: encryptWallet,
  },
  'wallet backup': {
    form: '--out FILE',
    reads: ['wallet'],
    says: 'writes an encrypted copy',
    example: 'tacit wallet backup --wallet wallet.json --out backup.json --password-file password',
    run: backupWallet,
  },
  'wallet restore': {
    form: '--backup FILE',
    reads: ['wallet'],
    says: 'makes a wallet from such a copy',
    example: 'tacit wallet restore --backup backup.json --wallet restored.json --password-file password',
    run: restoreWallet,
  },
}
