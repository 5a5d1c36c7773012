/**
 * `bun run image-inputs [--bun FILE] [--out FILE]`: one tar of everything the image adds to its base: sources as
 * git stores them, packages of the lockfile, the Bun binary by hash. Equal bytes from every clone of a commit; prints their hash.
 */

import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Glob } from 'bun'
import { Options, runCommand } from '../../client/cli/command'
import { concatBytes, utf8 } from '../../protocol/bytes'

type TarEntry = {
  /** Relative, no leading or trailing slash. */
  path: string
  mode: number
  /** User and group of the entry. */
  owner: number
  /** Absent for a folder. */
  content?: Uint8Array
}

const BLOCK = 512
const [REGULAR, FOLDER] = ['0', '5']

/**
 * Entries in byte order of their paths, each stamped with `mtime_s`, no user names.
 * @throws RangeError for a path the format cannot hold.
 */
export function tarOf(entries: readonly TarEntry[], mtime_s: number): Uint8Array {
  const ordered = [...entries].sort((a, b) => (a.path < b.path ? -1 : 1))
  const parts = ordered.flatMap((entry) => {
    const content = entry.content ?? new Uint8Array(0)
    return [header(entry, mtime_s), content, new Uint8Array(-content.length & (BLOCK - 1))]
  })
  return concatBytes(...parts, new Uint8Array(2 * BLOCK))
}

function header(entry: TarEntry, mtime_s: number): Uint8Array {
  const block = new Uint8Array(BLOCK)
  const text = (at: number, value: string) => block.set(utf8(value), at)
  const octal = (at: number, width: number, value: number) =>
    text(at, `${value.toString(8).padStart(width - 1, '0')}\0`)
  const { name, prefix } = splitPath(entry.content === undefined ? `${entry.path}/` : entry.path)
  text(0, name)
  octal(100, 8, entry.mode)
  octal(108, 8, entry.owner)
  octal(116, 8, entry.owner)
  octal(124, 12, entry.content?.length ?? 0)
  octal(136, 12, mtime_s)
  text(148, '        ')
  text(156, entry.content === undefined ? FOLDER : REGULAR)
  text(257, 'ustar\x0000')
  text(345, prefix)
  const sum = block.reduce((total, byte) => total + byte, 0)
  text(148, `${sum.toString(8).padStart(6, '0')}\0 `)
  return block
}

/** Up to 100 bytes of name, up to 155 of prefix, cut at a slash. */
function splitPath(path: string): { name: string; prefix: string } {
  if (utf8(path).length <= 100) return { name: path, prefix: '' }
  for (let at = path.indexOf('/'); at !== -1; at = path.indexOf('/', at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)]
    if (name !== '' && utf8(name).length <= 100 && utf8(prefix).length <= 155) return { name, prefix }
  }
  throw new RangeError(`${path}: too long for a tar header`)
}

/** The Bun version of package.json's `engines`, as published in npm's `@oven/bun-linux-x64` of that version. */
export const BUN_SHA256 = '10702245766b225e70bbf6235fd6b47214fd94b4760d00ffaed8ab0df57ac235'
const BUN_PACKAGE = '@oven/bun-linux-x64'

/** The user the process runs as, and the owner of its data folder. */
const VENUE_USER = 10_001
/** Every time stamp in the image, seconds (reproducible-builds.org, SOURCE_DATE_EPOCH). */
export const SOURCE_DATE_EPOCH = 0

/** Peers used by types only, and links to commands. */
const LEFT_OUT = /^(\.bin|typescript|@typescript)\//
/** Not read at run time; licences require their text with every copy. */
const UNREAD = /(?<!licen[cs]e)\.(d\.[cm]?ts|map|md|markdown)$/i

/** Sources in the image. Without compose.yaml: it names the image's digest, so the image cannot contain it. */
const SOURCES = [
  'protocol',
  'engine',
  'enclave',
  'native',
  'routes',
  'server',
  // The venue judges its own machine by it.
  'client/verify',
  'client/limits.ts',
  // The venue serves them as pages.
  'docs',
  'SECURITY.md',
  'package.json',
  'bun.lock',
  'bunfig.toml',
  'LICENSE',
]
/** Of the build, not in the image. */
const BUILD_FILES = ['Dockerfile', '.dockerignore']
/** The inputs of `bun install`. */
const PACKAGE_FILES = ['package.json', 'bun.lock', 'bunfig.toml']
/** Git's mode of a file; links and submodules are none. */
const FILE_MODES = ['100644', '100755']

