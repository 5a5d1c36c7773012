/**
 * Decides whether the commands found so far explain every spent note of a key. A command spends its notes in the batch that
 * makes its outputs: a fill or withdrawal one note, a reshape one to four that sum to its outputs.
 */
import { RESHAPE_NOTES_MAX } from '../../protocol/limits'
import type { Amount } from '../../protocol/units'

type Spent = { mint: string; amount: Amount }
/** Of one key in one batch. */
type BatchUse = {
  /** Spent by commands; exits are no commands. */
  notes: Spent[]
  /** Fills and withdrawals. */
  singles: number
  reshapes: { mint: string; sum: Amount }[]
}

export class Spending {
  private readonly uses = new Map<number, BatchUse>()
  private readonly open = new Set<number>()

  note(batch: number, note: Spent): void {
    this.change(batch, ({ notes }) => notes.push(note))
  }
  single(batch: number): void {
    this.change(batch, (use) => {
      use.singles += 1
    })
  }
  reshape(batch: number, mint: string, sum: Amount): void {
    this.change(batch, ({ reshapes }) => reshapes.push({ mint, sum }))
  }

  /** Batches with a note that no command found so far spent, or with more commands than notes. */
  get unexplained(): readonly number[] {
    return [...this.open]
  }
  /** Whether a further command can explain a batch: one with more commands than notes lacks a note. */
  get lacksCommand(): boolean {
    return this.unexplained.some((batch) => {
      const { notes, singles, reshapes } = this.uses.get(batch)!
      return notes.length > singles + reshapes.length || reshapes.length > 0
    })
  }

  private change(batch: number, apply: (use: BatchUse) => unknown): void {
    const use = this.uses.get(batch) ?? { notes: [], singles: 0, reshapes: [] }
    this.uses.set(batch, use)
    apply(use)
    if (isExplained(use)) this.open.delete(batch)
    else this.open.add(batch)
  }
}

/** Whether disjoint groups of notes sum to the reshapes and leave one note for each fill and withdrawal. */
function isExplained({ notes, singles, reshapes }: BatchUse): boolean {
  const grouped = notes.length - singles
  if (grouped < reshapes.length || grouped > RESHAPE_NOTES_MAX * reshapes.length) return false
  const sorted = [...notes].sort((a, b) => (a.amount < b.amount ? 1 : a.amount > b.amount ? -1 : 0))
  return splits(sorted, reshapes, grouped)
}

/** Whether exactly `count` of the notes form the groups of the reshapes. */
function splits(notes: readonly Spent[], reshapes: BatchUse['reshapes'], count: number): boolean {
  const [reshape, ...rest] = reshapes
  if (reshape === undefined) return count === 0
  const alike = notes.filter(({ mint }) => mint === reshape.mint)
  const others = notes.filter(({ mint }) => mint !== reshape.mint)
  for (const left of remaindersOf(alike, reshape.sum, RESHAPE_NOTES_MAX))
    if (splits([...left, ...others], rest, count - (alike.length - left.length))) return true
  return false
}

/** What is left of the notes, which descend, after 1 to `most` that sum to `sum`; equal amounts are tried once. */
function* remaindersOf(notes: readonly Spent[], sum: Amount, most: number): Generator<Spent[]> {
  for (const [at, { amount }] of notes.entries()) {
    if (amount > sum || (at > 0 && notes[at - 1]!.amount === amount)) continue
    const [before, after] = [notes.slice(0, at), notes.slice(at + 1)]
    if (amount === sum) yield [...before, ...after]
    else if (most > 1)
      for (const left of remaindersOf(after, sum - amount, most - 1)) yield [...before, ...left]
  }
}
