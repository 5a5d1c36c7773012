/** Every command a person may give: asked for help it helps, misused it says how it is used, and neither is a verdict. */
import { expect, test } from 'bun:test'
import { join } from 'node:path'
import { scripts } from '../../package.json'

const ROOT = join(import.meta.dir, '../..')
const COMMANDS = [
  'account',
  'reference',
  'wallet',
  'restore',
  'program',
  'manifest',
  'read-signer',
  'auction',
  'audit-chain',
  'audit-batch',
  'tacit',
  'verify-quote',
  'verify-eventlog',
] as const

async function give(name: (typeof COMMANDS)[number], ...args: string[]) {
  const main = join(ROOT, scripts[name].split(' ')[1]!)
  const child = Bun.spawn([process.execPath, main, ...args], {
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
    }
    const misused = await give(name, '--colour', 'red')
    expect(misused).toMatchObject({ code: 64, out: '' })
    expect(misused.error).toMatch(/^usage: |lists commands and options|\n\nusage: /m)
    expect(misused.error).not.toMatch(/^ +at /m)
  }, 30_000)
}

test('a misuse is no verdict of a backup or a batch, and an answer that cannot be given is no misuse', async () => {
  expect((await give('restore', '--verify')).code).toBe(64)
  expect((await give('restore', '--verify', '/nowhere', '--laptop', '/nowhere')).code).toBe(1)
  expect((await give('audit-batch', 'SOL-USDC', 'first', '--laptop', '/nowhere')).code).toBe(64)
  expect((await give('audit-batch', 'SOL-USDC', '1', '--laptop', '/nowhere')).code).toBe(1)
  expect((await give('account', 'rotate', '--operator-key', '/nowhere')).code).toBe(1)
  expect((await give('account', 'post', '--colour')).code).toBe(64)
  expect((await give('read-signer', 'https://127.0.0.1:1', '--compose-hash', 'ab')).code).toBe(64)
}, 30_000)
