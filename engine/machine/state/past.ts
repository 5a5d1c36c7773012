/** Joins the rows that the state keeps with the rows that have left it for the node's stores, under the same numbers. */
import type { Covered } from '../../commands'
import type { RowQueue } from '../../memory/row_queue'
import { spentIn } from './batch'
import type { State } from './state'

export type PastKind = keyof Covered
/** Finalized leaves, spent nullifiers, commitments of retired notes, closed orders: the order is that of snapshots and stores. */
export const PAST_KINDS: readonly PastKind[] = ['leaves', 'nullifiers', 'retired', 'finals']

/**
 * Rows in the stores. The answers about a client's command only reject it, and a refusal is no record; those about facts
 * of the chain are fields of the command. So a replay needs no store.
 */
export type Past = {
  readonly covered: Covered
  /** Number of the row that begins with a key. @throws Error when a block does not authenticate */
  indexOf(kind: PastKind, key: Uint8Array): number | undefined
  /** @throws RangeError for a row that is not in the stores, Error when its block does not authenticate */
  at(kind: PastKind, number: number): Uint8Array
}

export function queuesOf({ leaves, nullifiers, retired, finals }: State): Record<PastKind, RowQueue> {
  return { leaves, nullifiers, retired, finals: finals.rows }
}

/** Rows that have not left the state. */
export function rowsWaiting({ leaves, nullifiers, retired, finals }: State): number {
  return kept(leaves) + kept(nullifiers) + kept(retired) + kept(finals.rows)
}
const kept = ({ first, size }: RowQueue): number => size - first

/** Looks in the state first, then in the stores. */
export function indexOf(
  state: State,
  past: Past | undefined,
  kind: PastKind,
  key: Uint8Array,
): number | undefined {
  return queuesOf(state)[kind].indexOf(key) ?? past?.indexOf(kind, key)
}

/** @throws RangeError for a row that neither has */
export function rowAt(state: State, past: Past | undefined, kind: PastKind, number: number): Uint8Array {
  const queue = queuesOf(state)[kind]
  return number >= queue.first || past === undefined ? queue.at(number) : past.at(kind, number)
}

type SpentBatch = { batch_id: number; nullifiers: Uint8Array[] }

/**
 * The nullifiers of the hashed batches from `first` on, of each in ascending order. The hashing worker rebuilds the spent log
 * from them.
 */
export function* spentBatches(state: State, past: Past | undefined, first: number): Generator<SpentBatch> {
  const row = (number: number) => rowAt(state, past, 'nullifiers', number)
  let [number, end] = [0, state.nullifiers.size]
  while (number < end) {
    const middle = Math.floor((number + end) / 2)
    if (spentIn(row(middle)) < first) number = middle + 1
    else end = middle
  }
  for (let batch_id = first; batch_id <= state.settlement.last_hashed; batch_id++) {
    const nullifiers: Uint8Array[] = []
    for (; number < state.nullifiers.size && spentIn(row(number)) === batch_id; number++)
      nullifiers.push(row(number).slice(0, 32))
    yield { batch_id, nullifiers }
  }
}

/** The hashed batch that spent a nullifier; undefined when none did. */
export function spentBatch(
  state: State,
  past: Past | undefined,
  nullifier: Uint8Array,
): SpentBatch | undefined {
  const number = indexOf(state, past, 'nullifiers', nullifier)
  if (number === undefined) return undefined
  for (const batch of spentBatches(state, past, spentIn(rowAt(state, past, 'nullifiers', number))))
    return batch
  return undefined
}

/**
 * The rows that may leave the state. Nullifiers stay from the first that a batch which has not landed spends, as that may
 * change, and from the first that a waiting exit has: its batch looks for it in the state.
 */
export function coverable({ leaves, nullifiers, retired, finals, settlement }: State): Covered {
  let spent = nullifiers.size
  while (spent > nullifiers.first && spentIn(nullifiers.at(spent - 1)) > (settlement.landed?.batch_id ?? 0))
    spent--
  for (const one of settlement.waiting)
    if (one.kind === 'exit') spent = Math.min(spent, nullifiers.indexOf(one.nullifier) ?? spent)
  return { leaves: leaves.size, nullifiers: spent, retired: retired.size, finals: finals.rows.size }
}

/** Rows that leave the state with the next snapshot. */
export function rowsToTake(state: State): number {
  const covered = coverable(state)
  return Object.entries(queuesOf(state)).reduce(
    (sum, [kind, { first }]) => sum + covered[kind as PastKind] - first,
    0,
  )
}
