/** Which notes are held by what refers to them beyond a command. */
import type { Reshape, SettlementBatch, Withdrawal } from '../settlement/batch'
import type { FillRecord } from './fill_record'
import type { Note } from './note'
import type { Notes } from './notes'

export function notesOfFills(fills: readonly FillRecord[]): Note[] {
  return fills.flatMap(({ proceeds, change }) => [proceeds, change].filter((note) => note !== undefined))
}

export function notesOfPayment(payment: Withdrawal | Reshape): Note[] {
  if (payment.kind === 'reshape') return [...payment.inputs, ...payment.outputs]
  return payment.change === undefined ? [payment.note] : [payment.note, payment.change]
}

export function holdFill(notes: Notes, { proceeds, change }: FillRecord): void {
  if (proceeds !== undefined) notes.hold(proceeds)
  if (change !== undefined) notes.hold(change)
}

export function dropFill(notes: Notes, { proceeds, change }: FillRecord): void {
  if (proceeds !== undefined) notes.drop(proceeds)
  if (change !== undefined) notes.drop(change)
}

/** The notes of its fills are among its outputs. */
export function notesOfBatch(batch: SettlementBatch): Note[] {
  return [...batch.inputs, ...batch.outputs.map(({ note }) => note)]
}

export function holdAll(notes: Notes, held: readonly Note[]): void {
  for (const note of held) notes.hold(note)
}

export function dropAll(notes: Notes, held: readonly Note[]): void {
  for (const note of held) notes.drop(note)
}
