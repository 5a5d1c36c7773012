/** Why evidence is not believed. Every check ends by returning or by throwing this. */
import { MalformedEventLog } from '../../protocol/event_log'
import { MalformedQuote } from '../../protocol/quote'

/** The message names what does not hold, in words that may be shown; it holds no secret and no content. */
export class Refused extends Error {
  override readonly name: string = 'Refused'
}

/** One sentence for a transcript; a fault nobody foresaw is named as one, and refuses too. */
export function reasonOf(error: unknown): string {
  if (error instanceof Refused || error instanceof MalformedQuote || error instanceof MalformedEventLog)
    return error.message
  return `unexpected ${error instanceof Error ? `${error.name}: ${error.message}` : 'fault'}`
}

/** @throws Refused with `reason` unless the condition holds. */
export function requireThat(condition: boolean, reason: string): asserts condition {
  if (!condition) throw new Refused(reason)
}
