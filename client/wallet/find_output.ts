/** Finds the settlement output made with a blinding: its memo's tag leads to it, its commitment proves it. */
import { equalBytes } from '../../protocol/bytes'
import { decodeMemo, memoTag } from '../../protocol/memo'
import { noteInner, settlementCommitment } from '../../protocol/notes'
import type { RecoveredNote } from './keep_recovered'
import { tagOf, type VaultHistory } from './vault_history'

export type FoundOutput = Omit<RecoveredNote, 'origin'> & { batch: number }

/** Equal tags are settled by recomputing the commitment for each mint the vault ever took. */
export function findOutput(
  history: VaultHistory,
  owner: Uint8Array,
  blinding: Uint8Array,
): FoundOutput | undefined {
  const candidates = history.outputs_by_tag.get(tagOf(memoTag(blinding)))
  if (candidates === undefined) return undefined
  const inner = noteInner(owner, blinding)
  for (const { commitment, memo, batch } of candidates) {
    const amount = decodeMemo(memo, blinding)!
    for (const mint of history.mints) {
      if (equalBytes(settlementCommitment({ mint, amount, inner }), commitment))
        return { commitment, mint, amount, blinding, batch }
    }
  }
  return undefined
}
