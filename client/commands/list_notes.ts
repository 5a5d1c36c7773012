/** `wallet notes`: what a wallet file holds, unspent notes first of all. */
import type { Wallet } from '../wallet/wallet'
import type { CommandOptions } from './options'

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
