/**
 * `bun run image-inputs [--bun FILE] [--out FILE]`: one tar of everything the image adds to its base: sources as
 * git stores them, packages of the lockfile, the Bun binary by hash. Equal bytes from every clone of a commit; prints their hash.
 */

import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Options, runCommand } from '../../client/cli/command'
import {
  BUN_PACKAGE,
  BUN_SHA256,
  collectPackages,
  collectSources,
  commitOf,
  SOURCE_DATE_EPOCH,
  type TarEntry,
  tarOf,
  VENUE_USER,
} from './image_contents'

const ROOT = join(import.meta.dir, '../..')

/** @param bun path of the Bun binary for Linux on x64. @throws Error naming what does not match its pin. */
export function buildImageInputs(bun: string): Uint8Array {
  const files = [...collectSources(ROOT), ...collectPackages(ROOT), bunBinary(bun)]
  const data: TarEntry = { path: 'data', mode: 0o700, owner: VENUE_USER }
  return tarOf([...files, ...foldersOf(files, 'app'), data], SOURCE_DATE_EPOCH)
}

// Of the runtime, so that a clone needs no installed package to build the image.
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

function bunBinary(path: string): TarEntry {
  const content = readFileSync(path)
  if (sha256(content) !== BUN_SHA256)
    throw new Error(`${path}: not the pinned Bun; take bin/bun of npm's ${BUN_PACKAGE} with --bun`)
  return { path: 'usr/local/bin/bun', mode: 0o755, owner: 0, content }
}

/** Folders below `top`, itself included: those above belong to the base. */
function foldersOf(files: readonly TarEntry[], top: string): TarEntry[] {
  const folders = new Set<string>()
  for (const { path } of files)
    for (let folder = dirname(path); folder.split('/')[0] === top; folder = dirname(folder))
      folders.add(folder)
  return [...folders].map((path) => ({ path, mode: 0o755, owner: 0 }))
}

const USAGE = `usage: bun run image-inputs [--bun FILE] [--out FILE]
Writes the tar of everything that the image adds to its base, and prints its hash. --bun names the Bun binary of the image.`

if (import.meta.main)
  await runCommand(USAGE, (args) => {
    const options = new Options(args, { texts: ['bun', 'out'] })
    const out = options.text('out', join(ROOT, 'dist/image/inputs.tar'))
    const archive = buildImageInputs(options.text('bun', process.execPath))
    mkdirSync(dirname(out), { recursive: true })
    writeFileSync(out, archive)
    console.log(`commit   ${commitOf(ROOT)}`)
    console.log(`inputs   ${out}, ${archive.length} bytes`)
    console.log(`sha256   ${sha256(archive)}`)
  })
