/** Keeps the texts of an account's reads while nothing of the account changes: a caller that asks again costs no work. */
import { LruTexts } from '../history/lru_texts'
import { LIMITS } from '../limits'

/** What the text was true at. */
export type ReadAt = { account_id: string; seq: number; prunes: number }
type Kept = ReadAt & { text: string }

export class KeptTexts {
  readonly #texts = new LruTexts<Kept>(LIMITS.reads_characters_max)

  /** `now` says where the account of the text is today; the text holds as long as it is where it was. */
  get(name: string, now: (account_id: string) => Omit<ReadAt, 'account_id'>): Kept | undefined {
    const kept = this.#texts.get(name)
    if (kept === undefined) return undefined
    const { seq, prunes } = now(kept.account_id)
    return kept.seq === seq && kept.prunes === prunes ? kept : undefined
  }

  set(name: string, kept: Kept): void {
    this.#texts.set(name, kept, name.length + kept.text.length)
  }

  clear(): void {
    this.#texts.clear()
  }
}
