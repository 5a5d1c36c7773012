/** The campaign of planted faults finds those that tests miss, in a small tree; and its areas cover the product. */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AREAS, EXPLAINED } from './areas'
import { type Area, Campaign, filesIn, nameOf, type Result, SOURCE, sourcesOf, tableOf } from './campaign'
import { planted, sitesIn } from './sites'

const ROOT = join(import.meta.dir, '../..')
const folder = mkdtempSync(join(tmpdir(), 'tacit-mutate-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const FEE = `export function feeOf(amount: number, free: number): number {
  if (amount <= free) return 0
  return amount - free
}
`
const AREA: Area = { sources: ['src'], tests: ['test'] }
const AREAS_OF_FEE = { fees: AREA, paid: { sources: ['src'], tests: ['test/fee.test.ts'] } }

const HEAD = "import { expect, test } from 'bun:test'\n"

function treeOf(files: Record<string, string>): string {
  const root = mkdtempSync(join(folder, 'tree-'))
  for (const name of ['src', 'native', 'test']) mkdirSync(join(root, name))
  symlinkSync(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  writeFileSync(join(root, 'tsconfig.json'), readFileSync(join(ROOT, 'tsconfig.json')))
  for (const [path, text] of Object.entries(files)) writeFileSync(join(root, path), text)
  return root
}

function smallTree(): string {
  // Executes nothing in its own process.
  const code = "import { feeOf } from './src/fee'; process.exit(feeOf(3, 4))"
  const spawned = `Bun.spawnSync([process.execPath, '-e', ${JSON.stringify(code)}]).exitCode`
  return treeOf({
    'src/fee.ts': FEE,
    'test/fee.test.ts': `${HEAD}import { feeOf } from '../src/fee'\ntest('paid', () => expect(feeOf(9, 4)).toBe(5))\n`,
    'test/apart.test.ts': `${HEAD}test('free', () => expect(${spawned}).toBe(0))\n`,
  })
}

/** Without its last result. */
function forgotten(file: string): string {
  writeFileSync(file, readFileSync(file, 'utf8').replace(/[^\n]*\n$/, ''))
  return file
}

async function hold(campaign: Campaign): Promise<Result[]> {
  const reported: Result[] = []
  try {
    await campaign.run(2, (result) => reported.push(result))
  } finally {
    await campaign.close()
  }
  return reported
}

test('each fault is noticed, or survives and is listed; a run goes on where its file ends', async () => {
  const root = smallTree()
  const file = join(root, 'results')
  const campaign = new Campaign(root, AREAS_OF_FEE, 99, 1, file)
  await hold(campaign)
  const found = campaign.sites.map(({ area, operator }, at) => [
    area,
    operator,
    campaign.results.get(at)!.verdict,
  ])
  expect(found.sort()).toEqual([
    ['fees', 'arithmetic', 'noticed'],
    // At the bound both ways give 0, so no test can notice it.
    ['fees', 'comparison', 'survived'],
    ['fees', 'constant', 'noticed'],
    ['fees', 'negated condition', 'noticed'],
    ['fees', 'statement', 'noticed'],
    ['paid', 'arithmetic', 'noticed'],
    ['paid', 'comparison', 'survived'],
    ['paid', 'constant', 'survived'],
    ['paid', 'negated condition', 'noticed'],
    ['paid', 'statement', 'survived'],
  ])
  const by = (name: string) =>
    campaign.sites.flatMap(({ area }, at) => (area === name ? [campaign.results.get(at)!.by] : []))
  expect(by('fees').filter((text) => text.includes('test/apart.test.ts (fail) free'))).toHaveLength(2)
  expect(by('paid').filter((text) => text.includes('test/apart.test.ts'))).toEqual([])
  expect(readFileSync(join(root, 'src/fee.ts'), 'utf8')).toBe(FEE)

  const { lines, survived } = tableOf(campaign, {})
  expect(lines.slice(0, 3)).toMatchObject(
    ['fees: planted 5, noticed 4, ', 'paid: planted 5, noticed 2, ', 'all: planted 10, noticed 6, '].map(
      (row) => expect.stringContaining(row),
    ),
  )
  const compared = survived.find(({ operator }) => operator === 'comparison')!
  expect(compared).toMatchObject({
    file: 'src/fee.ts',
    line: 2,
    was: 'amount <= free',
    text: 'amount < free',
  })
  expect(lines).toContain('  new if (amount < free) return 0')
  const explained = tableOf(campaign, { [nameOf(compared)]: 'both ways give 0' })
  expect(explained.survived.map(({ operator }) => operator).sort()).toEqual(['constant', 'statement'])
  expect(explained.lines[0]).toContain('explained 1, survived 0')

  const rows = () => readFileSync(file, 'utf8').trimEnd().split('\n')
  const tests_measured = () => rows().filter((row) => row.startsWith('{"test":')).length
  expect([rows().length, tests_measured()]).toEqual([13, 2])
  writeFileSync(file, `${rows().slice(0, 11).join('\n')}\n{"at":`)
  const resumed = new Campaign(root, AREAS_OF_FEE, 1, 2, file)
  expect(resumed.sites).toEqual(campaign.sites)
  expect((await hold(resumed)).length).toBe(2)
  expect(tests_measured()).toBe(2)
  expect(new Set(resumed.results.keys()).size).toBe(10)
  resumed.forgetSurvivors()
  expect(resumed.results.size).toBe(6)
  // The tests of another tree are measured before any is evidence.
  writeFileSync(join(root, 'test/paid.test.ts'), readFileSync(join(root, 'test/fee.test.ts')))
  expect((await hold(new Campaign(root, AREAS_OF_FEE, 1, 2, forgotten(file)))).length).toBe(1)
  expect(tests_measured()).toBe(3)
  expect(() => new Campaign(root, { fees: AREA }, 1, 2, file)).toThrow('is no sample of fees')
}, 240_000)

test('tests that fail without a fault are no evidence', async () => {
  const root = smallTree()
  writeFileSync(join(root, 'src/fee.ts'), FEE.replace('amount - free', 'amount + free'))
  const [failed] = await Promise.allSettled([hold(new Campaign(root, { fees: AREA }, 3, 1))])
  expect(failed).toMatchObject({ status: 'rejected' })
  expect(String(failed!.status === 'rejected' && failed!.reason)).toContain('test/fee.test.ts (fail) paid')
}, 240_000)

const verdictOf = ({ sites, results }: Campaign, text: string) =>
  results.get(sites.findIndex((site) => site.new.includes(text)))?.verdict

test('a fault that ends the process of the tests, with or without an error, is noticed', async () => {
  const root = treeOf({
    'src/stop.ts': `export function stop(code: number): string {
  if (code > 9) process.exit(0)
  return 'running'
}
export function die(code: number): string {
  if (code > 8) process.kill(process.pid, 'SIGKILL')
  return 'running'
}
`,
    'test/stop.test.ts': `${HEAD}import { stop } from '../src/stop'\ntest('stop', () => expect(stop(1)).toBe('running'))\n`,
    'test/die.test.ts': `${HEAD}import { die } from '../src/stop'\ntest('die', () => expect(die(1)).toBe('running'))\n`,
  })
  const campaign = new Campaign(root, { stops: AREA }, 99, 1)
  await hold(campaign)
  for (const text of ['!(code > 9)', '!(code > 8)']) expect(verdictOf(campaign, text)).toBe('noticed')
}, 240_000)

const RUST =
  'fn above(a: u64, b: u64) -> bool {\n    if a >= b + 1 {\n        return true;\n    }\n    false\n}\n'
const isBuilt = `readFileSync(new URL('../native/lib.so', import.meta.url), 'utf8')`
const nativeTree = (build: string) =>
  treeOf({
    'native/lib.rs': RUST,
    'native/lib.so': RUST,
    'native/fee.ts': FEE,
    'native/build.ts': build,
    'test/lib.test.ts': `${HEAD}import { readFileSync } from 'node:fs'
import { feeOf } from '../native/fee'
test('paid', () => expect(feeOf(9, 4)).toBe(5))
test('the library is right', () => expect(${isBuilt}).toBe(${JSON.stringify(RUST)}))
`,
  })

test('no fault is judged with what another one has built or changed', async () => {
  const build = `import { copyFileSync } from 'node:fs'\ncopyFileSync('native/lib.rs', 'native/lib.so')\n`
  const area = { sources: ['native/lib.rs', 'native/fee.ts'], tests: ['test'] }
  const campaign = new Campaign(nativeTree(build), { native: area }, 99, 1)
  const at = (text: string) => campaign.sites.findIndex((site) => site.new.includes(text))
  expect(at('!(a >= b + 1)')).toBeLessThan(at('amount < free'))
  await hold(campaign)
  expect(verdictOf(campaign, '!(a >= b + 1)')).toBe('noticed')
  // At the bound both ways give 0.
  expect(verdictOf(campaign, 'amount < free')).toBe('survived')
}, 240_000)

test('without a compiler no fault in Rust is judged', async () => {
  const area = { sources: ['native/lib.rs'], tests: ['test'] }
  const campaign = new Campaign(nativeTree('process.exit(1)\n'), { native: area }, 2, 1)
  const [failed] = await Promise.allSettled([hold(campaign)])
  expect(String(failed!.status === 'rejected' && failed!.reason)).toContain(
    'without a fault: native/build.ts',
  )
}, 240_000)

test('a fault of a file that has changed is gone, though its place has the same text', async () => {
  const root = smallTree()
  const file = join(root, 'results')
  await new Campaign(root, { fees: AREA }, 99, 1, file).close()
  writeFileSync(join(root, 'src/fee.ts'), FEE.replace('feeOf', 'other') + FEE)
  const resumed = new Campaign(root, { fees: AREA }, 99, 1, file)
  await hold(resumed)
  expect([...resumed.results.values()].map(({ verdict }) => verdict)).toEqual(Array(5).fill('gone'))
}, 240_000)

/** A line, its operator, and the line with the fault. */
const FAULTS: readonly [file: string, line: string, operator: string, with_fault: string][] = [
  ['a.ts', 'if (a && b) c()', 'condition', 'if ((a || b)) c()'],
  ['a.ts', 'if (a) c()', 'negated condition', 'if (!(a)) c()'],
  ['a.ts', 'const x = a ?? 5n', 'default', 'const x = a'],
  ['a.ts', 'const x = a ?? 5n', 'constant', 'const x = a ?? 6n'],
  ['a.ts', 'await f(a, b)', 'await', 'f(a, b)'],
  ['a.ts', 'await f(a, b)', 'arguments', 'await f(b, a)'],
  ['a.ts', 'try { a() } catch { b() } finally { c() }', 'catch', 'try { a() } catch {} finally { c() }'],
  ['a.ts', 'try { a() } catch { b() } finally { c() }', 'finally', 'try { a() } catch { b() } finally {}'],
  ['a.rs', '    if a >= b + 1 {', 'negated condition', '    if !(a >= b + 1) {'],
  ['a.rs', '    if a >= b + 1 {', 'operator', '    if a > b + 1 {'],
  ['a.rs', '    if a >= b + 1 {', 'constant', '    if a >= b + (1 + 1) {'],
  ['a.rs', '    require(a == b, WRONG)?;', 'check', '    '],
]
test.each(FAULTS)('%s: %s has the fault: %s', (file, line, operator, with_fault) => {
  const text = `\n${line}\n`
  const made = sitesIn(file, text)
    .filter((site) => site.operator === operator)
    .map((site) => planted(text, site))
  expect(made).toContain(`\n${with_fault}\n`)
})

test('nothing is planted in texts, types and comments', () => {
  expect(sitesIn('a.ts', "// 1 + 1\nimport a from 'b'\nlet x: 5\ntype T = 1 | 2\nf('1 < 2')")).toMatchObject([
    { operator: 'statement' },
  ])
  expect(sitesIn('a.rs', '// if a < 1 {\n#[repr(1)]\nlet x = b"1 < 2";')).toEqual([])
})

test('every source of the product is in one area, and every path of an area exists', () => {
  const PRODUCT = ['engine', 'server', 'routes', 'protocol', 'enclave', 'client', 'native', 'program/src']
  const owned = Object.values(AREAS).flatMap((area) => sourcesOf(ROOT, area))
  expect(owned.sort()).toEqual(PRODUCT.flatMap((path) => filesIn(ROOT, path, SOURCE)).sort())
  for (const [name, { tests }] of Object.entries(AREAS))
    for (const path of tests) expect([name, path, existsSync(join(ROOT, path))]).toEqual([name, path, true])
})

test('every explained fault has its place', () => {
  for (const [name, reason] of Object.entries(EXPLAINED)) {
    const file = name.split(': ')[0]!
    const names = sitesIn(file, readFileSync(join(ROOT, file), 'utf8')).map(nameOf)
    expect([name, names.includes(name), reason.length > 10]).toEqual([name, true, true])
  }
})
