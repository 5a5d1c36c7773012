/** `tacit wallet`, `faucet` and `deposit`: makes and keeps seeds and wallet files, shows what a wallet holds, and funds it. */

import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import type { ChainReader } from '../chain/chain_access'
import { airdrop, deposit, mintTo, planDeposit } from '../chain/deposit'
import { ownAccount, readMintDecimals, tokenBalance } from '../chain/token_account'
import { FAUCET_POLL_MS } from '../limits'
import { formatAmount, parseAmount } from '../session/units'
import { Refused } from '../verify/transcript'
import { seedOfWords, wordsOfSeed } from '../wallet/seed_words'
import { Wallet } from '../wallet/wallet'
import { loadWallet, saveWallet } from '../wallet/wallet_file'
import { writeNew } from '../whole_file'
import type { Call, Verb } from './call'
import { InputFault, readInputText } from './command'
import { lockPath, requireOwn } from './config'
import { printNotes, publicClient, readTokens } from './tables'

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

/** The trading key of an index, and the payer's Solana address. */
function showAddress(call: Call): void {
  const seed_file = call.optional('seed-file')
  const payer = call.optional('payer')
  if (payer === undefined || seed_file !== undefined || call.optional('wallet') !== undefined) {
    const wallet = seed_file === undefined ? call.wallet() : new Wallet(call.seed('seed-file'))
    call.say('trading key', wallet.tradingKeyText(call.count('key', 0)))
  }
  if (payer !== undefined) call.say('payer', encodeBase58(publicKeyOf(call.seed('payer'))))
}

/** A mint with its decimals: an address, or a name that the venue, verified first, has for it. */
async function tokenIn(call: Call, chain: ChainReader, text: string) {
  let mint = decodeBase58(text, 32) === undefined ? undefined : text
  if (mint === undefined && call.optional('url') !== undefined) {
    const { instruments, of } = await readTokens(publicClient(await call.venue()))
    const mints = [...instruments.values()].flatMap((one) => [one.base_mint, one.quote_mint])
    mint = mints.find((one) => of(one)?.name === text)
  }
  if (mint === undefined)
    throw new InputFault(
      'TOKEN is not a Solana address, and no instrument of the venue has a token of that name',
    )
  const decimals = await readMintDecimals(chain, mint)
  if (decimals === undefined) throw new InputFault(`there is no mint ${mint} on this chain`)
  const amount = parseAmount(call.words[1]!, decimals)
  if (amount === 0n) throw new InputFault('AMOUNT is 0')
  return { mint, decimals, amount }
}

const FEE_LAMPORTS = 1_000_000_000n

/** SOL for fees and tokens of a mint, on an embedded chain only. */
async function askFaucet(call: Call): Promise<void> {
  const chain = await call.chain()
  const { mint, amount } = await tokenIn(call, chain, call.words[0]!)
  const account = ownAccount(chain, mint)
  const filled = async (): Promise<void> => {
    const before = await tokenBalance(chain, account.bytes)
    await airdrop(chain, FEE_LAMPORTS)
    await mintTo(chain, mint, amount)
    while ((await tokenBalance(chain, account.bytes)) < before + amount) await sleep(FAUCET_POLL_MS)
  }
  await call.during('waiting for the chain', filled())
  const { address } = chain.payer
  call.say('payer', address, `${address}: ${FEE_LAMPORTS} lamports more`)
  call.say(
    'tokens',
    { mint, amount, account: account.text },
    `${call.words[1]} of ${mint} more, in ${account.text}`,
  )
}

/** Turns the payer's tokens into a note of a trading key. */
async function depositTokens(call: Call): Promise<void> {
  const chain = await call.chain()
  const { mint, amount, decimals } = await tokenIn(call, chain, call.words[0]!)
  const [program_id, key_index] = [call.program(), call.count('key', 0)]
  if (call.flag('dry-run')) {
    const { held, fee_lamports } = await planDeposit(chain, { program_id, mint, amount })
    const shown = (units: bigint) => formatAmount(units, decimals)
    call.say('deposit', { mint, amount }, `${shown(amount)} of ${mint} into a note of key ${key_index}`)
    call.say('fee', { lamports: fee_lamports }, `at most ${fee_lamports} lamports of the payer`)
    call.say(
      'left',
      { amount: held - amount },
      `${shown(held - amount)} in the payer's account; nothing was sent`,
    )
    return
  }
  const wallet = call.walletToChange()
  const keep = (): void => saveWallet(call.text('wallet'), wallet)
  const terms = { program_id, mint, amount, key_index, keep }
  const landing = deposit(chain, wallet, terms).finally(keep)
  const { note, signature } = await call.during('waiting for finality', landing)
  call.say('note', note.commitment)
  call.say('leaf', { index: note.leaf_index, signature }, `${note.leaf_index}, final in ${signature}`)
}

export const WALLET_VERBS: Readonly<Record<string, Verb>> = {
  'wallet address': {
    form: '[--seed-file FILE] [--key K]',
    reads: ['wallet', 'payer'],
    says: 'shows a trading key of the wallet, and the Solana address that pays',
    example: 'tacit wallet address --wallet wallet.json',
    run: showAddress,
  },
  'wallet notes': {
    form: '[--all]',
    reads: ['wallet'],
    says: 'lists what the file holds, in base units; spent notes too with --all',
    example: 'tacit wallet notes --wallet wallet.json',
    run: (call) => printNotes(call, call.wallet(), call.flag('all')),
  },
  faucet: {
    form: 'TOKEN AMOUNT',
    reads: ['venue', 'chain', 'payer'],
    says: 'gives the payer test money, on the sandbox alone; TOKEN is a mint or a name such as USDC',
    example: 'tacit faucet USDC 500 --payer payer.hex',
    run: askFaucet,
  },
  deposit: {
    form: 'TOKEN AMOUNT [--key K] [--dry-run]',
    reads: ['venue', 'chain', 'wallet', 'payer'],
    says: "turns the payer's tokens into a note of a trading key; TOKEN as in 'faucet'",
    example: 'tacit deposit USDC 300 --wallet wallet.json --payer payer.hex',
    run: depositTokens,
  },
}
