/** Plants the faults of a sample one at a time in copies of the tree, records whether the tests notice them, and reports. */

import { appendFileSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { APART, TreeCopy } from '../kit/copy_tree'
import { Random } from '../kit/random'
import { said } from '../kit/said'
import { EXPLAINED } from './areas'
import { parses, planted, type Site, sitesIn } from './sites'

export type Area = {
  /** Files and folders in which faults are planted. */
  readonly sources: readonly string[]
  /** Tests and folders of tests. */
  readonly tests: readonly string[]
}

type Areas = Readonly<Record<string, Area>>
/** `source`: hash of the file's text. */
type AreaSite = Site & { readonly area: string; readonly source: string }

/** `gone`: the file has changed since the sample was drawn. */
type Verdict = 'noticed' | 'time limit' | 'compiler' | 'survived' | 'gone'
export type Result = {
  readonly at: number
  readonly verdict: Verdict
  readonly by: string
  readonly seconds: number
  readonly tree: string
}

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

const BUILDS = ['program/build.ts', 'native/build.ts']
/** Of a fault in Rust. */
const buildOf = ({ file }: Site): string | undefined =>
  file.endsWith('.rs') ? BUILDS.find((build) => build.startsWith(file.split('/')[0]!)) : undefined

/** Ends the processes that a test has left behind. */
function endGroup({ pid }: Bun.Subprocess): void {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    // Nothing is left.
  }
}

const TEST = /\.test\.ts$/
const testsOf = (root: string, { tests }: Area): string[] => [
  ...new Set(tests.flatMap((path) => filesIn(root, path, TEST))),
]

/** A test without a fault: how long it runs, and the lines of faults that the main thread of its process executes. */
type Measured = { readonly test: string; readonly seconds: number; readonly lines: ReadonlySet<string> }

/** Faults are judged first by tests of about this duration, then by the type checker, then by the others. */
const FIRST_TESTS_S = 20
/** A fault may keep a test from ending: its tests get this many times their duration without it, and this long more. */
const PATIENCE = 8
const PATIENCE_S = 60

const hashOfText = (text: string): string => Bun.hash(text).toString(36)
const lineOf = ({ file, line }: Site): string => `${file}:${line}`

/** Those that execute the line first, the quickest first: worker threads and further processes may execute it, too. */
function inOrder(measured: readonly Measured[], site: Site): Measured[] {
  const executes = ({ lines }: Measured) => (lines.has(lineOf(site)) ? 0 : 1)
  return measured.toSorted((a, b) => executes(a) - executes(b) || a.seconds - b.seconds)
}

/** Reads a report of coverage (lcov). */
function executedLines(report: string): Set<string> {
  const lines = new Set<string>()
  let file = ''
  for (const row of report.split('\n')) {
    if (row.startsWith('SF:')) file = row.slice(3)
    const [, line, count] = /^DA:(\d+),(\d+)/.exec(row) ?? []
    if (count !== undefined && count !== '0') lines.add(`${file}:${line}`)
  }
  return lines
}

