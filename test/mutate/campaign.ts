/** Plants the faults of a sample one at a time in copies of the tree, records whether the tests notice them, and reports. */

import { appendFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openGraph } from '../../tools/check/module_graph'
import { TreeCopy } from '../kit/copy_tree'
import { Random } from '../kit/random'
import { said } from '../kit/said'
import { EXPLAINED } from './areas'
import { parses, planted, type Site, sitesIn } from './sites'

export type Area = {
  /** Files and folders in which faults are planted. */
  readonly sources: readonly string[]
  /** Tests and folders of tests, the cheapest first. */
  readonly tests: readonly string[]
  /** Tests that run only when the others notice nothing; folders of `tests` may hold them. */
  readonly slow: readonly string[]
  /** For each of the two groups, several times its duration on an idle machine. */
  readonly limit_s: number
}

/** `gone`: the source has changed since the sample was drawn. */
type Verdict = 'noticed' | 'time limit' | 'compiler' | 'survived' | 'gone'
export type Result = { readonly at: number; readonly verdict: Verdict; readonly by: string; seconds: number }

/** Files below a folder, or the file itself, as paths from the root. */
export function filesIn(root: string, path: string, extension: RegExp): string[] {
  if (statSync(join(root, path)).isFile()) return extension.test(path) ? [path] : []
  return readdirSync(join(root, path), { recursive: true, encoding: 'utf8' })
    .filter((name) => extension.test(name))
    .map((name) => `${path}/${name}`)
    .sort()
}

/** A generated file follows from its sources. */
export const SOURCE = /(?<!\.gen)\.(ts|rs)$/
export const sourcesOf = (root: string, { sources }: Area): string[] =>
  sources.flatMap((path) => filesIn(root, path, SOURCE))

const TEST = /\.test\.ts$/
function testsOf(root: string, { tests, slow }: Area): { quick: string[]; slow: string[] } {
  const late = slow.flatMap((path) => filesIn(root, path, TEST))
  const early = tests.flatMap((path) => filesIn(root, path, TEST))
  return { quick: [...new Set(early)].filter((path) => !late.includes(path)), slow: late }
}

/** The same seed draws the same faults from the same sources. */
function drawFaults(root: string, area: Area, count: number, seed: number): Site[] {
  const texts = new Map(sourcesOf(root, area).map((file) => [file, readFileSync(join(root, file), 'utf8')]))
  const pool = [...texts].flatMap(([file, text]) => sitesIn(file, text))
  const random = new Random(seed)
  const drawn: Site[] = []
  while (drawn.length < count && pool.length > 0) {
    const [site] = pool.splice(random.below(pool.length), 1)
    if (parses(texts.get(site!.file)!, site!)) drawn.push(site!)
  }
  return drawn
}

