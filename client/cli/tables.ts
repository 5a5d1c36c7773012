/** Prints notes, in tokens where the venue names them. */
import type { Instrument } from '../../protocol/wire/trading'
import { VenueClient } from '../api/venue_client'
import { formatAmount } from '../session/units'
import type { VerifiedVenue } from '../verified_venue'
import type { Wallet } from '../wallet/wallet'
import type { Call } from './call'

/** Decimals and names of tokens: a name is a half of an instrument's symbol. */
export type Tokens = {
  instruments: ReadonlyMap<string, Instrument>
  of(mint: string): { name: string; decimals: number } | undefined
}

/** @param client of a verified venue; no login is needed */
export async function readTokens(client: VenueClient): Promise<Tokens> {
  const list = await client.instruments()
  const tokens = new Map<string, { name: string; decimals: number }>()
  for (const { symbol, base_mint, base_decimals, quote_mint, quote_decimals } of list) {
    const [base = '', quote = ''] = symbol.split('-')
    tokens.set(base_mint, { name: base, decimals: base_decimals })
    tokens.set(quote_mint, { name: quote, decimals: quote_decimals })
  }
  return { instruments: new Map(list.map((one) => [one.symbol, one])), of: (mint) => tokens.get(mint) }
}

/** Reads what needs no login. */
export const publicClient = (venue: VerifiedVenue): VenueClient =>
  new VenueClient(venue, { account_id: '', api_key: '', api_secret: '', passphrase: '' })

/** One line per note, then the sum per mint: in tokens where their decimals are known, else in base units. */
export function printNotes(call: Call, wallet: Wallet, with_spent: boolean, tokens?: Tokens): void {
  const notes = wallet.state.notes.filter((note) => with_spent || note.state !== 'spent')
  const shown = (mint: string, units: bigint): string => {
    const token = tokens?.of(mint)
    return token === undefined
      ? `${mint}  ${String(units).padStart(20)}`
      : `${token.name.padEnd(6)} ${formatAmount(units, token.decimals).padStart(20)}`
  }
  call.list('notes', notes, ({ commitment, mint, amount, state, key_index, origin }) => {
    return `${commitment}  ${shown(mint, BigInt(amount))}  key ${key_index}  ${state}  ${origin}`
  })
  const totals = [...new Set(notes.map((note) => note.mint))].map((mint) => {
    return { mint, amount: wallet.balance(mint) }
  })
  call.list('totals', totals, ({ mint, amount }) => `${'total'.padEnd(64)}  ${shown(mint, amount)}`)
  if (notes.length === 0) call.hint('no notes')
}
