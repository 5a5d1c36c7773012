/** Parses JSON without repeated keys, of which JSON.parse silently keeps the last, and finds numbers that it would round. */

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const DOT = 0x2e
const SMALL_E = 0x65

/** A key of an object repeats. */
export class DuplicateKey extends Error {
  override readonly name = 'DuplicateKey'
}

/** @throws SyntaxError for text that is not JSON, DuplicateKey */
export function strictJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  // Each member has one colon outside strings.
  if (membersWritten(text) !== membersKept(value)) throw new DuplicateKey()
  return value
}

/** Last key before the first number with a fraction or exponent. @param text JSON of an object */
export function fractionIn(text: string): string | undefined {
  let [key, string] = ['', '']
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit === COLON) key = string
    else if (unit === DOT || isExponent(text, at)) return JSON.parse(key) as string
    else if (unit === QUOTE) {
      const end = endOfString(text, at)
      string = text.slice(at, end + 1)
      at = end
    }
  }
  return undefined
}

/** Outside strings an `e` behind a digit begins an exponent; others are letters of `true` and `false`. */
function isExponent(text: string, at: number): boolean {
  return (text.charCodeAt(at) | 0x20) === SMALL_E && /[0-9]/.test(text.charAt(at - 1))
}

function membersWritten(text: string): number {
  let members = 0
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at)
    if (unit === COLON) members += 1
    else if (unit === QUOTE) at = endOfString(text, at)
  }
  return members
}

/** Index of the quote that closes the string opened at `at`; the text is valid JSON. */
function endOfString(text: string, at: number): number {
  let end = text.indexOf('"', at + 1)
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0
  while (text.charCodeAt(at - 1 - backslashes) === BACKSLASH) backslashes += 1
  return backslashes % 2 === 1
}

function membersKept(root: unknown): number {
  let members = 0
  // A stack instead of recursion: the text may nest thousands of levels deep.
  const open: unknown[] = [root]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value !== 'object' || value === null) continue
    const entries = Array.isArray(value) ? value : Object.values(value)
    if (!Array.isArray(value)) members += entries.length
    for (const entry of entries) if (typeof entry === 'object' && entry !== null) open.push(entry)
  }
  return members
}
