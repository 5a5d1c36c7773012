/** Replaces a file so that a reader sees the old content or the new, never a part, whenever the process ends. Bun and Node. */
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync } from 'node:fs'

/** The disk is full or the place is not writable; the file is as it was before. */
export class NotWritten extends Error {
  constructor(path: string, cause: unknown) {
    super(`${path} cannot be written: ${(cause as Error).message}`, { cause })
    this.name = 'NotWritten'
  }
}

/** Content and name are on disk before it returns. @param mode permissions of a new file. @throws NotWritten */
export function writeWhole(path: string, content: string | Uint8Array, mode: number): void {
  const next = `${path}.new`
  try {
    // What an interrupted write left behind keeps its mode, and a link there leads elsewhere.
    rmSync(next, { force: true })
    // Writes all of it or throws; writeSync may write a part.
    synced(next, 'wx', mode, (file) => writeFileSync(file, content))
    renameSync(next, path)
    synced(path.includes('/') ? path.replace(/[^/]*$/, '') : '.', 'r')
  } catch (cause) {
    rmSync(next, { force: true })
    throw new NotWritten(path, cause)
  }
}

function synced(path: string, flags: 'r' | 'wx', mode?: number, use?: (file: number) => void): void {
  const file = openSync(path, flags, mode)
  try {
    use?.(file)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