/** Of all files that a copy has but `except`. */
function hashOf(root: string, except: string): string {
  const hasher = new Bun.CryptoHasher('sha256')
  for (const top of readdirSync(root).sort()) {
    if (APART.has(top)) continue
    const files = statSync(join(root, top)).isFile()
      ? [top]
      : [...new Bun.Glob(`${top}/**/*`).scanSync({ cwd: root, dot: true })].sort()
    for (const file of files.filter((name) => join(root, name) !== except))
      hasher.update(`${file}\0`).update(readFileSync(join(root, file)))
  }
  return hasher.digest('hex')
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

export class Campaign {
  readonly sites: readonly AreaSite[]
  readonly results = new Map<number, Result>()
  /** By test, of this tree: another one may have a test that fails. */
  readonly #measured = new Map<string, Measured>()
  readonly #tree: string
  readonly #copies = new Set<TreeCopy>()
  readonly #running = new Set<Bun.Subprocess>()
  #closed = false

  /**
   * @param count of each area
   * @param file goes on where this file ends; every result and every test that was measured is appended to it
   */
  constructor(
    readonly root: string,
    readonly areas: Areas,
    count: number,
    seed: number,
    readonly file?: string,
  ) {
    this.#tree = hashOf(root, resolve(file ?? ''))
    if (file === undefined || !existsSync(file)) {
      this.sites = Object.entries(areas).flatMap(([name, area]) =>
        drawFaults(root, area, count, seed).map((site) => {
          const source = hashOfText(readFileSync(join(root, site.file), 'utf8'))
          return { area: name, source, ...site }
        }),
      )
      if (file !== undefined)
        writeFileSync(file, `${JSON.stringify({ areas: Object.keys(areas), seed, sites: this.sites })}\n`)
      return
    }
    // A run that was killed may have left half a line.
    const [head = '', ...lines] = readFileSync(file, 'utf8').split('\n').slice(0, -1)
    const names = Object.keys(areas)
    if (!head.startsWith(`{"areas":${JSON.stringify(names)},`))
      throw new Error(`${file} is no sample of ${names.join(', ')}`)
    this.sites = JSON.parse(head).sites
    for (const row of lines.map((line) => JSON.parse(line)))
      if (row.test === undefined) this.results.set(row.at, row)
      else if (row.tree === this.#tree)
        this.#measured.set(row.test, { ...row, lines: new Set(row.lines as string[]) })
    writeFileSync(file, [head, ...lines, ''].join('\n'))
  }

  /** Results of other trees than this one. */
  get earlier(): number {
    return [...this.results.values()].filter(({ tree }) => tree !== this.#tree).length
  }

  forgetSurvivors(): void {
    for (const [at, { verdict }] of this.results) if (verdict === 'survived') this.results.delete(at)
  }

  async run(workers: number, report: (result: Result) => void): Promise<void> {
    const open = this.sites.map((_, at) => at).filter((at) => !this.results.has(at))
    const tests_of = new Map(
      Object.entries(this.areas).map(([name, area]) => [name, testsOf(this.root, area)]),
    )
    const measured = this.#measured
    const builds = [
      ...new Set(open.map((at) => buildOf(this.sites[at]!)).filter((build) => build !== undefined)),
    ]
    const tests = [...new Set(open.flatMap((at) => tests_of.get(this.sites[at]!.area)!))].filter(
      (test) => !measured.has(test),
    )
    const work = async () => {
      const copy = this.#copy()
      for (let test = tests.shift(); test !== undefined && !this.#closed; test = tests.shift())
        await this.#measure(copy, test)
      const types = await this.#types(copy)
      if (types !== undefined && !this.#closed) throw new Error(`without a fault: ${types}`)
      for (let build = builds.shift(); build !== undefined && !this.#closed; build = builds.shift())
        if (!(await this.#isBuilt(copy, build))) throw new Error(`without a fault: ${build}`)
      this.#remove(copy)
      return async () => {
        for (let at = open.shift(); at !== undefined && !this.#closed; at = open.shift()) {
          const began_ms = performance.now()
          const site = this.sites[at]!
          const own = tests_of.get(site.area)!.map((test) => measured.get(test)!)
          // A fault may change any file of its copy, and a build writes a library.
          const copy = this.#copy()
          const [verdict, by] = await this.#judge(copy, site, inOrder(own, site))
          if (this.#closed) return
          this.#remove(copy)
          const seconds = Math.round((performance.now() - began_ms) / 1000)
          const result = { at, verdict, by, seconds, tree: this.#tree }
          this.results.set(at, result)
          this.#keep(result)
          report(result)
        }
      }
    }
    if (open.length === 0) return
    // The first fault is planted once every test holds without one.
    const judging = await Promise.all(Array.from({ length: workers }, work))
    await Promise.all(judging.map((judge) => judge()))
  }

  #copy(): TreeCopy {
    const copy = new TreeCopy(this.root)
    this.#copies.add(copy)
    // Tests that read the tree ask for its files.
    Bun.spawnSync(['git', 'init', '-q'], { cwd: copy.root })
    // A fault may leave a name unused.
    for (const path of BUILDS.map((one) => join(copy.root, one)))
      if (existsSync(path))
        writeFileSync(path, readFileSync(path, 'utf8').replace(/ *'-Dwarnings',?\n?/g, ''))
    return copy
  }

  #remove(copy: TreeCopy): void {
    copy.remove()
    this.#copies.delete(copy)
  }

  async #isBuilt(copy: TreeCopy, build: string): Promise<boolean> {
    return (await this.#spawn(copy, [process.execPath, build], 600)).code === 0
  }

  #keep(row: object): void {
    if (this.file !== undefined) appendFileSync(this.file, `${JSON.stringify(row)}\n`)
  }

  async #measure(copy: TreeCopy, test: string): Promise<void> {
    const coverage = join(copy.temporary, 'coverage')
    const began_ms = performance.now()
    const flags = ['--coverage', '--coverage-reporter=lcov', `--coverage-dir=${coverage}`]
    const [verdict, by] = await this.#runTests(copy, [test], 1_200, flags)
    if (this.#closed) return
    if (verdict !== 'survived') throw new Error(`without a fault: ${verdict} by ${by}`)
    const report = join(coverage, 'lcov.info')
    const executed = executedLines(existsSync(report) ? readFileSync(report, 'utf8') : '')
    const lines = new Set(this.sites.map(lineOf).filter((line) => executed.has(line)))
    copy.emptyTemporary()
    const seconds = (performance.now() - began_ms) / 1000
    this.#measured.set(test, { test, seconds, lines })
    this.#keep({ test, seconds, lines: [...lines], tree: this.#tree })
  }

  async #judge(copy: TreeCopy, site: AreaSite, tests: readonly Measured[]) {
    const path = join(copy.root, site.file)
    const source = readFileSync(path, 'utf8')
    if (hashOfText(source) !== site.source) return ['gone', ''] as const
    writeFileSync(path, planted(source, site))
    const build = buildOf(site)
    if (build !== undefined && !(await this.#isBuilt(copy, build))) return ['compiler', build] as const
    let count = 1
    for (let total_s = tests[0]?.seconds ?? 0; count < tests.length; count++) {
      total_s += tests[count]!.seconds
      if (total_s > FIRST_TESTS_S) break
    }
    const first = tests.slice(0, count)
    const early = await this.#runAll(copy, first)
    if (early[0] !== 'survived') return early
    const types = build === undefined ? await this.#types(copy) : undefined
    if (types !== undefined) return ['compiler', types] as const
    return await this.#runAll(copy, tests.slice(first.length))
  }

  async #runAll(copy: TreeCopy, tests: readonly Measured[]): Promise<readonly [Verdict, string]> {
    const seconds = tests.reduce((sum, one) => sum + one.seconds, 0)
    const names = tests.map(({ test }) => test)
    const result = await this.#runTests(copy, names, Math.ceil(PATIENCE * seconds) + PATIENCE_S, [])
    copy.emptyTemporary()
    return result
  }

  /** The first error of the type checker. */
  async #types(copy: TreeCopy): Promise<string | undefined> {
    const { code, out } = await this.#spawn(copy, ['node_modules/.bin/tsc', '--noEmit'], 600)
    return code === 0 ? undefined : (out.split('\n')[0] ?? 'tsc')
  }

  async #runTests(
    copy: TreeCopy,
    tests: readonly string[],
    limit_s: number,
    flags: readonly string[],
  ): Promise<readonly [Verdict, string]> {
    if (tests.length === 0) return ['survived', '']
    const files = tests.map((path) => `./${path}`)
    const command = [process.execPath, 'test', '--bail', '--timeout', '120000', ...flags, ...files]
    const began_ms = performance.now()
    const { code, error } = await this.#spawn(copy, command, limit_s)
    const is_over = performance.now() - began_ms >= 1_000 * limit_s
    // A fault may end the process of the tests.
    if (code === 0 && /^Ran \d+ tests? across/m.test(error)) return ['survived', '']
    const failed = /^\(fail\) .*/m.exec(error)
    const begun = [...error.slice(0, failed?.index).matchAll(/^(\S+\.test\.ts):$/gm)].at(-1)?.[1] ?? 'no test'
    if (is_over) return ['time limit', begun]
    return ['noticed', `${begun} ${failed?.[0] ?? /^.*error.*$/m.exec(error)?.[0] ?? ''}`.slice(0, 200)]
  }

  async #spawn(copy: TreeCopy, command: readonly string[], limit_s: number) {
    // `timeout` begins a group of processes, and ends those that a test has started, too.
    const child = Bun.spawn(['timeout', '-k', '5', `${limit_s}`, 'nice', '-n', '10', ...command], {
      cwd: copy.root,
      env: { ...process.env, TMPDIR: copy.temporary },
      stdout: 'pipe',
      stderr: 'pipe',
    })
    this.#running.add(child)
    const ended = said(child)
    await child.exited
    this.#running.delete(child)
    endGroup(child)
    return await ended
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

type Judged = { readonly site: AreaSite; readonly column: Verdict | 'explained' }
type Table = { readonly lines: readonly string[]; readonly survived: readonly Site[] }

const COLUMNS = ['noticed', 'time limit', 'compiler', 'gone', 'explained', 'survived'] as const

function rowOf(name: string, judged: readonly Judged[]): string {
  const counts = COLUMNS.map((column) => judged.filter((one) => one.column === column).length)
  const [noticed = 0, time_limit = 0] = counts
  const by_tests = noticed + time_limit
  const could = by_tests + counts.at(-1)!
  const share = could === 0 ? 1 : by_tests / could
  const row = COLUMNS.map((column, at) => `${column} ${counts[at]}`)
  return `${name}: planted ${judged.length}, ${row.join(', ')}; noticed of those that could be ${(100 * share).toFixed(1)} %`
}

/** A row of each area, of several areas one of all, and the faults that survived without an explanation. */
export function tableOf({ areas, sites, results }: Campaign, explained = EXPLAINED): Table {
  const judged = [...results.values()].map(({ at, verdict }): Judged => {
    const site = sites[at]!
    const is_explained = verdict === 'survived' && explained[nameOf(site)] !== undefined
    return { site, column: is_explained ? 'explained' : verdict }
  })
  const names = Object.keys(areas)
  const rows = names.map((name) =>
    rowOf(
      name,
      judged.filter(({ site }) => site.area === name),
    ),
  )
  const survived = judged.filter(({ column }) => column === 'survived').map(({ site }) => site)
  return {
    lines: [
      ...rows,
      ...(names.length > 1 ? [rowOf('all', judged)] : []),
      ...survived.flatMap((site) => [
        `survived ${site.file}:${site.line} ${site.operator}`,
        `  old ${site.old}`,
        `  new ${site.new}`,
      ]),
    ],
    survived,
  }
}
