/** Shared by the crash test and the process it kills: key, segment size and how a record names its group. */

export const CRASH_KEY = new Uint8Array(32).fill(9)
/** Small, so that segments change all the time. */
export const CRASH_SEGMENT_BYTES = 64 * 1024

/** Place of a record in its group. */
type Mark = { count: number; index: number }

export function encodeMark({ count, index }: Mark, bytes: number): Uint8Array {
  const body = new Uint8Array(bytes).fill(index)
  body[0] = count
  body[1] = index
  return body
}

export function decodeMark(body: Uint8Array): Mark {
  return { count: body[0] ?? 0, index: body[1] ?? 0 }
}
