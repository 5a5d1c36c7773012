/** Opens a compiled library if it is the one that was built: a damaged one would end the process when it is loaded or called. */
import { dlopen, type FFIFunction } from 'bun:ffi'
import { createHash } from 'node:crypto'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { LIBRARY_HASHES } from './library_hashes'

/** Functions of this thread's libraries, by path and hash. */
const loaded = new Map<string, object>()

/**
 * Loads the file that was hashed, by its descriptor: the name may lead to another one meanwhile. The descriptor stays open,
 * because the loader takes two files of one name for one library, also under /proc; so a file is loaded once.
 * @throws Error when the file is absent or another than the built one
 */
export function openLibrary<Functions extends Record<string, FFIFunction>>(
  path: string,
  functions: Functions,
  hashes = LIBRARY_HASHES,
) {
  const fd = openSync(path, 'r')
  let is_kept = false
  try {
    const hash = createHash('sha256').update(readFileSync(fd)).digest('hex')
    if (hash !== hashes[basename(path)]) throw new Error(`${path} is not the library that was built`)
    const name = `${hash} ${path}`
    const known = loaded.get(name) as typeof symbols | undefined
    if (known !== undefined) return known
    const { symbols } = dlopen(`/proc/self/fd/${fd}`, functions)
    loaded.set(name, symbols)
    is_kept = true
    return symbols
  } finally {
    if (!is_kept) closeSync(fd)
  }
}
