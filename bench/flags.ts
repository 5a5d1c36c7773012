/** Owns the numbers a bench takes from its command line: `--name value`. */
import { parseArgs } from 'node:util'

/** Every flag with its default; an unknown flag or a value that is no number ends the process with a sentence. */
export function numbers<const D extends Record<string, number>>(defaults: D): { [K in keyof D]: number } {
  const options = Object.fromEntries(Object.keys(defaults).map((name) => [name, { type: 'string' as const }]))
  const { values } = parseArgs({ options, args: process.argv.slice(2), strict: true })
  const read: Record<string, number> = { ...defaults }
  for (const [name, text] of Object.entries(values)) {
    const value = Number(text)
    if (!Number.isFinite(value) || value <= 0) throw new Error(`--${name} needs a positive number`)
    read[name] = value
  }
  return read as { [K in keyof D]: number }
}
