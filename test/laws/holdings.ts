/** Tracks claims outside of the venue's memory, and checks the law: per mint, all claims equal the vault's balance. */
import type { Note } from '../../engine/machine/state/note'
import type { State } from '../../engine/machine/state/state'
import { toHex } from '../../protocol/bytes'
import type { VaultEvent } from '../../protocol/vault/events'
import type { SimChain } from './sim_chain'

/** A note its owner can open and the venue does not know. */
export type OpenNote = {
  owner: number
  mint: Uint8Array
  amount: bigint
  blinding: Uint8Array
  leaf_index: number
  commitment: Uint8Array
  nullifier: Uint8Array
}

export class Holdings {
  /** Deposits and refunded exits, by commitment. */
  readonly unopened = new Map<string, OpenNote>()
  /** Refund notes of withdrawals that the venue has yet to register, by commitment. */
  readonly #refunds = new Map<string, { mint: string; amount: bigint }>()

  /** By mint, hex: what came in less what was paid out, as the chain's events say. */
  readonly #vault = new Map<string, bigint>()
  paid = 0
  refunded = 0

  landed(event: VaultEvent): void {
    this.#move(event, 1n)
    if (event.kind !== 'paid') return
    const { payout, refund, mint, amount } = event
    if (refund === undefined) this.paid += 1
    else this.refunded += 1
    if (payout === 'withdrawal' && refund)
      this.#refunds.set(toHex(refund.commitment), { mint: toHex(mint), amount })
  }

  lost(event: VaultEvent): void {
    this.#move(event, -1n)
    if (event.kind === 'deposited') this.unopened.delete(toHex(event.commitment))
    if (event.kind !== 'paid' || event.refund === undefined) return
    this.unopened.delete(toHex(event.refund.commitment))
    this.#refunds.delete(toHex(event.refund.commitment))
  }

  #move(event: VaultEvent, sign: 1n | -1n): void {
    const add = (mint: Uint8Array, amount: bigint): void => {
      this.#vault.set(toHex(mint), (this.#vault.get(toHex(mint)) ?? 0n) + sign * amount)
    }
    if (event.kind === 'deposited') add(event.mint, event.amount)
    if (event.kind === 'paid' && event.refund === undefined) add(event.mint, -event.amount)
  }

  /** @throws Error naming the mint that does not add up */
  check(state: State, chain: SimChain): void {
    const { last_batch } = chain.vault().config
    const owed = state.mints.map((_, mint) => state.settlement.fees[mint]!)
    for (const note of held(state)) if (note.status !== 'spent') owed[note.mint]! += note.amount
    const add = (mint: string, amount: bigint): void => {
      owed[state.mints.findIndex(({ bytes }) => toHex(bytes) === mint)]! += amount
    }
    for (const { batch_id, payouts } of state.settlement.batches.values()) {
      if (batch_id <= last_batch) continue
      for (const payout of payouts) {
        const mint = payout.kind === 'exit' ? payout.mint : state.mints[payout.note.mint]!.bytes
        add(toHex(mint), payout.amount)
      }
    }
    for (const [commitment, { mint, amount }] of this.#refunds) {
      if (state.notes.has(Uint8Array.fromHex(commitment))) this.#refunds.delete(commitment)
      else add(mint, amount)
    }
    for (const [commitment, note] of this.unopened) {
      if (isKnown(state, note)) this.unopened.delete(commitment)
      else add(toHex(note.mint), note.amount)
    }
    state.mints.forEach(({ bytes, text }, mint) => {
      const { balance, liabilities, queued } = chain.money(bytes)
      const open = chain.queue().filter((entry) => toHex(entry.mint) === toHex(bytes))
      const due = open.reduce((sum, { amount }) => sum + amount, 0n)
      if (due !== queued) throw new Error(`entries of ${due} of ${text} are open, the vault says ${queued}`)
      const told = this.#vault.get(toHex(bytes)) ?? 0n
      if (balance !== told) throw new Error(`events leave ${told} of ${text}, the vault holds ${balance}`)
      if (balance !== liabilities + queued)
        throw new Error(`the vault owes ${liabilities} and ${queued} of ${text} and holds ${balance}`)
      if (owed[mint] !== liabilities)
        throw new Error(`${owed[mint]} of ${text} is owed, the vault says ${liabilities}`)
    })
  }
}

/** Notes in memory, and notes that batches will create once they are hashed. */
function* held(state: State): Iterable<Note> {
  yield* state.notes.values()
  for (const { outputs, hashed } of state.settlement.batches.values()) {
    if (hashed === undefined) for (const { note } of outputs) yield note
  }
}

/** The venue opened it, or a packed exit spends it. */
function isKnown(state: State, { commitment, nullifier }: OpenNote): boolean {
  const exit = state.settlement.exits.get(toHex(nullifier))
  const packed = exit !== undefined && exit.note === undefined && exit.settlement_batch > 0
  return packed || state.notes.has(commitment) || state.nullifiers.has(nullifier)
}
