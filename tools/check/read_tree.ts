/** Reads every file of a checkout that git tracks or would track; ignored files do not exist for the checker. */
import { lstatSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Path from the root, with `/`, to text. Files that are not text count as present and empty. */
export type Tree = ReadonlyMap<string, string>

/** Replaces the text of a link or of a folder with its own repository. */
export const NOT_A_FILE = '\0'
export function isPlainFile(text: string): boolean {
  return text !== NOT_A_FILE
}

/** Files worth reading: the others (binaries, vectors, lockfiles) only have to exist. */
const TEXT = /(\.(ts|rs|md|json|yaml|yml|toml|html|css|py|sh)|(^|\/)(Dockerfile|run))$/
const OPAQUE = /^(test\/(vectors|golden)\/|bun\.lock$)/

/** @throws Error when `root` is not a git checkout. */
export function readTree(root: string): Tree {
  const listing = Bun.spawnSync(['git', 'ls-files', '-co', '--exclude-standard', '-z'], { cwd: root })
  if (!listing.success) throw new Error(`${root}: git ls-files failed; the check runs in a git checkout`)
  const tree = new Map<string, string>()
  for (const file of listing.stdout.toString().split('\0').filter(Boolean).sort()) {
    const path = join(root, file)
    const entry = lstatSync(path, { throwIfNoEntry: false })
    // A deleted file stays listed until its deletion is staged.
    if (entry === undefined) continue
    if (!entry.isFile()) tree.set(file, NOT_A_FILE)
    else tree.set(file, TEXT.test(file) && !OPAQUE.test(file) ? readFileSync(path, 'utf8') : '')
  }
  return tree
}
