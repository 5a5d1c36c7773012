/** Builds server bundles with readable names, their workers, the verification page, and the hash of every file. */
import { createHash } from 'node:crypto'
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Glob } from 'bun'
import { LIBRARIES } from '../native/build'
import { buildPage } from './build_page'

const ROOT = join(import.meta.dir, '..')
const OUT = join(ROOT, 'dist')
const SERVER = join(OUT, 'server')

/** Worker threads load by URL, so each is a separate entry. */
const workers = [...new Glob('engine/**/*_worker.ts').scanSync({ cwd: ROOT })].sort()

rmSync(OUT, { recursive: true, force: true })
const result = await Bun.build({
  entrypoints: ['server/main.ts', ...workers].map((entry) => join(ROOT, entry)),
  outdir: SERVER,
  naming: { entry: '[name].[ext]', asset: '[name].[ext]', chunk: '[name]-[hash].[ext]' },
  target: 'bun',
  // The bundle is the production server, like the image.
  external: ['../sandbox/open_sandbox'],
  // Elysia reads the source text of handlers: identifiers keep their names.
  minify: false,
  throw: false,
})
if (!result.success) {
  for (const log of result.logs) console.error(String(log))
  process.exit(1)
}

for (const name of readdirSync(SERVER).filter((file) => file.endsWith('.js'))) {
  const path = join(SERVER, name)
  // The bundler leaves the URLs of workers as they are written; next to a bundle they end in .js.
  writeFileSync(path, readFileSync(path, 'utf8').replaceAll(/(["']\.\/[a-z_]+_worker)\.ts(["'])/g, '$1.js$2'))
}
// Compiled code is loaded from the folder of the bundle.
for (const library of LIBRARIES) cpSync(join(ROOT, 'native', library), join(SERVER, library))
// So are the documents that the venue serves.
for (const path of ['docs', 'SECURITY.md'])
  cpSync(join(ROOT, path), join(SERVER, 'documents', path), { recursive: true })
await buildPage(join(OUT, 'page'))

const built = [...new Glob('**/*').scanSync({ cwd: OUT })].sort()
const sums = built.map(
  (file) =>
    `${createHash('sha256')
      .update(readFileSync(join(OUT, file)))
      .digest('hex')}  ${file}\n`,
)
writeFileSync(join(OUT, 'sha256sum.txt'), sums.join(''))
process.stdout.write(sums.join(''))
