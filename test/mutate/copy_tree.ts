/** Copies the tree into a temporary folder, so that a fault is planted there and not here. */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Folders at the top that no test reads, or that are linked. */
const APART = new Set(['.git', 'node_modules', 'dist', 'data'])

/** A copy of the tree. Its tests keep their temporary folders beside it, so that killed ones leave nothing. */
export class TreeCopy {
  readonly #folder = mkdtempSync(join(tmpdir(), 'copy-'))
  readonly root = join(this.#folder, 'tree')
  readonly temporary = join(this.#folder, 't')

  constructor(readonly of: string) {
    for (const name of readdirSync(of))
      if (!APART.has(name)) cpSync(join(of, name), join(this.root, name), { recursive: true })
    symlinkSync(join(of, 'node_modules'), join(this.root, 'node_modules'))
    // Tests that find no recorded quotes beside the tree skip themselves, and would notice nothing.
    const beside = join(of, '../shared')
    if (existsSync(beside)) symlinkSync(beside, join(this.#folder, 'shared'))
    this.emptyTemporary()
  }

  emptyTemporary(): void {
    rmSync(this.temporary, { recursive: true, force: true, maxRetries: 3 })
    mkdirSync(this.temporary)
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 })
  }
}
