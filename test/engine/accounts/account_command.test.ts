/** `bun run account` as an operator uses it: keys, records, and what is printed once. */
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openAccounts } from '../../../engine/accounts/open_accounts'
import { openOperatorCheck } from '../../../engine/accounts/verify_operator'
import { toHex } from '../../../protocol/bytes'
import { codeOf, testClock } from './venue_operator'

const MAIN = join(import.meta.dir, '../../../tools/account/main.ts')
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'account-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

function account(...args: string[]) {
  const { exitCode, stderr, stdout } = Bun.spawnSync([process.execPath, MAIN, ...args], { cwd: folder })
  const printed = stdout.toString()
  return { exitCode, error: stderr.toString(), printed: printed === '' ? undefined : JSON.parse(printed) }
}
const read = (name: string) => JSON.parse(readFileSync(join(folder, name), 'utf8'))

describe('the account command', () => {
  test('makes a key, an account, a rotation and a suspension that a venue takes', async () => {
    const { printed: key } = account('operator-keygen', '--out', 'operator.key')
    expect(statSync(join(folder, 'operator.key')).mode & 0o777).toBe(0o600)
    const signing = ['--operator-key', 'operator.key']
    const { printed: first } = account(
      'issue',
      ...signing,
      '--account',
      'alice',
      '--orders',
      '7',
      '--out',
      'v1.json',
    )
    const { printed: second } = account('rotate', ...signing, '--record', 'v1.json', '--out', 'v2.json')
    const { printed: third } = account('suspend', ...signing, '--record', 'v2.json', '--out', 'v3.json')
    expect(third).toEqual({ account_id: 'alice', version: 3, status: 'suspended' })

    const options = { credential_key: new Uint8Array(32), clock: testClock(), token_ttl_s: 60 }
    const accounts = await openAccounts({ ...options, operator_key: key.operator_key })
    const { account_id: _, version: __, ...credentials } = first
    accounts.applyRecord(accounts.verifyRecord(read('v1.json')))
    expect((await accounts.login(credentials)).account_id).toBe('alice')
    accounts.applyRecord(accounts.verifyRecord(read('v2.json')))
    expect(await codeOf(() => accounts.login(credentials))).toBe('credentials_invalid')
    expect((await accounts.login(second)).account_id).toBe('alice')
    expect(accounts.verifyRecord(read('v3.json')).command).toMatchObject({
      status: 'suspended',
      orders_live_max: 7,
    })
    await accounts.close()
  })

  test('posts a record in a call the venue’s check takes', async () => {
    const { printed: key } = account('operator-keygen', '--out', 'poster.key')
    account('issue', '--operator-key', 'poster.key', '--account', 'bob', '--out', 'bob.json')
    const venue = new Uint8Array(32).fill(6)
    const clock = { unixMs: () => Date.now() - 1000, monotonicMs: () => performance.now() }
    const check = openOperatorCheck({ operator_key: key.operator_key, venue, clock })
    const server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      async fetch(request) {
        const { pathname: target } = new URL(request.url)
        const body = await request.bytes()
        check({ method: request.method, target, body, header: (name) => request.headers.get(name) })
        return Response.json({ posted: JSON.parse(Buffer.from(body).toString()), target })
      },
      error: (error) => new Response(String(error), { status: 401 }),
    })
    const post = (...args: string[]) =>
      Bun.spawn([process.execPath, MAIN, 'post', '--record', 'bob.json', '--url', server.url.href, ...args], {
        cwd: folder,
        stderr: 'ignore',
      })
    const right = post('--operator-key', 'poster.key', '--venue', toHex(venue))
    expect(await new Response(right.stdout).json()).toEqual({ posted: read('bob.json'), target: '/accounts' })
    expect(await post('--operator-key', 'poster.key', '--venue', '00'.repeat(32)).exited).toBe(1)
    await server.stop(true)
  })

  test('never overwrites a file and says what is missing', () => {
    account('operator-keygen', '--out', 'twice.key')
    const before = readFileSync(join(folder, 'twice.key'), 'utf8')
    expect(account('operator-keygen', '--out', 'twice.key').exitCode).toBe(1)
    expect(readFileSync(join(folder, 'twice.key'), 'utf8')).toBe(before)
    expect(account('issue', '--operator-key', 'twice.key').error).toContain('--account is missing')
    expect(account('nonsense', '--operator-key', 'twice.key').error).toContain('usage: bun run account')
    expect(account().exitCode).toBe(64)
  })
})