/**
 * The production packages, installed from the lockfile for Linux on x64: it fixes every version and hash, and no script
 * of a package runs. @throws Error when the installation fails
 */
export function collectPackages(root: string): TarEntry[] {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-packages-'))
  try {
    for (const { path, content } of committedFiles(root, PACKAGE_FILES))
      writeFileSync(join(folder, path), content)
    install(folder)
    const modules = join(folder, 'node_modules')
    const files = [...new Glob('**/*').scanSync({ cwd: modules, dot: true })]
    return files
      .filter((file) => !LEFT_OUT.test(file) && !UNREAD.test(file))
      .map((file) => ({
        path: `app/node_modules/${file}`,
        mode: 0o644,
        owner: 0,
        content: readFileSync(join(modules, file)),
      }))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function install(folder: string): void {
  const flags = ['--frozen-lockfile', '--production', '--ignore-scripts', '--os', 'linux', '--cpu', 'x64']
  const { stderr, exitCode } = Bun.spawnSync([process.execPath, 'install', ...flags], { cwd: folder })
  if (exitCode !== 0) throw new Error(`bun install: ${stderr.toString().trim()}`)
}

/** @throws Error when a file differs from its commit, because the image could not be reproduced */
export function collectSources(root: string): TarEntry[] {
  const paths = [...SOURCES, ...BUILD_FILES]
  const changed = git(root, 'status', '--porcelain', '--untracked-files=all', '--', ...paths)
  if (changed !== '') throw new Error(`not committed, so not reproducible:\n${changed}`)
  return committedFiles(root, SOURCES).map(({ path, content }) => ({
    path: `app/${path}`,
    mode: 0o644,
    owner: 0,
    content,
  }))
}

/** The Dockerfile of the commit. */
export function committedDockerfile(root: string): Uint8Array {
  return committedFiles(root, ['Dockerfile'])[0]!.content
}

/**
 * The files of HEAD below `paths`, as git stores them: the work tree may hold other bytes under a clean status
 * (`core.autocrlf`, filters, `assume-unchanged`).
 */
function committedFiles(root: string, paths: readonly string[]): { path: string; content: Uint8Array }[] {
  const entries = git(root, 'ls-tree', '-r', '-z', '--full-tree', 'HEAD', '--', ...paths)
    .split('\0')
    .filter((entry) => entry !== '')
  const files = entries.map((entry) => {
    const [, mode, object, path] = /^(\d+) \w+ ([0-9a-f]+)\t(.*)$/s.exec(entry) ?? []
    if (!FILE_MODES.includes(mode!)) throw new Error(`${path}: not a file; the image has files only`)
    return { path: path!, object: object! }
  })
  const contents = readObjects(
    root,
    files.map(({ object }) => object),
  )
  return files.map(({ path }, at) => ({ path, content: contents[at]! }))
}

/** `git cat-file --batch` answers each name with `NAME TYPE SIZE`, newline, the bytes, newline. */
function readObjects(root: string, objects: readonly string[]): Uint8Array[] {
  const bytes = gitBytes(root, ['cat-file', '--batch'], objects.map((object) => `${object}\n`).join(''))
  let at = 0
  return objects.map((object) => {
    const start = bytes.indexOf(10, at) + 1
    const [name, type, size] = bytes.toString('latin1', at, start - 1).split(' ')
    if (name !== object || type !== 'blob') throw new Error(`git cat-file: ${object} is no file`)
    at = start + Number(size) + 1
    return new Uint8Array(bytes.subarray(start, at - 1))
  })
}

export function commitOf(root: string): string {
  return git(root, 'rev-parse', 'HEAD').trim()
}

const git = (root: string, ...parameters: string[]): string => gitBytes(root, parameters).toString()

function gitBytes(root: string, parameters: readonly string[], stdin = ''): Buffer {
  // A replaced object would be read in place of the committed one.
  const command = ['git', '--no-replace-objects', ...parameters]
  const { stdout, stderr, exitCode } = Bun.spawnSync(command, { cwd: root, stdin: Buffer.from(stdin) })
  if (exitCode !== 0) throw new Error(`git ${parameters[0]}: ${stderr.toString().trim()}`)
  return stdout
}

const ROOT = join(import.meta.dir, '../..')

/** @param bun path of the Bun binary for Linux on x64. @throws Error naming the file that does not match its pin. */
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
