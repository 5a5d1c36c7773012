/** The other side of the market of a world on the vault program: one account buys, one sells, so that none trades with itself. */
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { preparePlace } from '../../../client/wallet/prepare'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import type { Engine } from '../../../engine/boot/assemble'
import { decodeBase58 } from '../../../protocol/base58'
import { fromHex } from '../../../protocol/bytes'
import { deriveTradingKey } from '../../../protocol/notes/derive'
import { nullifierOf } from '../../../protocol/notes/notes'
import { Refusal } from '../../../protocol/refusals'
import { requestExitInstruction } from '../../../protocol/vault/exits'
import type { Random } from '../../kit/random'
import { LOT, TICK } from '../calls'
import type { SimulatedChain } from './simulated_chain'
import type { Opened } from './world'

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

/** An order over its next note. @param broken collects forbidden findings */
export function placeOrder(
  venue: Opened['venue'],
  maker: Maker,
  random: Random,
  broken: (law: string) => void,
): void {
  const note = maker.wallet.state.notes[maker.used]
  if (note === undefined) return
  maker.used++
  const better = BigInt(random.below(200)) * TICK
  const terms = {
    instrument: venue.instrument('SOL-USDC'),
    side: maker.side,
    amount: BigInt(100 + random.below(300)) * LOT,
    price_limit: maker.side === 'buy' ? 100_000_000n + better : 100_000_000n - better,
    expiry_slot: venue.time().slot + 20,
  }
  const request = preparePlace(maker.wallet, fromHex(venue.identity().venue, 32)!, terms, note)
  venue.place(maker.name, request).catch((error: unknown) => {
    if (!(error instanceof Refusal)) broken(`a maker's order fails: ${error}`)
  })
}

/** Its next note, or the one before, which may be in an order. */
export function noteToExit(maker: Maker, random: Random): WalletNote | undefined {
  const fresh = random.below(2) === 0
  const note = maker.wallet.state.notes[fresh ? maker.used : maker.used - 1]
  if (note !== undefined && fresh) maker.used++
  return note
}

type Exit = { maker: Maker; note: WalletNote; random: Random }
/** On chain: to an account of the mint, or to one that cannot take the payout. */
export async function requestExit(
  chain: SimulatedChain,
  hash: Engine['hash'],
  { maker, note, random }: Exit,
): Promise<void> {
  const owner = await createKeyPairSignerFromPrivateKeyBytes(deriveTradingKey(maker.wallet.seed, 0))
  const proof = await hash.inclusion(note.leaf_index!)
  const blinding = fromHex(note.blinding, 32)!
  const fields = {
    program: chain.program,
    owner: maker.wallet.tradingKey(0),
    payer: chain.depositor,
    mint: decodeBase58(note.mint, 32)!,
    opening: { form: 'deposit', amount: BigInt(note.amount), blinding, leaf_index: note.leaf_index! },
    nullifier: nullifierOf(fromHex(note.commitment, 32)!, blinding),
    cited_leaf_count: proof.leaf_count,
    cited_root: proof.root,
    destination: decodeBase58(random.below(3) > 0 ? chain.account(note.mint) : owner.address, 32)!,
    refund_inner: random.element(),
    path: proof.siblings,
  } as const
  await chain.send(requestExitInstruction(fields), [owner])
}
