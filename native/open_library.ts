/** Opens a compiled library if it is the one that was built: a damaged one would end the process when it is loaded or called. */
import { dlopen, type FFIFunction } from 'bun:ffi'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { LIBRARY_HASHES } from './library_hashes'

/** @throws Error when the file is absent or another than the built one */
export function openLibrary<Functions extends Record<string, FFIFunction>>(
  path: string,
  functions: Functions,
  hashes = LIBRARY_HASHES,
) {
  const hash = createHash('sha256').update(readFileSync(path)).digest('hex')
  if (hash !== hashes[basename(path)]) throw new Error(`${path} is not the library that was built`)
  return dlopen(path, functions).symbols
}
