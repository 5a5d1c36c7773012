/** Reads the flags of benchmarks, draws reproducible random numbers, and summarizes and prints figures. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

/** xorshift32: the same seed gives the same unsigned 32-bit integers on every machine. */
export function random(seed: number): () => number {
  let state = seed | 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return state >>> 0
  }
}

/** Reads the flags `--name value` over their defaults; an unknown flag or a value that is not positive exits with 64. */
export function numbers<const D extends Record<string, number>>(defaults: D): { [K in keyof D]: number } {
  const options = Object.fromEntries(Object.keys(defaults).map((name) => [name, { type: 'string' as const }]))
  const read: Record<string, number> = { ...defaults }
  try {
    const { values } = parseArgs({ options, args: process.argv.slice(2), strict: true })
    for (const [name, text] of Object.entries(values)) {
      const value = Number(text)
      if (!Number.isFinite(value) || value <= 0) throw new Error(`--${name} needs a positive number`)
      read[name] = value
    }
  } catch (error) {
    console.error((error as Error).message)
    process.exit(64)
  }
  return read as { [K in keyof D]: number }
}

/** Runs `use` in a temporary folder, which is removed afterwards. */
export async function inFolder<T>(bench: string, use: (dir: string) => Promise<T> | T): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), `tacit-bench-${bench}-`))
  try {
    return await use(dir)
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
}

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

/** A figure of a bench; `beside` names its comparison in the same run. */
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
