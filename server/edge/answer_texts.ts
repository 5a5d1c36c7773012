/** Writes the texts of answers: JSON that fits its schema, and CSV. */

import type { TArray, TObject, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { Refusal } from '../../protocol/refusals'
import type { PlaceResult } from '../../protocol/wire/trading'
import type { Services } from './services'
import { Shared } from './shared_quotes'

/**
 * Rejects an answer that does not fit its schema: a field added by mistake must not leave the venue. Texts from the engine
 * were built from the wire's shapes and are validated only with `checks_texts`, and so are those of `writes`.
 */
export function answerTexts(
  body: TSchema,
  services: Services,
  route: string,
  writes: (answer: never) => unknown = (answer) => answer,
): (answer: unknown) => string {
  // Compiled at the first answer, so that the start does not wait for every schema.
  let compiled: TypeCheck<TSchema> | undefined
  const check = (value: unknown) => {
    compiled ??= TypeCompiler.Compile(body)
    if (compiled.Check(value)) return
    const pointer = compiled.Errors(value).First()?.path ?? ''
    const field = pointer.slice(1).replaceAll('/', '.')
    services.log.write('error', 'answer_undeclared', { route, field })
    throw new Refusal('internal')
  }
  /** JSON of frozen values: the venue returns the same object until it replaces it. */
  const texts = new WeakMap<object, string>()
  const textOf = (answer: unknown): string => {
    const value = writes(answer as never)
    if (typeof value === 'string') {
      if (services.checks_texts) check(JSON.parse(value))
      return value
    }
    if (value instanceof Shared) return value.textIn(textOf(value.answer))
    const known = texts.get(value as object)
    if (known !== undefined) return known
    check(value)
    const text = JSON.stringify(value)
    if (typeof value === 'object' && value !== null && Object.isFrozen(value)) texts.set(value, text)
    return text
  }
  return textOf
}

/** Names each field, so that one added by mistake does not leave the venue. */
export function placedText({ order_id, status, arrival_slot, seq, receipt }: PlaceResult): string {
  const { epoch, seq: last, head, root, signature, index, path } = receipt
  const shown = { epoch, seq: last, head, root, signature, index, path }
  return JSON.stringify({ order_id, status, arrival_slot, seq, receipt: shown })
}

type Row = Readonly<Record<string, string | number | null>>

/** For a body with a list of flat rows in `field`. */
export function csvOf(body: TSchema, field: string): (value: unknown) => string {
  const columns = Object.keys(((body as TObject).properties[field] as TArray<TObject>).items.properties)
  return (value) => {
    const rows = (value as Record<string, readonly Row[]>)[field]!
    const lines = rows.map((row) => columns.map((name) => cell(row[name] ?? '')).join(','))
    return `${[columns.join(','), ...lines].join('\r\n')}\r\n`
  }
}

const cell = (value: string | number): string =>
  /[",\r\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value)
