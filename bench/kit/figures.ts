/** Reads the flags of benchmarks, draws reproducible random numbers, and summarizes and prints figures. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { cpus, loadavg, release, tmpdir, totalmem } from 'node:os'
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

/**
 * Reads the flags `--name value` over their defaults, and `texts` as they are; an unknown flag or a number that is not positive
 * exits with 64.
 */
export function numbers<const D extends Record<string, number>, T extends string = never>(
  defaults: D,
  ...texts: T[]
): { [K in keyof D]: number } & { [K in T]?: string } {
  const names = [...Object.keys(defaults), ...texts]
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' as const }]))
  const read: Record<string, number | string> = { ...defaults }
  try {
    const { values } = parseArgs({ options, args: process.argv.slice(2), strict: true })
    for (const [name, text] of Object.entries(values)) {
      if (!(name in defaults)) {
        read[name] = text as string
        continue
      }
      const value = Number(text)
      if (!Number.isFinite(value) || value <= 0) throw new Error(`--${name} needs a positive number`)
      read[name] = value
    }
  } catch (error) {
    console.error((error as Error).message)
    process.exit(64)
  }
  return read as ReturnType<typeof numbers<D, T>>
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

function printTable(head: string[], rows: (string | number)[][]): void {
  const lines = [head, ...rows].map((row) => row.map(String))
  const widths = head.map((_, column) => Math.max(...lines.map((row) => row[column]!.length)))
  for (const row of lines) console.log(row.map((cell, column) => cell.padEnd(widths[column]!)).join('  '))
}

/** A figure of a bench; `beside` names its comparison in the same run, `target` is a bound such as `<= 1.5`. */
export type Figure = { figure: string; value: number; unit: string; beside?: string; target?: Target }
type Target = `${keyof typeof BOUNDS} ${number}`

const BOUNDS = {
  '<': (value: number, bound: number) => value < bound,
  '<=': (value: number, bound: number) => value <= bound,
  '>=': (value: number, bound: number) => value >= bound,
}

function isMissed({ value, target }: Figure): boolean {
  if (target === undefined) return false
  const [bound, number] = target.split(' ') as [keyof typeof BOUNDS, string]
  return !BOUNDS[bound](value, Number(number))
}

/** Prints the machine and figures as a table, then one JSON line each; the process exits with 1 when a target is missed. */
export function report(bench: string, figures: readonly Figure[]): void {
  const rows = figures.map((one) => ({
    ...one,
    value: Number(one.value.toPrecision(4)),
    ...(isMissed(one) ? { missed: true } : {}),
  }))
  console.log(machineText())
  printTable(
    ['figure', 'value', 'unit', 'beside', 'target'],
    rows.map(({ figure, value, unit, beside, target, missed }) => [
      figure,
      value,
      unit,
      beside ?? '',
      (target ?? '') + (missed ? ' missed' : ''),
    ]),
  )
  for (const one of rows) console.log(JSON.stringify({ bench, ...one }))
  if (figures.some(isMissed)) process.exitCode = 1
}

/** Processor, memory, system and the file system that benches write to; the load says what else ran. */
export function machineText(): string {
  const cores = cpus()
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, at]) => at === '/' || `${tmpdir()}/`.startsWith(`${at}/`))
  const [, at = '', kind = ''] = mounts.toSorted((a, b) => a[1]!.length - b[1]!.length).at(-1) ?? []
  return [
    `${cores.length} cores of ${cores[0]?.model}`,
    `${Math.round(totalmem() / 2 ** 30)} GB`,
    `Linux ${release()}`,
    `${kind} at ${at}`,
    `Bun ${Bun.version}`,
    `load ${loadavg()[0]!.toFixed(1)}`,
  ].join(', ')
}
