/** Writes rows as CSV (RFC 4180): a header of the schema's names, then a line for each row; null is empty. */

import type { TArray, TObject, TSchema } from '@sinclair/typebox'

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
