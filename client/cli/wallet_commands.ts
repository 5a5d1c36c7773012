/** Runs `wallet address`, `notes`, `faucet` and `deposit`. */

import { setTimeout as sleep } from 'node:timers/promises'
import { encodeBase58 } from '../../protocol/base58'
import { publicKeyOf } from '../../protocol/sign'
import { deposit } from '../chain/deposit'
import { airdrop, mintTo } from '../chain/embedded_faucet'
import { ownAccount, tokenBalance } from '../chain/token_account'
import { FAUCET_POLL_MS } from '../limits'
import { Wallet } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import type { CommandOptions } from './options'

/** `wallet address`: the trading key of an index, and the payer's Solana address. */
export function showAddress(options: CommandOptions): void {
  const seed_file = options.optional('seed-file')
  const payer = options.optional('payer')
  if (payer === undefined || seed_file !== undefined || options.optional('wallet') !== undefined) {
    const wallet = seed_file === undefined ? options.wallet() : new Wallet(options.seed('seed-file'))
    console.log(`trading key  ${wallet.tradingKeyText(options.count('key', 0))}`)
  }
  if (payer !== undefined) console.log(`payer        ${encodeBase58(publicKeyOf(options.seed('payer')))}`)
}

/** `wallet notes`: the notes in a wallet file. */
export function listNotes(options: CommandOptions): void {
  printNotes(options.wallet(), options.flag('all'))
}

/** One line per note, then the sum per mint. */
export function printNotes(wallet: Wallet, with_spent: boolean): void {
  const notes = wallet.state.notes.filter((note) => with_spent || note.state !== 'spent')
  for (const { commitment, mint, amount, state, key_index, origin } of notes)
    console.log(`${commitment}  ${mint}  ${amount.padStart(20)}  key ${key_index}  ${state}  ${origin}`)
  for (const mint of new Set(notes.map((note) => note.mint)))
    console.log(`${'total'.padEnd(64)}  ${mint}  ${String(wallet.balance(mint)).padStart(20)}`)
  if (notes.length === 0) console.log('no notes')
}

const FEE_LAMPORTS = 1_000_000_000n

/** `wallet faucet`: SOL for fees and tokens of a mint, on an embedded chain only. */
export async function askFaucet(options: CommandOptions): Promise<void> {
  const chain = await options.chain()
  const [mint, amount] = [encodeBase58(options.address('mint')), options.units()]
  const account = ownAccount(chain, mint)
  const before = await tokenBalance(chain, account.bytes)
  await airdrop(chain, FEE_LAMPORTS)
  await mintTo(chain, mint, amount)
  while ((await tokenBalance(chain, account.bytes)) < before + amount) await sleep(FAUCET_POLL_MS)
  console.log(`payer        ${chain.payer.address}: ${FEE_LAMPORTS} lamports more`)
  console.log(`tokens       ${amount} units of ${mint} more, in ${account.text}`)
}

/** `wallet deposit`: turns the payer's tokens into a note of a trading key. */
export async function depositTokens(options: CommandOptions): Promise<void> {
  const wallet = options.walletToChange()
  const keep = (): void => saveWallet(options.text('wallet'), wallet)
  const terms = {
    program_id: options.program(),
    mint: encodeBase58(options.address('mint')),
    amount: options.units(),
    key_index: options.count('key', 0),
    keep,
  }
  const { note, signature } = await deposit(await options.chain(), wallet, terms).finally(keep)
  console.log(`note         ${note.commitment}`)
  console.log(`leaf         ${note.leaf_index}, final in ${signature}`)
}
