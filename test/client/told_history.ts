/** A vault's events as the program would emit them, for notes a test makes by the wallet's derivation. */
import { vaultHistory } from '../../client/wallet/vault_history'
import { compareBytes } from '../../protocol/bytes'
import {
  deriveAnchor,
  deriveDepositBlinding,
  deriveOrderId,
  deriveTradingKey,
} from '../../protocol/notes/derive'
import {
  depositCommitment,
  encodeMemo,
  noteInner,
  nullifierOf,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import { publicKeyOf } from '../../protocol/sign'
import type { EventOf, PayoutOutcome, VaultEvent } from '../../protocol/vault/events'
import { bytes } from '../kit/venue/memory_chain'

export type MadeNote = { commitment: Uint8Array; blinding: Uint8Array; amount: bigint }
type OutputOf = { j: number; role: 0 | 1; anchors?: number; generation?: number; amount?: bigint }

type QueuedPayout = EventOf<'settled'>['payouts'][number]
type PayoutOf = Pick<QueuedPayout, 'amount' | 'inner'> & Partial<Pick<QueuedPayout, 'nullifier'>>

export const MINTS = [bytes(32), bytes(32)] as const

export class ToldHistory {
  readonly seed = bytes(32)
  readonly events: VaultEvent[] = []
  private leaf_count = 0
  private spent_count = 0
  private batch = 0
  private readonly queued: QueuedPayout[] = []

  owner(k = 0): Uint8Array {
    return publicKeyOf(deriveTradingKey(this.seed, k))
  }

  /** Deposit d of key k. */
  deposit(k: number, d: number, amount = 1_000n, mint: Uint8Array = MINTS[0]): MadeNote {
    const blinding = deriveDepositBlinding(this.seed, k, d)
    const inner = noteInner(this.owner(k), blinding)
    const leaf_index = this.leaf_count++
    const commitment = depositCommitment({ mint, amount, inner, leaf_index })
    const rest = { note_root: bytes(32), depositor: bytes(32) }
    this.events.push({ kind: 'deposited', leaf_index, mint, amount, inner, commitment, ...rest })
    return { commitment, blinding, amount }
  }

  /** Output of command n of key k: an order's where `role` and `j` name a fill, a payment's with `payment`. */
  output(k: number, n: number, of: OutputOf & { payment?: true }): MadeNote {
    const { j, role, anchors = 4, generation = 0, amount = 500n } = of
    const payment = of.payment === true
    const anchor = deriveAnchor(this.seed, k, 16 * n + (payment ? 0 : j % anchors))
    const order_id = payment ? new Uint8Array(16) : deriveOrderId(this.seed, k, n)
    const nonce = BigInt(n + 1)
    const blinding = outputBlinding({ anchor, order_id, nonce, generation, index_role: 2 * j + role })
    const inner = noteInner(this.owner(k), blinding)
    return { commitment: settlementCommitment({ mint: MINTS[0], amount, inner }), blinding, amount }
  }

  /** A batch that spends and makes notes; memos of `outputs` may be wrong. A payout with a nullifier is an exit's. */
  settle(
    spent: MadeNote[],
    made: MadeNote[],
    more: { payouts?: PayoutOf[]; memo?: (note: MadeNote) => Uint8Array } = {},
  ): void {
    const { memo = (note) => encodeMemo(note.blinding, note.amount) } = more
    const nullifiers = spent.map((note) => nullifierOf(note.commitment, note.blinding)).sort(compareBytes)
    const outputs = made.map((note) => ({ commitment: note.commitment, memo: memo(note) }))
    const first_leaf_index = this.leaf_count
    this.leaf_count += outputs.length
    this.spent_count += nullifiers.length
    const payouts = (more.payouts ?? []).map(({ nullifier, ...payout }) => this.queue(payout, nullifier))
    this.events.push({
      kind: 'settled',
      batch: ++this.batch,
      epoch: 1,
      first_leaf_index,
      note_root: bytes(32),
      spent_root: bytes(32),
      spent_count: this.spent_count,
      nullifiers,
      outputs: outputs.sort((a, b) => compareBytes(a.commitment, b.commitment)),
      payouts,
    })
  }

  private queue(payout: PayoutOf, nullifier: Uint8Array | undefined): QueuedPayout {
    const kind = nullifier === undefined ? 'withdrawal' : 'exit'
    const number = this.queued.length + 1
    const entry = { number, place: 0, mint: MINTS[0], destination: bytes(32), ...payout }
    const queued: QueuedPayout = { ...entry, kind, nullifier, served: nullifier !== undefined }
    this.queued.push(queued)
    return queued
  }

  /** Closes a queued payout; every outcome but `paid` appends the refund note. @returns its commitment */
  pay(number: number, outcome: PayoutOutcome = 'paid'): Uint8Array | undefined {
    const { place, served, kind, ...entry } = this.queued[number - 1]!
    let refund: EventOf<'paid'>['refund']
    if (outcome !== 'paid') {
      const leaf_index = this.leaf_count++
      refund = { leaf_index, commitment: depositCommitment({ ...entry, leaf_index }) }
    }
    this.events.push({ kind: 'paid', ...entry, payout: kind, outcome, refund })
    return refund?.commitment
  }

  read() {
    return vaultHistory(this.events)
  }
}
