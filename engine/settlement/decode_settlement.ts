/** Decodes the settlement part of a snapshot. */
import type { TradingKey } from '../state/account'
import type { ByteReader } from '../state/byte_stream'
import { list } from '../state/codec'
import type { FillRecord } from '../state/fill_record'
import type { Note } from '../state/note'
import type { Exit, Reshape, Settlement, Withdrawal } from './batch'
import { batch_row, exit_row, reshape_row, settlement_row, withdrawal_row } from './settlement_codec'

/** Tables decoded before. */
export type Decoding = { keys: TradingKey[]; noteAt: (place: number) => Note; fills: FillRecord[] }

export function decodeSettlement(from: ByteReader, known: Decoding): Settlement {
  const { noteAt, fills } = known
  const readable = from.uint()
  const payments = Array.from({ length: from.uint() }, () => decodePayment(from, known))
  const exits: Exit[] = list(exit_row)
    .read(from)
    .map((row) => ({ ...row, kind: 'exit', note: maybe(noteAt, row.note) }))
  const payoutOf = (ref: { exit: boolean; at: number }) => (ref.exit ? exits[ref.at]! : payments[ref.at]!)
  const batches = list(batch_row)
    .read(from)
    .map((row) => ({
      ...row,
      inputs: row.inputs.map(noteAt),
      outputs: row.outputs.map((output) => ({ ...output, note: noteAt(output.note) })),
      fills: row.fills.map((at) => fills[at]!),
      payouts: row.payouts.map((ref) => payoutOf(ref) as Withdrawal | Exit),
      reshapes: row.reshapes.map((at) => payments[at] as Reshape),
    }))
  const row = settlement_row.read(from)
  return {
    ...row,
    waiting: row.waiting.map(payoutOf),
    batches: new Map(batches.map((batch) => [batch.batch_id, batch])),
    payments: new Map(payments.slice(0, readable).map((payment) => [idOf(payment), payment])),
    exits: new Map(exits.map((exit) => [exit.nullifier, exit])),
  }
}

function decodePayment(from: ByteReader, { keys, noteAt }: Decoding): Withdrawal | Reshape {
  if (from.byte() === 0) {
    const row = withdrawal_row.read(from)
    const key = keys[row.key]!
    return { ...row, kind: 'withdrawal', key, note: noteAt(row.note), change: maybe(noteAt, row.change) }
  }
  const row = reshape_row.read(from)
  const [inputs, outputs] = [row.inputs, row.outputs].map((list) => list.map(noteAt))
  return { ...row, kind: 'reshape', key: keys[row.key]!, inputs: inputs!, outputs: outputs! }
}

function idOf(payment: Withdrawal | Reshape): string {
  return payment.kind === 'withdrawal' ? payment.withdrawal_id : payment.reshape_id
}

function maybe(noteAt: Decoding['noteAt'], place: number | undefined): Note | undefined {
  return place === undefined ? undefined : noteAt(place)
}
