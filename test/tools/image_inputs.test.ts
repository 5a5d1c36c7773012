/** The image's inputs are equal bytes, and the way from a clone to a verified deployment, as far as one machine goes. */

import { afterAll, describe, expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { Glob } from 'bun'
import lock from '../../bun.lock'
import { scripts } from '../../package.json'
import { fromHex, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { SandboxFacts } from '../../sandbox/open_sandbox'
import { PAGES } from '../../server/reference/page'
import {
  BUN_SHA256,
  collectPackages,
  collectSources,
  committedDockerfile,
  tarOf,
} from '../../tools/image/build_image_inputs'
import { run } from '../kit/said'
import { accountId, testCredential } from '../kit/venue/test_login'

const ROOT = join(import.meta.dir, '../..')
const bytes = (text: string) => new TextEncoder().encode(text)

/** A clone of the committed tree; the tree itself may be under work. Undefined outside of a git clone. */
function cloned(): string | undefined {
  if (!existsSync(join(ROOT, '.git'))) return undefined
  const folder = mkdtempSync(join(tmpdir(), 'tacit-sources-'))
  expect(Bun.spawnSync(['git', 'clone', '--quiet', '--shared', ROOT, folder]).exitCode).toBe(0)
  return folder
}

describe('a tar archive', () => {
  const entries = [
    { path: 'b/c.txt', mode: 0o644, owner: 0, content: bytes('hello') },
    { path: 'b', mode: 0o755, owner: 0 },
    { path: `${'long-folder-name/'.repeat(9)}file.ts`, mode: 0o644, owner: 0, content: new Uint8Array(513) },
    { path: 'data', mode: 0o700, owner: 10_001 },
  ]

  test('is the same for any order of its entries', () => {
    expect(tarOf([...entries].reverse(), 0)).toEqual(tarOf(entries, 0))
    expect(tarOf(entries, 1)).not.toEqual(tarOf(entries, 0))
  })

  test('is read by tar as it was written', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tacit-tar-'))
    try {
      writeFileSync(join(folder, 'a.tar'), tarOf(entries, 0))
      const list = Bun.spawnSync(
        ['tar', '--list', '--verbose', '--numeric-owner', '--utc', '--file', 'a.tar'],
        {
          cwd: folder,
        },
      )
      const lines = list.stdout.toString().trim().split('\n')
      expect(list.exitCode).toBe(0)
      expect(lines.map((line) => line.split(/\s+/).join(' '))).toEqual([
        'drwxr-xr-x 0/0 0 1970-01-01 00:00 b/',
        '-rw-r--r-- 0/0 5 1970-01-01 00:00 b/c.txt',
        'drwx------ 10001/10001 0 1970-01-01 00:00 data/',
        `-rw-r--r-- 0/0 513 1970-01-01 00:00 ${'long-folder-name/'.repeat(9)}file.ts`,
      ])
      expect(Bun.spawnSync(['tar', '--extract', '--file', 'a.tar'], { cwd: folder }).exitCode).toBe(0)
      expect(readFileSync(join(folder, 'b/c.txt'), 'utf8')).toBe('hello')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('refuses a path that its header cannot hold', () => {
    const entry = { path: 'x'.repeat(101), mode: 0o644, owner: 0, content: bytes('') }
    expect(() => tarOf([entry], 0)).toThrow(RangeError)
  })
})

describe('the sources of the image', () => {
  test('hold every file the process and its workers import, and no manifest', () => {
    const folder = cloned()
    if (folder === undefined) return console.log('skipped: this tree is not a git clone')
    try {
      const held = new Set(collectSources(folder).map(({ path }) => path.replace(/^app\//, '')))
      const workers = [...new Glob('engine/**/*_worker.ts').scanSync({ cwd: folder })]
      const missing = closureOf(folder, ['server/main.ts', 'server/check_health.ts', ...workers]).filter(
        (file) => !held.has(file),
      )
      expect(missing).toEqual([])
      expect(held.has('compose.yaml')).toBe(false)
      // Read as text by the pages that the venue serves.
      for (const { name } of PAGES.slice(0, -1)) expect(held.has(`docs/${name}.md`)).toBe(true)
      expect(held.has('SECURITY.md')).toBe(true)
      // Of the client, the verifier alone: the venue judges its own machine by it.
      const foreign = /^(test|client\/(?!verify\/|limits\.ts)|bench|tools|sandbox|program)\//
      expect([...held].filter((file) => foreign.test(file))).toEqual([])
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('are the same bytes from a clone that converts line ends, and from a work tree that hides a change', () => {
    const [plain, other] = [cloned(), cloned()]
    if (plain === undefined || other === undefined)
      return console.log('skipped: this tree is not a git clone')
    try {
      const git = (...parameters: string[]) =>
        expect(Bun.spawnSync(['git', ...parameters], { cwd: other }).exitCode).toBe(0)
      git('config', 'core.autocrlf', 'true')
      git('rm', '--cached', '-r', '--quiet', '.')
      git('reset', '--hard', '--quiet')
      expect(readFileSync(join(other, 'server/main.ts'), 'utf8')).toContain('\r\n')
      writeFileSync(join(other, 'LICENSE'), 'changed')
      git('update-index', '--assume-unchanged', 'LICENSE')
      writeFileSync(join(other, '.git/info/exclude'), 'engine/ignored.ts\n')
      writeFileSync(join(other, 'engine/ignored.ts'), '/** New. */\n')
      const digest = (folder: string) =>
        createHash('sha256')
          .update(tarOf(collectSources(folder), 0))
          .digest('hex')
      expect(digest(other)).toBe(digest(plain))
      expect(committedDockerfile(other)).toEqual(committedDockerfile(plain))
      const replaced = Bun.spawnSync(['git', 'hash-object', '-w', 'LICENSE'], { cwd: other })
        .stdout.toString()
        .trim()
      git('replace', 'HEAD:server/main.ts', replaced)
      expect(digest(other)).toBe(digest(plain))
    } finally {
      for (const folder of [plain, other]) rmSync(folder, { recursive: true })
    }
  }, 180_000)

  test('hold no links', () => {
    const folder = cloned()
    if (folder === undefined) return console.log('skipped: this tree is not a git clone')
    try {
      symlinkSync('/etc/hostname', join(folder, 'protocol/link.ts'))
      for (const step of [
        ['add', '.'],
        ['-c', 'user.name=x', '-c', 'user.email=x', 'commit', '--quiet', '-m', 'x'],
      ])
        expect(Bun.spawnSync(['git', ...step], { cwd: folder }).exitCode).toBe(0)
      expect(() => collectSources(folder)).toThrow('protocol/link.ts: not a file')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test('are refused while one differs from its commit', () => {
    const folder = cloned()
    if (folder === undefined) return console.log('skipped: this tree is not a git clone')
    try {
      writeFileSync(join(folder, 'protocol/not_committed.ts'), '/** New. */\n')
      expect(() => collectSources(folder)).toThrow('protocol/not_committed.ts')
      rmSync(join(folder, 'protocol/not_committed.ts'))
      writeFileSync(join(folder, 'Dockerfile'), 'FROM scratch\n')
      expect(() => collectSources(folder)).toThrow('Dockerfile')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

describe('the packages of the image', () => {
  const closure = productionClosure()

  test('follow from the production dependencies, and none of them belongs to the sandbox', () => {
    expect(closure).toContain('elysia')
    expect([...closure].filter((name) => SANDBOX_ONLY.test(name))).toEqual([])
  })

  test('have licences that let the image carry them', () => {
    const other = [...closure].flatMap((name) => {
      const path = join(ROOT, 'node_modules', name, 'package.json')
      if (!existsSync(path)) return []
      const { license } = JSON.parse(readFileSync(path, 'utf8')) as { license?: string }
      return LICENCES.test(license ?? '') ? [] : [`${name}: ${license}`]
    })
    expect(other).toEqual([])
    for (const name of ['age-encryption', 'elysia']) expect([...closure]).toContain(name)
    for (const refused of ['GPL-3.0', 'AGPL-3.0-only', 'SEE LICENSE IN x', 'UNLICENSED', ''])
      expect(LICENCES.test(refused)).toBe(false)
  })

  test('are those when installed', () => {
    let packages: ReturnType<typeof collectPackages>
    try {
      packages = collectPackages(ROOT)
    } catch (error) {
      return console.log(`skipped: ${(error as Error).message}`)
    }
    const paths = packages.map(({ path }) => path.replace('app/node_modules/', ''))
    expect(paths.filter((path) => SANDBOX_ONLY.test(path))).toEqual([])
    const names = new Set(paths.map((path) => /^(@[^/]+\/)?[^/]+/.exec(path)![0]))
    expect([...names].filter((name) => !closure.has(name))).toEqual([])
    // These licences ask for their text with every copy, under any file name.
    const texts = [...names].flatMap((name) =>
      readdirSync(join(ROOT, 'node_modules', name))
        .filter((file) => /^licen[cs]e/i.test(file))
        .map((file) => `${name}/${file}`),
    )
    expect(texts).toContain('age-encryption/LICENSE')
    expect(texts.filter((text) => !paths.includes(text))).toEqual([])
  }, 180_000)
})

/** They ask only for their text with a copy. */
const LICENCES = /^(MIT|Apache-2\.0|BSD-[23]-Clause|ISC|\(MIT OR CC0-1\.0\))$/
const SANDBOX_ONLY = /litesvm|sandbox|stand-?in/i

/** Names of all packages that a production installation may contain, by the lockfile. */
function productionClosure(): Set<string> {
  const names = new Set<string>()
  const open = Object.keys(lock.workspaces['']?.dependencies ?? {})
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (names.has(name)) continue
    names.add(name)
    for (const [key, entry] of Object.entries(lock.packages)) {
      // A nested copy of another version has the key of its parent before its name.
      if (key !== name && !key.endsWith(`/${name}`)) continue
      const info = entry.find((part) => typeof part === 'object') as Required<Wanted> | undefined
      const optional_peers = info?.optionalPeers ?? []
      const peers = Object.keys(info?.peerDependencies ?? {}).filter((peer) => !optional_peers.includes(peer))
      open.push(...Object.keys({ ...info?.dependencies, ...info?.optionalDependencies }), ...peers)
    }
  }
  return names
}

type Names = Record<string, string>
type Wanted = {
  dependencies?: Names
  optionalDependencies?: Names
  peerDependencies?: Names
  optionalPeers?: string[]
}

/** Our files reachable by relative imports and URLs. */
function closureOf(folder: string, entries: readonly string[]): string[] {
  const seen = new Set<string>()
  const open = [...entries]
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (seen.has(file)) continue
    seen.add(file)
    if (!file.endsWith('.ts')) continue
    const source = readFileSync(join(folder, file), 'utf8')
    const names = [...source.matchAll(/(?:from|import|new URL)\s*\(?\s*'(\.[^']+)'/g)].map(
      (match) => match[1]!,
    )
    for (const name of names) {
      // The one import that the image does not contain: server/main.ts loads it outside dstack only.
      if (file === 'server/main.ts' && name === '../sandbox/open_sandbox') continue
      open.push(resolveIn(folder, normalize(join(dirname(file), name))))
    }
  }
  return [...seen]
}

function resolveIn(folder: string, path: string): string {
  const found = [path, `${path}.ts`, `${path}/index.ts`].find(
    (one) => /\.[a-z]+$/.test(one) && existsSync(join(folder, one)),
  )
  return found ?? path
}

/**
 * The operator's way from a clone to a verified deployment, as far as one machine goes: keys, inputs of the image, manifest,
 * a venue started from the clone, its verification and an account. The simulator stands for dstack, and no image is pushed.
 */

const is_clone = existsSync(join(ROOT, '.git'))
const clone = mkdtempSync(join(tmpdir(), 'tacit-clone-'))
const at = (name: string) => join(clone, name)
let venue: Bun.Subprocess<'ignore', 'pipe', 'inherit'> | undefined
afterAll(async () => {
  venue?.kill('SIGKILL')
  await venue?.exited
  rmSync(clone, { recursive: true, force: true })
})

/** A command of package.json, run in the clone. */
async function give(line: string): Promise<string> {
  const [name, ...args] = line.split(' ')
  const script = scripts[name as keyof typeof scripts].split(' ').at(-1)!
  const { code, out, error } = await run([process.execPath, script, ...args], { cwd: clone })
  expect([line, code, error]).toEqual([line, 0, ''])
  return out
}

test.skipIf(!is_clone)(
  'from a clone to a verified venue',
  async () => {
    expect(Bun.spawnSync(['git', 'clone', '--quiet', '--shared', ROOT, clone]).exitCode).toBe(0)
    // In place of `bun install --frozen-lockfile`, which needs the registry.
    symlinkSync(join(ROOT, 'node_modules'), at('node_modules'))

    const { operator_key } = JSON.parse(await give('account operator-keygen --out operator.key'))
    const { operator_key: fee_key } = JSON.parse(await give('account operator-keygen --out fee.key'))
    // Another Bun than the pinned one is rejected, which wrong_inputs.test.ts holds.
    if (toHex(sha256(readFileSync(process.execPath))) === BUN_SHA256) {
      const inputs = await give('image-inputs --out inputs.tar')
      expect(inputs).toContain(toHex(sha256(readFileSync(at('inputs.tar')))))
    }

    const settings = {
      image: `registry.example/tacit@sha256:${'ab'.repeat(32)}`,
      TACIT_PROGRAM_ID: '4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T',
      TACIT_OPERATOR_KEY: operator_key,
      TACIT_FEE_KEY: fee_key,
      SOLANA_RPC_URL: 'https://one.example/,https://two.example/,https://three.example/',
      TACIT_TLS_NAMES: 'venue.example.org',
    }
    const set = Object.entries(settings).map(([name, value]) => `--set ${name}=${value}`)
    const made = await give(`manifest --key-provider-id ${'ab'.repeat(91)} ${set.join(' ')}`)
    const hash = /compose hash +([0-9a-f]{64})/.exec(made)![1]!
    expect(toHex(sha256(readFileSync(at('app-compose.json'))))).toBe(hash)
    expect(await give('manifest --check app-compose.json')).toContain(hash)

    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('TACIT_'))
    venue = Bun.spawn([process.execPath, 'server/main.ts'], {
      cwd: clone,
      env: {
        ...Object.fromEntries(own),
        TACIT_DATA_DIR: at('data'),
        TACIT_LISTEN: '127.0.0.1:0',
        TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
        TACIT_OPERATOR_KEY: operator_key,
        TACIT_FEE_KEY: fee_key,
      },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    })
    let printed = ''
    for await (const bytes of venue.stdout) {
      printed += new TextDecoder().decode(bytes)
      if (printed.includes('Tacit serves at')) break
    }
    const facts = JSON.parse(readFileSync(at('data/laptop.json'), 'utf8')) as SandboxFacts
    const { certificate, collateral, operator_url, policy, url } = facts
    const verified = await give(`tacit verify ${url} --policy ${policy} --collateral ${collateral}`)
    // Exit code 0: exactly the checks that the sandbox's policy permits are skipped.
    expect(verified).toMatch(/PARTIAL, accepted: the policy permits the \d+ skips, \d+ passed, 0 failed/)
    for (const check of ['1.2', '3.1', '5.3', '6.1', '6.3']) expect(verified).toContain(`${check} pass`)

    const tls = { ca: readFileSync(certificate, 'utf8') }
    const info = (await (await fetch(`${url}/info`, { tls })).json()) as { venue: string }
    writeFileSync(at('desk.json'), JSON.stringify(testCredential('desk', fromHex(info.venue, 32)!).request))
    const target = `--operator-key operator.key --url ${operator_url} --venue ${info.venue} --ca ${certificate}`
    await give(`account admit --request desk.json ${target}`)
    expect(await give(`account list ${target}`)).toContain(accountId('desk'))
    await give(`account drain ${target}`)
    expect(await venue.exited).toBe(0)
  },
  180_000,
)
