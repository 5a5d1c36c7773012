/** Builds the npm package `tacit-client`: plain modules with types for Bun, Node, Deno and browsers, and its tarball. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Glob } from 'bun'
import * as accounts from '../protocol/wire/accounts'
import * as public_shapes from '../protocol/wire/public'
import * as trading from '../protocol/wire/trading'
import * as schemas from '../protocol/wire/values'
import { wireTypes } from './wire_types'

const ROOT = join(import.meta.dir, '..')
const FACES = {
  '.': 'client/index',
  './verify': 'client/verify/index',
  './chain': 'client/chain/index',
  './testing': 'client/testing/index',
}
const COMMANDS = { tacit: 'client/cli/tacit' }
const WIRE = { accounts, public: public_shapes, trading }
const SHEBANG = /^#!.*\n/

/** @returns the path of the tarball in `out` */
export async function buildClient(out: string): Promise<string> {
  const folder = join(out, 'package')
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await Bun.build({
    entrypoints: [...Object.values(FACES), ...Object.values(COMMANDS)].map((entry) =>
      join(ROOT, `${entry}.ts`),
    ),
    root: ROOT,
    outdir: folder,
    target: 'node',
    format: 'esm',
    splitting: true,
    packages: 'external',
    throw: true,
  })
  for (const entry of Object.values(COMMANDS))
    edit(join(folder, `${entry}.js`), (text) => `#!/usr/bin/env node\n${text.replace(SHEBANG, '')}`)
  await declareTypes(folder)
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(description(folder), null, 2)}\n`)
  for (const [file, of] of [
    ['LICENSE', 'LICENSE'],
    ['README.md', 'client/PACKAGE.md'],
  ] as const)
    writeFileSync(join(folder, file), readFileSync(join(ROOT, of)))
  const packed = Bun.spawnSync([process.execPath, 'pm', 'pack', '--quiet', '--destination', out], {
    cwd: folder,
  })
  if (!packed.success) throw new Error(`the tarball cannot be written: ${packed.stderr}`)
  return join(out, `${NAME}-${own.version}.tgz`)
}

const NAME = 'tacit-client'
type Own = Record<'version' | 'description' | 'license', string> &
  Record<'dependencies' | 'devDependencies', Record<string, string>>
const own = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as Own

/** Types beside the modules, with the extensions that Node's resolution demands. */
async function declareTypes(folder: string): Promise<void> {
  const faces = Object.values(FACES).map((face) => join(ROOT, `${face}.ts`))
  const config = {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      rootDir: ROOT,
      outDir: folder,
    },
    files: faces,
    include: [],
  }
  const path = join(folder, 'tsconfig.json')
  writeFileSync(
    path,
    JSON.stringify({
      ...config,
      compilerOptions: { ...config.compilerOptions, typeRoots: [join(ROOT, 'node_modules')] },
    }),
  )
  const ran = Bun.spawnSync([join(ROOT, 'node_modules/.bin/tsc'), '-p', path])
  rmSync(path)
  // The types of schemas name what a schema library keeps to itself; those modules get written types.
  const faults = String(ran.stdout)
    .split('\n')
    .filter((line) => /error TS/.test(line) && !line.startsWith('protocol/wire/'))
  if (faults.length > 0) throw new Error(`the types cannot be written: ${faults.join('; ')}`)
  rmSync(join(folder, 'protocol/wire'), { recursive: true, force: true })
  mkdirSync(join(folder, 'protocol/wire'), { recursive: true })
  for (const [name, values] of Object.entries(WIRE))
    writeFileSync(
      join(folder, `protocol/wire/${name}.d.ts`),
      wireTypes(readFileSync(join(ROOT, `protocol/wire/${name}.ts`), 'utf8'), { ...schemas, ...values }),
    )
  for (const file of new Glob('**/*.d.ts').scanSync({ cwd: folder, absolute: true }))
    edit(file, (text) => text.replaceAll(/(from |import\()(['"])(\.{1,2}\/[^'"]+?)(\.ts)?\2/g, '$1$2$3.js$2'))
}

function description(folder: string): object {
  const target = (entry: string) => ({ types: `./${entry}.d.ts`, default: `./${entry}.js` })
  return {
    name: NAME,
    version: own.version,
    description: 'Verifies and trades on Tacit, a confidential venue: sessions, wallet, receipts, exits.',
    license: own.license,
    type: 'module',
    engines: { node: '>=20.18.1' },
    exports: Object.fromEntries(Object.entries(FACES).map(([name, entry]) => [name, target(entry)])),
    bin: Object.fromEntries(Object.entries(COMMANDS).map(([name, entry]) => [name, `./${entry}.js`])),
    // A browser pins no TLS key: `connect` throws there before it opens anything.
    browser: { undici: false },
    sideEffects: false,
    dependencies: dependencies(folder),
  }
}

/** The packages that modules and types import, at the versions the tests ran with. */
function dependencies(folder: string): Record<string, string> {
  const versions = { ...own.devDependencies, ...own.dependencies }
  const named = new Set<string>()
  for (const file of new Glob('**/*.{js,d.ts}').scanSync({ cwd: folder, absolute: true }))
    for (const [, specifier = ''] of readFileSync(file, 'utf8').matchAll(
      /(?:\bfrom|\bimport\(|^import) ?['"]([^'"]+)['"]/gm,
    ))
      if (!specifier.startsWith('.') && !/^(node|bun):/.test(specifier))
        named.add(
          specifier
            .split('/')
            .slice(0, specifier.startsWith('@') ? 2 : 1)
            .join('/'),
        )
  return Object.fromEntries(
    [...named].sort().map((name) => {
      const version = versions[name]
      if (version === undefined)
        throw new Error(`${relative(ROOT, folder)} imports ${name}, which package.json does not name`)
      return [name, version]
    }),
  )
}

function edit(path: string, change: (text: string) => string): void {
  writeFileSync(path, change(readFileSync(path, 'utf8')))
}

if (import.meta.main) console.log(await buildClient(join(ROOT, 'dist/client')))