/** Puts the tests first that import the file, then those that import an importer, and so on. */
function nearestFirst(root: string): (tests: readonly string[], file: string) => string[] {
  const files = readdirSync(root).flatMap((top) =>
    top === 'node_modules' || top.startsWith('.') ? [] : filesIn(root, top, /\.ts$/),
  )
  const graph = openGraph(new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')])))
  const importers = new Map<string, string[]>()
  for (const { from, target } of [...graph.edges.values()].flat())
    if (target !== undefined) importers.set(target, [...(importers.get(target) ?? []), from])
  return (tests, file) => {
    const distance = new Map([[file, 0]])
    for (const [at, steps] of distance)
      for (const from of importers.get(at) ?? []) if (!distance.has(from)) distance.set(from, steps + 1)
    const of = (test: string) => distance.get(test) ?? Number.MAX_SAFE_INTEGER
    return [...tests].sort((a, b) => of(a) - of(b))
  }
}

export class Campaign {
  readonly sites: readonly Site[]
  readonly results = new Map<number, Result>()
  readonly #copies: TreeCopy[] = []
  readonly #running = new Set<Bun.Subprocess>()
  #closed = false

  /** @param file goes on where this file ends, and every result is appended to it */
  constructor(
    readonly root: string,
    readonly name: string,
    readonly area: Area,
    count: number,
    seed: number,
    readonly file?: string,
  ) {
    if (file === undefined || !existsSync(file)) {
      this.sites = drawFaults(root, area, count, seed)
      if (file !== undefined) writeFileSync(file, `${JSON.stringify({ name, seed, sites: this.sites })}\n`)
      return
    }
    // A run that was killed may have left half a line.
    const [head = '', ...lines] = readFileSync(file, 'utf8').split('\n').slice(0, -1)
    if (!head.startsWith(`{"name":"${name}",`)) throw new Error(`${file} is no sample of ${name}`)
    this.sites = JSON.parse(head).sites
    for (const line of lines) this.results.set(JSON.parse(line).at, JSON.parse(line))
    writeFileSync(file, [head, ...lines, ''].join('\n'))
  }

  forgetSurvivors(): void {
    for (const [at, { verdict }] of this.results) if (verdict === 'survived') this.results.delete(at)
  }

  async run(workers: number, report: (result: Result) => void): Promise<void> {
    const open = this.sites.map((_, at) => at).filter((at) => !this.results.has(at))
    const nearest = nearestFirst(this.root)
    const tests = testsOf(this.root, this.area)
    const work = async (first: boolean) => {
      const copy = new TreeCopy(this.root)
      this.#copies.push(copy)
      // A fault may leave a name unused.
      for (const path of ['program/build.ts', 'native/build.ts'].map((one) => join(copy.root, one)))
        if (existsSync(path))
          writeFileSync(path, readFileSync(path, 'utf8').replace(/ *'-Dwarnings',?\n?/g, ''))
      if (first) await this.#holdsWithout(copy, tests)
      for (let at = open.shift(); at !== undefined && !this.#closed; at = open.shift()) {
        const began_ms = performance.now()
        const { file } = this.sites[at]!
        const near = { quick: nearest(tests.quick, file), slow: nearest(tests.slow, file) }
        const [verdict, by] = await this.#judge(copy, this.sites[at]!, near)
        if (this.#closed) return
        const result = { at, verdict, by, seconds: Math.round((performance.now() - began_ms) / 1000) }
        this.results.set(at, result)
        if (this.file !== undefined) appendFileSync(this.file, `${JSON.stringify(result)}\n`)
        report(result)
      }
    }
    if (open.length === 0) return
    // The others begin once the tests hold without a fault.
    const others = Array.from({ length: workers - 1 }, () => false)
    await work(true)
    await Promise.all(others.map(work))
  }

  async #holdsWithout(copy: TreeCopy, tests: { quick: string[]; slow: string[] }): Promise<void> {
    for (const group of [tests.quick, tests.slow]) {
      const [verdict, by] = await this.#runTests(copy, group)
      if (verdict !== 'survived') throw new Error(`without a fault: ${verdict} by ${by}`)
    }
    const types = await this.#types(copy)
    if (types !== undefined) throw new Error(`without a fault: ${types}`)
  }

  async #judge(copy: TreeCopy, site: Site, tests: { quick: string[]; slow: string[] }) {
    const source = readFileSync(join(this.root, site.file), 'utf8')
    if (source.slice(site.start, site.end) !== site.was) return ['gone', ''] as const
    const path = join(copy.root, site.file)
    writeFileSync(path, planted(source, site))
    try {
      const rust = site.file.endsWith('.rs')
      const build = `${site.file.split('/')[0]}/build.ts`
      if (rust && (await this.#spawn(copy, [process.execPath, build])).code !== 0)
        return ['compiler', build] as const
      const quick = await this.#runTests(copy, tests.quick)
      if (quick[0] !== 'survived') return quick
      const types = rust ? undefined : await this.#types(copy)
      return types === undefined ? await this.#runTests(copy, tests.slow) : (['compiler', types] as const)
    } finally {
      writeFileSync(path, source)
    }
  }

  /** The first error of the type checker. */
  async #types(copy: TreeCopy): Promise<string | undefined> {
    const { code, out } = await this.#spawn(copy, ['node_modules/.bin/tsc', '--noEmit'])
    return code === 0 ? undefined : (out.split('\n')[0] ?? 'tsc')
  }

  async #runTests(copy: TreeCopy, tests: readonly string[]): Promise<readonly [Verdict, string]> {
    if (tests.length === 0) return ['survived', '']
    const files = tests.map((path) => `./${path}`)
    const command = [process.execPath, 'test', '--bail', '--timeout', '120000', ...files]
    const { code, error } = await this.#spawn(copy, command)
    copy.emptyTemporary()
    if (code === 0) return ['survived', '']
    const failed = /^\(fail\) .*/m.exec(error)
    const begun = [...error.slice(0, failed?.index).matchAll(/^(\S+\.test\.ts):$/gm)].at(-1)?.[1] ?? 'no test'
    if (code === 124 || code === 137) return ['time limit', begun]
    return ['noticed', `${begun} ${failed?.[0] ?? /^.*error.*$/m.exec(error)?.[0] ?? ''}`.slice(0, 200)]
  }

  async #spawn(copy: TreeCopy, command: readonly string[]) {
    // `timeout` ends the processes that a test has started, too.
    const child = Bun.spawn(['timeout', '-k', '5', `${this.area.limit_s}`, 'nice', '-n', '19', ...command], {
      cwd: copy.root,
      env: { ...process.env, TMPDIR: copy.temporary },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    this.#running.add(child)
    const ended = await said(child)
    this.#running.delete(child)
    return ended
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const child of this.#running) child.kill()
    await Promise.all([...this.#running].map(({ exited }) => exited))
    for (const copy of this.#copies) copy.remove()
  }
}

export const nameOf = ({ file, old, new: by }: Site): string => `${file}: ${old} => ${by}`

const short = (text: string): string => (text.length > 160 ? `${text.slice(0, 157)}...` : text)

export function describe(site: Site, { verdict, by, seconds }: Result): string {
  return `${verdict.padEnd(10)} ${site.file}:${site.line} ${site.operator}, ${seconds} s ${short(by)}`
}

type Table = { readonly lines: readonly string[]; readonly survived: readonly Site[] }

export function tableOf({ name, sites, results }: Campaign, explained = EXPLAINED): Table {
  const having = (verdict: Result['verdict']) =>
    [...results.values()].filter((result) => result.verdict === verdict).map(({ at }) => sites[at]!)
  const left = having('survived')
  const survived = left.filter((site) => explained[nameOf(site)] === undefined)
  const counted = {
    planted: results.size,
    noticed: having('noticed').length,
    'time limit': having('time limit').length,
    compiler: having('compiler').length,
    gone: having('gone').length,
    explained: left.length - survived.length,
    survived: survived.length,
  }
  const by_tests = counted.noticed + counted['time limit']
  const share = by_tests + survived.length === 0 ? 1 : by_tests / (by_tests + survived.length)
  const row = Object.entries(counted).map(([column, count]) => `${column} ${count}`)
  return {
    lines: [
      `${name}: ${row.join(', ')}; noticed of those that could be ${(100 * share).toFixed(1)} %`,
      ...survived.flatMap((site) => [
        `survived ${site.file}:${site.line} ${site.operator}`,
        `  old ${site.old}`,
        `  new ${site.new}`,
      ]),
    ],
    survived,
  }
}
