/** The shape of the tree is checked like any other promise: who imports whom, file names, sizes, words. */
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { Glob } from 'bun'

const ROOT = join(import.meta.dir, '..')
const SOURCE_FOLDERS = [
  'protocol',
  'native',
  'engine',
  'enclave',
  'routes',
  'client',
  'tools',
  'bench',
  'test',
  'program',
]
const LINES_MAX = 250
const COLUMNS_MAX = 130

const files = [...new Glob(`{${SOURCE_FOLDERS.join(',')}}/**/*.{ts,rs}`).scanSync({ cwd: ROOT })]
  .filter((file) => !file.includes('node_modules') && !file.startsWith('program/target'))
  .sort()
const text = new Map(files.map((file) => [file, readFileSync(join(ROOT, file), 'utf8')]))
const typescript = files.filter((file) => file.endsWith('.ts'))
const generated = (file: string) => file.endsWith('.gen.ts')

/** Module names a file imports, static and dynamic; relative ones as paths from the root. */
function importsOf(file: string): string[] {
  const source = text.get(file)!
  const names = [...source.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map((match) => match[1]!)
  // The demo starts other programs as processes; naming their files is not importing them.
  const urls = file.startsWith('client/demo/')
    ? []
    : [...source.matchAll(/new URL\('([^']+)'/g)].map((match) => match[1]!)
  return [...names, ...urls].map((name) =>
    name.startsWith('.') ? normalize(join(dirname(file), name)) : name,
  )
}
const folderOf = (path: string) => path.split('/')[0]!
const isOurs = (name: string) => SOURCE_FOLDERS.includes(folderOf(name))

/** Which of our folders a folder may import from. */
const MAY_IMPORT: Record<string, string[]> = {
  protocol: ['protocol'],
  native: ['native', 'protocol'],
  engine: ['engine', 'native', 'protocol'],
  enclave: ['enclave', 'protocol'],
  client: ['client', 'native', 'protocol'],
}
/** What `routes/` may take from the engine and the enclave: their faces, never their insides. */
const ROUTES_MAY_TAKE = [
  'engine/index',
  'engine/venue',
  'engine/ports',
  'engine/config',
  'engine/limits',
  'enclave/index',
  'enclave/contract',
]
/** Files that join the parts of a process, and so may take what a route may not. */
const JOINS = /^routes\/_(main|laptop|compose|join|open)[a-z_]*\.ts$/
/** Packages with one owner. */
const OWNERS: Record<string, RegExp> = {
  elysia: /^(routes|test\/routes|bench)\//,
  '@elysiajs/swagger': /^routes\//,
  '@solana/kit': /^(engine\/chain|client\/chain|test|bench)\//,
  litesvm: /^(engine\/chain\/embedded|test|bench)\//,
}

function offenders(check: (file: string) => string | undefined, among = typescript): string[] {
  return among.flatMap((file) => {
    const fault = check(file)
    return fault === undefined ? [] : [`${file}: ${fault}`]
  })
}

describe('structure', () => {
  test('imports go one way', () => {
    const faults = offenders((file) => {
      const allowed = MAY_IMPORT[folderOf(file)]
      return allowed && importsOf(file).find((name) => isOurs(name) && !allowed.includes(folderOf(name)))
    })
    expect(faults).toEqual([])
  })

  test('routes see the faces of engine and enclave, and no other route', () => {
    const faults = offenders((file) => {
      if (folderOf(file) !== 'routes' || JOINS.test(file) || generated(file)) return undefined
      return importsOf(file).find((name) => {
        if (!isOurs(name)) return false
        if (folderOf(name) === 'protocol') return false
        if (folderOf(name) === 'routes') return !/^routes\/_/.test(name)
        return !ROUTES_MAY_TAKE.includes(name.replace(/\.ts$/, ''))
      })
    })
    expect(faults).toEqual([])
  })

  test('each framework has one owner', () => {
    const faults = offenders((file) => {
      return importsOf(file).find((name) => {
        const owner = Object.entries(OWNERS).find(([pack]) => name === pack || name.startsWith(`${pack}/`))
        return owner !== undefined && !owner[1].test(file)
      })
    })
    expect(faults).toEqual([])
  })

  test('decisions of the engine read no clock, no chance and no process', () => {
    const pure = typescript.filter(
      (file) => /^engine\/(state|settlement|book)\//.test(file) && !/_cli\.ts$/.test(file),
    )
    expect(pure.length).toBeGreaterThan(20)
    const forbidden =
      /Date\.now|new Date\(|Math\.random|performance\.now|process\.|\bawait\b|\basync\b|setTimeout|crypto\.random/
    const faults = offenders((file) => forbidden.exec(withoutComments(text.get(file)!))?.[0], pure)
    expect(faults).toEqual([])
  })

  test('protocol runs anywhere: no file system, no process', () => {
    const faults = offenders((file) => {
      if (folderOf(file) !== 'protocol') return undefined
      return importsOf(file).find((name) => /^(node:fs|node:process|bun)/.test(name))
    })
    expect(faults).toEqual([])
  })

  test('files are small, lines are readable', () => {
    const faults = offenders((file) => {
      if (generated(file)) return undefined
      const lines = text.get(file)!.split('\n')
      if (lines.length - 1 > LINES_MAX) return `${lines.length - 1} lines`
      const long = lines.findIndex((line) => line.length > COLUMNS_MAX && !line.includes("'"))
      return long === -1 ? undefined : `line ${long + 1} has ${lines[long]!.length} columns`
    }, files)
    expect(faults).toEqual([])
  })

  test('names say one operation, in snake_case', () => {
    const faults = offenders((file) => {
      const name = file.split('/').at(-1)!
      if (/(^|_)(utils?|helpers?|manager|misc|common)(_|\.)/.test(name)) return 'names nothing'
      if (folderOf(file) === 'routes') return undefined
      return /^[a-z0-9_]+(\.test|\.gen)?\.(ts|rs)$/.test(name) ? undefined : 'is not snake_case'
    }, files)
    expect(faults).toEqual([])
  })

  test('every source file begins by saying what it owns', () => {
    const faults = offenders((file) => {
      const head = text.get(file)!.replace(/^#!.*\n/, '')
      // A route says it where Swagger does: above its one export.
      if (folderOf(file) === 'routes')
        return head.includes('/**') || generated(file) ? undefined : 'says nothing of itself'
      return /^(\/\*\*|\/\/)/.test(head) || /^\/\/!/.test(head) ? undefined : 'has no opening sentence'
    })
    expect(faults).toEqual([])
  })

  test('nothing unfinished or foreign is left in the text', () => {
    const words = /\b(TODO|FIXME|XXX|HACK|not implemented|lorem ipsum)\b/i
    const faults = offenders(
      (file) => (file === 'test/structure.test.ts' ? undefined : words.exec(text.get(file)!)?.[0]),
      files,
    )
    expect(faults).toEqual([])
  })
})

function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/\/\/.*$/gm, '')
}
