/** `wallet address`: the trading key of an index, and the Solana account that pays. */
import { encodeBase58 } from '../../protocol/base58'
import { publicKeyOf } from '../../protocol/sign'
import { Wallet } from '../wallet/wallet'
import { type CommandOptions, readSeed } from './options'

export function showAddress(options: CommandOptions): void {
  const seed_file = options.optional('seed-file')
  const payer = options.optional('payer')
  if (payer === undefined || seed_file !== undefined || options.optional('wallet') !== undefined) {
    const wallet = seed_file === undefined ? options.wallet() : new Wallet(readSeed(seed_file))
    console.log(`trading key  ${wallet.tradingKeyText(options.count('key', 0))}`)
  }
  if (payer !== undefined) console.log(`payer        ${encodeBase58(publicKeyOf(readSeed(payer)))}`)
}
