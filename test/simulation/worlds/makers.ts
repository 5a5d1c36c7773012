/** The other side of the market of a world on the vault program: one account buys, one sells, so that none trades with itself. */
import { Wallet } from '../../../client/wallet/wallet'
import { decodeBase58 } from '../../../protocol/base58'
import { fromHex } from '../../../protocol/bytes'
import { nullifierOf } from '../../../protocol/notes/notes'

/** Notes with which a maker begins. */
export const POOL = 12
/** In base units: more than an order of the market needs. */
export const NOTE = { buy: 60_000_000n, sell: 500_000_000n }

/** `used`: its next note. */
export type Maker = { name: 'buyer' | 'seller'; side: 'buy' | 'sell'; wallet: Wallet; used: number }

export function newMakers(): [Maker, Maker] {
  const wallet = () => new Wallet(crypto.getRandomValues(new Uint8Array(32)))
  return [
    { name: 'buyer', side: 'buy', wallet: wallet(), used: 0 },
    { name: 'seller', side: 'sell', wallet: wallet(), used: 0 },
  ]
}

/** Its next note, as it would be in an exit request. */
export function exitingOf({ wallet, used }: Maker) {
  const note = wallet.state.notes[used]
  if (note === undefined) return undefined
  const commitment = fromHex(note.commitment, 32)!
  const nullifier = nullifierOf(commitment, fromHex(note.blinding, 32)!)
  return { commitment, nullifier, mint: decodeBase58(note.mint, 32)!, amount: BigInt(note.amount) }
}
