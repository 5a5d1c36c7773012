/** Prints the demo's numbered chapters, facts in columns and progress, and ends the story at the first failed check. */
import { formatAmount } from '../../client/index'
import { DEMO_EVENT_MAX_MS } from '../../client/limits'
import type { Amount } from '../../protocol/units'

const STYLES = { bold: 1, dim: 2, red: 31, green: 32 } as const
const PROGRESS_MS = 1_000
let chapter_number = 0

/** Escape codes only on a terminal, and not with NO_COLOR. */
function styled(style: keyof typeof STYLES, text: string): string {
  if (!process.stdout.isTTY || process.env['NO_COLOR']) return text
  return `\x1b[${STYLES[style]}m${text}\x1b[0m`
}

/** Prints a numbered heading and the sentence that explains the chapter. */
export function chapter(title: string, sentence?: string): void {
  chapter_number++
  console.log(`\n${styled('bold', `${chapter_number}. ${title}`)}`)
  if (sentence !== undefined) console.log(`   ${styled('dim', sentence)}`)
}

/** Shows on a terminal what the demo waits for and since how many seconds, until `work` settles. */
export async function waiting<T>(what: string, work: Promise<T>): Promise<T> {
  if (!process.stdout.isTTY) return work
  let seconds = 0
  const progress = setInterval(
    () => process.stdout.write(`\r   waits for ${what}: ${++seconds} s`),
    PROGRESS_MS,
  )
  try {
    return await work
  } finally {
    clearInterval(progress)
    process.stdout.write('\r\x1b[K')
  }
}

export function fact(label: string, value: string | number): void {
  console.log(`   ${label.padEnd(24)} ${value}`)
}

/** A promise of the venue that did not hold. */
export class DemoFailed extends Error {
  constructor(
    message: string,
    /** The venue's code, where its refusal is the failure. */
    readonly code?: string,
  ) {
    super(message)
  }
}

const DEMO_RETRY_MS = 500
/** The codes of a venue that the chain has not shown lately to hold the epoch, or to be anchored: nothing was applied. */
const UNAVAILABLE: ReadonlySet<unknown> = new Set(['lease_lost', 'unanchored'])

/** Retries what the venue cannot serve for a moment, for example after the machine was paused for longer than the lease. */
export async function available<T>(attempt: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + DEMO_EVENT_MAX_MS
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (!UNAVAILABLE.has(Object(error).code) || performance.now() > deadline) throw error
    }
    await Bun.sleep(DEMO_RETRY_MS)
  }
}

/** Prints the check with its evidence. @throws DemoFailed when it does not hold. */
export function check(holds: boolean, what: string, evidence = ''): void {
  const verdict = holds ? styled('green', 'ok') : styled('red', 'FAILED')
  console.log(`   [${verdict}] ${what}${evidence === '' ? '' : `  (${evidence})`}`)
  if (!holds) throw new DemoFailed(what)
}

/** Base units as a decimal text. */
export const tokens = (amount: bigint, decimals: number): string => formatAmount(amount as Amount, decimals)

/** First and last eight characters. */
export function short(text: string): string {
  return text.length <= 20 ? text : `${text.slice(0, 8)}...${text.slice(-8)}`
}
