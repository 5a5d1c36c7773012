/** Owns how benchmarks summarise and print their figures. */

export function median(values: number[]): number {
  return quantile(values, 0.5)
}

/** The value below which the share `q` of the values lies. */
export function quantile(values: number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!
}

export function printTable(head: string[], rows: (string | number)[][]): void {
  const lines = [head, ...rows].map((row) => row.map(String))
  const widths = head.map((_, column) => Math.max(...lines.map((row) => row[column]!.length)))
  for (const row of lines) console.log(row.map((cell, column) => cell.padEnd(widths[column]!)).join('  '))
}

/** A figure of a bench and what it is measured against in the same run. */
export type Figure = { figure: string; value: number; unit: string; beside?: string; target?: string }

/** Prints figures as a table, then one JSON line each. */
export function report(bench: string, figures: readonly Figure[]): void {
  const rounded = figures.map((one) => ({ ...one, value: Number(one.value.toPrecision(4)) }))
  printTable(
    ['figure', 'value', 'unit', 'beside', 'target'],
    rounded.map(({ figure, value, unit, beside, target }) => [
      figure,
      value,
      unit,
      beside ?? '',
      target ?? '',
    ]),
  )
  for (const one of rounded) console.log(JSON.stringify({ bench, ...one }))
}
