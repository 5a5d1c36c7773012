/** A note the venue made for this wallet, its commitment recomputed; nothing is taken on trust. */
import { decodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { type BlindingParts, openingCommitment, outputBlinding } from '../../protocol/notes'
import type { Wallet, WalletNote } from './wallet'

/** The venue names a note that the wallet's own derivation does not give: do not trust it further. */
export class WalletMismatch extends Error {
  constructor(what: string) {
    super(`${what} differs from what this wallet derives`)
    this.name = 'WalletMismatch'
  }
}

/** Where an output comes from: the key that owns it and what makes its blinding. */
export type OutputSource = BlindingParts & { key_index: number }
export type MadeNote = Pick<WalletNote, 'commitment' | 'mint' | 'state' | 'origin' | 'leaf_index'> & {
  amount: bigint
}

/** @throws WalletMismatch when the source gives another commitment; nothing has changed then */
export function ownOutput(wallet: Wallet, source: OutputSource, made: MadeNote): WalletNote {
  const { key_index } = source
  const blinding = outputBlinding(source)
  const owner = wallet.tradingKey(key_index)
  const mint = decodeBase58(made.mint, 32)!
  const { amount, leaf_index } = made
  const commitment = openingCommitment({ owner, mint, amount, blinding, leaf_index })
  if (toHex(commitment) !== made.commitment) throw new WalletMismatch(`a ${made.origin} note`)
  return { ...made, key_index, amount: String(amount), blinding: toHex(blinding) }
}
