/** Builds the server as plain bundles: readable names, workers beside the entry, and the hash of every file. */
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Glob } from 'bun'

const ROOT = join(import.meta.dir, '..')
const OUT = join(ROOT, 'dist')

/** Worker threads load by URL beside their parent, so each is an entry of its own, in its own folder. */
const workers = [...new Glob('engine/**/*_worker.ts').scanSync({ cwd: ROOT })].sort()
const entries = ['routes/_main.ts', ...workers]

rmSync(OUT, { recursive: true, force: true })
const result = await Bun.build({
  entrypoints: entries.map((entry) => join(ROOT, entry)),
  root: ROOT,
  outdir: OUT,
  target: 'bun',
  // Native packages load their own binaries and stay as they were installed.
  external: ['litesvm'],
  // Elysia reads the source text of handlers: identifiers must keep their names.
  minify: false,
  throw: false,
})
if (!result.success) {
  for (const log of result.logs) console.error(String(log))
  process.exit(1)
}
mkdirSync(join(OUT, 'program'), { recursive: true })
cpSync(join(ROOT, 'program/vault.so'), join(OUT, 'program/vault.so'))

const built = (
  readdirSync(OUT, { recursive: true, withFileTypes: true }) as {
    isFile(): boolean
    parentPath: string
    name: string
  }[]
)
  .filter((entry) => entry.isFile())
  .map((entry) => relative(OUT, join(entry.parentPath, entry.name)))
  .sort()
const sums = built.map(
  (file) =>
    `${createHash('sha256')
      .update(readFileSync(join(OUT, file)))
      .digest('hex')}  ${file}\n`,
)
writeFileSync(join(OUT, 'sha256sum.txt'), sums.join(''))
process.stdout.write(sums.join(''))
