/** Answers the commands of one socket in the order they came, however their results arrive. */

/** Commands of one socket that may be under way. */
export const REPLIES_MAX = 1_024

export interface Replies {
  /** Opens the next place in line; the returned function fills it once. */
  expect(): (frame: string) => void
  pending(): number
}

export function openReplies(send: (frame: string) => void): Replies {
  const line: { frame: string | undefined }[] = []
  const flush = () => {
    while (line.length > 0 && line[0]!.frame !== undefined) send(line.shift()!.frame!)
  }
  return {
    pending: () => line.length,
    expect() {
      const place: { frame: string | undefined } = { frame: undefined }
      line.push(place)
      return (frame) => {
        place.frame = frame
        flush()
      }
    },
  }
}
