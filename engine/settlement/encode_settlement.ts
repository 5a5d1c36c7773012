/** Encodes the settlement part of a snapshot. */
import type { ByteWriter } from '../state/byte_stream'
import { list } from '../state/codec'
import type { Tables } from '../state/snapshot_tables'
import type { Exit, Reshape, Settlement, Withdrawal } from './batch'
import { batch_row, exit_row, reshape_row, settlement_row, withdrawal_row } from './settlement_codec'

export function encodeSettlement(to: ByteWriter, settlement: Settlement, tables: Tables): void {
  const refOf = (payment: Withdrawal | Reshape | Exit) =>
    payment.kind === 'exit'
      ? { exit: true, at: tables.exits.at(payment) }
      : { exit: false, at: tables.payments.at(payment) }
  to.uint(settlement.payments.size)
  to.uint(tables.payments.rows.length)
  for (const payment of tables.payments.rows) encodePayment(to, payment, tables)
  list(exit_row).write(
    to,
    tables.exits.rows.map((exit) => ({ ...exit, note: tables.notes.maybe(exit.note) })),
  )
  list(batch_row).write(
    to,
    [...settlement.batches.values()].map((batch) => ({
      ...batch,
      inputs: batch.inputs.map(tables.notes.at),
      outputs: batch.outputs.map((output) => ({ ...output, note: tables.notes.at(output.note) })),
      fills: batch.fills.map(tables.fills.at),
      payouts: batch.payouts.map(refOf),
      reshapes: batch.reshapes.map(tables.payments.at),
    })),
  )
  settlement_row.write(to, { ...settlement, waiting: settlement.waiting.map(refOf) })
}

function encodePayment(to: ByteWriter, payment: Withdrawal | Reshape, tables: Tables): void {
  const key = payment.key.index
  if (payment.kind === 'withdrawal') {
    to.byte(0)
    const { note, change } = payment
    withdrawal_row.write(to, {
      ...payment,
      key,
      note: tables.notes.at(note),
      change: tables.notes.maybe(change),
    })
    return
  }
  to.byte(1)
  const { inputs, outputs } = payment
  reshape_row.write(to, {
    ...payment,
    key,
    inputs: inputs.map(tables.notes.at),
    outputs: outputs.map(tables.notes.at),
  })
}
