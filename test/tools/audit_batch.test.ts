/** The auditor's commands, as processes and on a real venue: what they print and how they exit. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VenueClient } from '../../client/api/venue_client'
import { toHex } from '../../protocol/bytes'
import { VenueProcess, venueTransport } from '../faults/kit/venue_process'

const TACIT = join(import.meta.dir, '../../client/cli/tacit.ts')
const OPERATOR = join(import.meta.dir, '../../tools/account/main.ts')
const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-audit-'))
const at = (name: string) => join(folder, name)
let venue_id: string

beforeAll(async () => {
  await venue.start()
  const nobody = { account_id: '', api_key: '', api_secret: '', passphrase: '' }
  const client = new VenueClient(venueTransport(venue), nobody)
  venue_id = (await client.info()).venue
  const { auditor_key } = await client.transparency()
  expect(readFileSync(venue.facts.auditor_key, 'utf8')).toContain(`# public key: ${auditor_key}\n`)
}, 180_000)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

async function run(main: string, ...args: string[]) {
  const child = Bun.spawn([process.execPath, main, ...args], { stdout: 'pipe', stderr: 'pipe' })
  const texts = [new Response(child.stdout).text(), new Response(child.stderr).text()]
  const [printed, error] = await Promise.all(texts)
  return { code: await child.exited, printed: printed!, error: error! }
}
const audit = (...args: string[]) => run(TACIT, 'audit-batch', ...args)
function exported(batch: string, out: string) {
  const { certificate, operator_key, operator_url } = venue.facts
  const target = [
    '--operator-key',
    operator_key,
    '--url',
    operator_url,
    '--venue',
    venue_id,
    '--ca',
    certificate,
  ]
  return run(OPERATOR, 'export', '--symbol', 'SOL-USDC', '--batch', batch, '--out', out, ...target)
}

test('a batch goes from the operator to the auditor, who needs no key of the venue', async () => {
  const { auditor_key, collateral, policy, url } = venue.facts
  const file = at('batch.age')
  // The first batch closes some slots after the start.
  let sent = await exported('1', file)
  while (sent.error.includes('auction_unknown')) sent = await exported('1', file)
  expect(sent).toMatchObject({ code: 0, error: '' })
  expect(JSON.parse(sent.printed)).toEqual({ file, bytes: statSync(file).size })
  const given = ['--policy', policy, '--collateral', collateral, '--bundle', at('bundle.json')]
  expect((await run(TACIT, 'verify', url, ...given)).code).toBe(0)
  const attesting = ['--offline', at('bundle.json'), '--policy', policy]
  const good = await audit(file, '--key', auditor_key, ...attesting)
  expect(good).toMatchObject({ code: 0, error: '' })
  expect(JSON.parse(good.printed)).toMatchObject({
    symbol: 'SOL-USDC',
    batch: 1,
    orders: 0,
    price_ticks: null,
    venue: venue_id,
    agrees: true,
    attested: true,
  })
  const alone = await audit(file, '--key', auditor_key)
  expect([alone.code, JSON.parse(alone.printed).attested]).toEqual([2, false])
  // Evidence that the policy rejects attests nothing.
  expect((await audit(file, '--key', auditor_key, '--offline', at('bundle.json'))).code).toBe(1)
  const forged = readFileSync(file)
  forged[forged.length - 1]! ^= 1
  writeFileSync(at('forged.age'), forged)
  expect(await audit(at('forged.age'), '--key', auditor_key, ...attesting)).toEqual({
    code: 1,
    printed: '',
    error: 'the file is for another key, or was changed\n',
  })
  // A file is never overwritten.
  expect((await exported('1', file)).code).toBe(1)
  expect((await exported('999999', at('none.age'))).error).toContain('auction_unknown')
  expect(existsSync(at('none.age'))).toBe(false)
}, 120_000)

test('a new key is the owner’s alone, never overwritten, and reads nothing of another auditor', async () => {
  const made = await audit('--new-key', at('new.key'))
  expect(made).toMatchObject({ code: 0, error: '' })
  const { auditor_key } = JSON.parse(made.printed)
  expect(statSync(at('new.key')).mode & 0o777).toBe(0o600)
  expect(readFileSync(at('new.key'), 'utf8')).toContain(auditor_key)
  expect(made.printed).not.toContain('SECRET')
  const again = await audit('--new-key', at('new.key'))
  expect([again.code, again.printed]).toEqual([64, ''])
  expect((await audit(at('batch.age'), '--key', at('new.key'))).code).toBe(1)
  chmodSync(at('new.key'), 0o644)
  expect(await audit(at('batch.age'), '--key', at('new.key'))).toMatchObject({
    code: 64,
    error: 'the file of --key can be read by others: chmod 600 it\n',
  })
  writeFileSync(at('no.key'), toHex(new Uint8Array(32)), { mode: 0o600 })
  expect((await audit(at('batch.age'), '--key', at('no.key'))).error).toBe(
    'the file of --key holds no age identity\n',
  )
  expect((await audit()).code).toBe(64)
  expect((await audit(at('batch.age'), '--new-key', at('other.key'))).code).toBe(64)
})

const CLI = join(import.meta.dir, '../../client/cli/tacit.ts')

function auction(text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'auction-'))
  try {
    const file = join(folder, 'cases.json')
    writeFileSync(file, text)
    const { exitCode, stdout, stderr } = Bun.spawnSync([process.execPath, CLI, 'auction', file])
    return { exitCode, lines: stdout.toString().split('\n').filter(Boolean), error: stderr.toString() }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const own = {
  id: 'case-1',
  config: { ref: 101, bandBps: 500, rule: 'std4', slot: 50 },
  orders: [
    {
      id: 's',
      side: 'sell',
      price: 100,
      qty: '6',
      arrivalBatch: 1,
      expirySlot: 60,
      ioc: false,
      minFill: '0',
    },
    {
      id: 'b',
      side: 'buy',
      price: 101,
      qty: '9007199254740991',
      arrivalBatch: 1,
      expirySlot: 60,
      ioc: true,
      minFill: '0',
    },
    { id: 'a', side: 'buy', price: 100, qty: '7', arrivalBatch: 1, expirySlot: 49, ioc: false, minFill: '0' },
  ],
}

describe('tacit auction', () => {
  test('prints one JSON object per case, in file order, quantities as decimal strings', () => {
    const empty = { id: 'pub-1', reference: null, orders: [] }
    const { exitCode, lines } = auction(
      JSON.stringify({ external: [empty], own: [{ ...own, orders: own.orders.slice(0, 2) }] }),
    )
    expect(exitCode).toBe(0)
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { id: 'pub-1', price: null, volume: '0', surplus: '0', fills: {}, cancelled: [], resting: {} },
      {
        id: 'case-1',
        price: 101,
        volume: '6',
        surplus: '9007199254740985',
        fills: { b: '6', s: '6' },
        cancelled: ['b'],
        resting: {},
      },
    ])
  })

  test('says so where a case exceeds what the engine takes', () => {
    const [answer] = auction(JSON.stringify({ own: [own] })).lines
    expect(JSON.parse(answer!)).toEqual({ id: 'case-1', refused: 'a side exceeds 9007199254740991 lots' })
  })

  test('the file its help shows is one it answers', () => {
    const { stdout } = Bun.spawnSync([process.execPath, CLI, 'auction', '--help'])
    const shown = stdout.toString()
    const { exitCode, lines } = auction(shown.slice(shown.indexOf('{'), shown.lastIndexOf('}') + 1))
    expect(exitCode).toBe(0)
    expect(JSON.parse(lines[0]!)).toMatchObject({ id: 'one', price: 101, volume: '3', resting: { a: '2' } })
  })

  test('refuses a file it cannot read, naming the place', () => {
    const { exitCode, error, lines } = auction('{"own":[{"id":"x"}]}')
    expect({ exitCode, lines }).toEqual({ exitCode: 64, lines: [] })
    expect(error).toContain('/own/0 config')
  })
})
