/** Commands help when asked and say how they are used; operator keys come from files in the forms operators have. */

import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readSeed } from '../../client/cli/command'
import { scripts } from '../../package.json'
import { concatBytes, toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { tlsMaterial } from '../kit/server/listening_app'
import { testCredential } from '../kit/venue/test_login'

const ROOT = join(import.meta.dir, '../..')
const COMMANDS = [
  'account',
  'reference',
  'restore',
  'cluster-repair',
  'faults',
  'mutate',
  'program',
  'manifest',
  'read-machine',
  'tacit',
  'start',
  'bench',
  'demo',
  'validator-demo',
  'image',
] as const

async function give(name: (typeof COMMANDS)[number], ...args: string[]) {
  // The last command of a script takes the arguments.
  const [main, ...own] = scripts[name]
    .split(/ && bun |^bun /)
    .at(-1)!
    .split(' ')
  const child = Bun.spawn([process.execPath, join(ROOT, main!), ...own, ...args], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const texts = [new Response(child.stdout).text(), new Response(child.stderr).text()]
  const [out, error] = await Promise.all(texts)
  return { code: await child.exited, out, error }
}

for (const name of COMMANDS) {
  test(`${name} tells its use when asked, and when misused`, async () => {
    for (const ask of ['--help', '-h']) {
      const helped = await give(name, ask)
      expect(helped).toMatchObject({ code: 0, error: '' })
      expect(helped.out).toMatch(/^usage: /)
      if (name !== 'start') expect(helped.out).toMatch(/^exit code: 0 .*64 usage/m)
    }
    const misused = await give(name, '--colour', 'red')
    expect(misused).toMatchObject({ code: 64, out: '' })
    expect(misused.error).toMatch(/^usage: |lists commands and options|\n\nusage: /m)
    expect(misused.error).not.toMatch(/^ +at /m)
  }, 120_000)
}

test('a misuse is no verdict of a backup or a batch, and an answer that cannot be given is no misuse', async () => {
  expect((await give('restore', '--verify')).code).toBe(64)
  expect((await give('restore', '--verify', '/nowhere', '--laptop', '/nowhere')).code).toBe(1)
  expect((await give('tacit', 'audit-batch')).code).toBe(64)
  expect((await give('tacit', 'audit-batch', '/nowhere', '--policy', '/nowhere')).code).toBe(64)
  expect(
    (await give('account', 'list', '--operator-key', '/nowhere', '--url', 'x', '--venue', 'ab'.repeat(32)))
      .code,
  ).toBe(1)
  expect((await give('account', 'admit', '--colour')).code).toBe(64)
  expect((await give('read-machine', 'https://127.0.0.1:1', '--compose-hash', 'ab')).code).toBe(64)
}, 120_000)

test('account names what is wrong with a request, a listener and a certificate', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'account-'))
  const [key, record] = [join(folder, 'operator.key'), join(folder, 'record.json')]
  const { cert_pem: cert, key_pem: key_of_it } = tlsMaterial()
  const tls = { cert, key: key_of_it }
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', tls, fetch: () => new Response('') })
  try {
    expect((await give('account', 'operator-keygen', '--out', key)).code).toBe(0)
    const admit = ['admit', '--operator-key', key, '--request', record, '--venue', 'ab'.repeat(32), '--url']
    const { login, request } = testCredential('desk', new Uint8Array(32))
    writeFileSync(record, JSON.stringify(request))
    expect((await give('account', ...admit, 'localhost:8444')).error).toContain(
      'is not the URL of a listener',
    )
    const untrusted = await give('account', ...admit, `https://127.0.0.1:${server.port}`)
    expect(untrusted.error).toContain('name its certificate with --ca')
    for (const other of ['no request', JSON.stringify(login), JSON.stringify({ ...request, salt: '' })]) {
      writeFileSync(record, other)
      const unread = await give('account', ...admit, 'https://127.0.0.1:1')
      expect([unread.code, unread.error]).toEqual([1, `${record} does not hold a trader's request\n`])
    }
  } finally {
    await server.stop(true)
    rmSync(folder, { recursive: true })
  }
}, 120_000)

const dir = mkdtempSync(join(tmpdir(), 'tacit-keys-'))
afterAll(() => rmSync(dir, { recursive: true }))
const seed = crypto.getRandomValues(new Uint8Array(32))

function file(content: string | Uint8Array): string {
  const path = join(dir, 'key')
  writeFileSync(path, content)
  return path
}

test('32 bytes, 64 hex digits and the array of solana-keygen give the same key', () => {
  const pair = JSON.stringify([...concatBytes(seed, publicKeyOf(seed))])
  for (const content of [seed, `${toHex(seed)}\n`, pair]) expect(readSeed(file(content))).toEqual(seed)
})

test('a key whose halves do not belong together is refused, and the refusal shows nothing of it', () => {
  const pair = JSON.stringify([...concatBytes(seed, seed)])
  for (const content of [pair, '[1,2]', toHex(seed).slice(2), '']) {
    expect(() => readSeed(file(content))).toThrow(/^\S+ holds neither a seed nor a key of solana-keygen$/)
  }
})
