/** Builds the npm package `tacit-client` with its tarball: plain modules, and types made from the schemas of the wire. */

import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { Glob } from 'bun'
import * as accounts from '../protocol/wire/accounts'
import * as public_shapes from '../protocol/wire/public'
import * as trading from '../protocol/wire/trading'
import * as schemas from '../protocol/wire/values'

/** Writes the types of a wire module out of its schemas, so the package's types need no schema library. */
type Schema = {
  type?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  allOf?: Schema[]
  items?: Schema | Schema[]
  properties?: Record<string, Schema>
  required?: string[]
  patternProperties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  description?: string
}

const TYPE = /^export type (\w+)(<\w+>)? = (.*)$/
const STATIC = /Static<typeof (\w+)>/g
const MEMBER = /^\(typeof (\w+)\)\[number\]$/
const ALIAS = /^ {2}(\w+) as (\w+),$/gm

/** @param source text of the module @param values its exports, and those of the modules that it imports from */
function wireTypes(source: string, values: Record<string, unknown>): string {
  const aliases = new Map([...source.matchAll(ALIAS)].map(([, name = '', alias = '']) => [alias, name]))
  const schemaOf = (name: string) => values[aliases.get(name) ?? name] as Schema
  const lines: string[] = []
  for (const line of source.split('\n')) {
    if (line.startsWith('export type *')) lines.push(line)
    const [, name, parameter = '', text = ''] = TYPE.exec(line) ?? []
    if (name === undefined) continue
    const [, list] = MEMBER.exec(text) ?? []
    const members =
      list === undefined ? undefined : (values[list] as unknown[]).map((one) => JSON.stringify(one))
    const type = members?.join(' | ') ?? text.replace(STATIC, (_, schema) => typeOf(schemaOf(schema), ''))
    lines.push(`export type ${name}${parameter} = ${type}`)
  }
  return `${lines.join('\n')}\n`
}

function typeOf(schema: Schema, indent: string): string {
  const union = (schemas: Schema[], by: string) => schemas.map((one) => typeOf(one, indent)).join(by)
  if ('const' in schema) return JSON.stringify(schema.const)
  if (schema.enum !== undefined) return schema.enum.map((one) => JSON.stringify(one)).join(' | ')
  if (schema.anyOf !== undefined) return `(${union(schema.anyOf, ' | ')})`
  if (schema.allOf !== undefined) return `(${union(schema.allOf, ' & ')})`
  switch (schema.type) {
    case 'integer':
      return 'number'
    case 'array':
      if (Array.isArray(schema.items)) return `[${union(schema.items, ', ')}]`
      return `${typeOf(schema.items!, indent)}[]`
    case 'object':
      return objectOf(schema, indent)
    case 'string':
    case 'number':
    case 'boolean':
    case 'null':
      return schema.type
    default:
      return 'unknown'
  }
}

function objectOf(schema: Schema, indent: string): string {
  const [pattern] = Object.values(schema.patternProperties ?? {})
  if (pattern !== undefined) return `Record<string, ${typeOf(pattern, indent)}>`
  const inner = `${indent}  `
  const members = Object.entries(schema.properties ?? {}).flatMap(([name, one]) => [
    comment(one.description, inner),
    `${inner}${name}${schema.required?.includes(name) ? '' : '?'}: ${typeOf(one, inner)}`,
  ])
  return `{\n${members.filter((line) => line !== '').join('\n')}\n${indent}}`
}

const comment = (text: string | undefined, indent: string): string =>
  text === undefined ? '' : `${indent}/** ${text.replaceAll('*/', '* /')} */`

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

/** Types next to the modules, with the extensions that Node's resolution demands. */
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
  // The types of schemas name internals of a schema library; those modules get written types.
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
