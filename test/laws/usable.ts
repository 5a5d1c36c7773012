/** Notes a trader can use now: free ones the venue knows, and final ones it was never shown. */
import type { NoteFact } from '../../engine/commands'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes } from '../../protocol/bytes'
import type { Simulation } from './simulation'

/** `opening` where the venue does not have the note's opening. */
export type Usable = { mint: string; commitment: Uint8Array; amount: bigint; opening: NoteFact | undefined }

/** No deposits above this many notes: each step checks every note. */
const NOTES_MAX = 320

export const isCrowded = ({ venue, holdings }: Simulation): boolean =>
  venue.state.notes.size + holdings.unopened.size > NOTES_MAX

export function usable({ venue, traders, holdings }: Simulation, owner: number, mint?: string): Usable[] {
  const { state } = venue
  const { key } = traders[owner]!
  const found: Usable[] = []
  for (const note of state.notes.values()) {
    if (note.status !== 'free' || !equalBytes(note.owner, key)) continue
    const { text: of } = state.mints[note.mint]!
    if (mint !== undefined && of !== mint) continue
    const commitment = note.commitment!
    found.push({ mint: of, commitment, amount: note.amount, opening: undefined })
  }
  const bytes = mint === undefined ? undefined : decodeBase58(mint, 32)!
  for (const note of holdings.unopened.values()) {
    if (note.owner !== owner || note.leaf_index >= state.leaves.size) continue
    if (bytes !== undefined && !equalBytes(note.mint, bytes)) continue
    const { commitment, amount } = note
    found.push({
      mint: encodeBase58(note.mint),
      commitment,
      amount,
      opening: { ...note, leaf: note.leaf_index },
    })
  }
  return found
}

export function nextNonce({ venue }: Simulation, key: Uint8Array): bigint {
  return (venue.state.keys.get(encodeBase58(key))?.place_nonce ?? 0n) + 1n
}
export function nextCancelNonce({ venue }: Simulation, key: Uint8Array): bigint {
  return (venue.state.keys.get(encodeBase58(key))?.cancel_nonce ?? 0n) + 1n
}
