/** The export of a batch: forged parts are rejected, and the auditor's commands judge one of a real venue. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VenueClient } from '../../../client/api/venue_client'
import { auditBatch, recomputeBatch } from '../../../client/audit/audit_batch'
import { encryptToRecipient, newAgeKey, readAgeIdentity } from '../../../protocol/age'
import {
  type AuctionExport,
  auctionHash,
  type ExportedOrder,
  encodeExport,
  padExport,
  type SignedExport,
  signedExportBytes,
} from '../../../protocol/bodies/auction_export'
import { STATEMENT_BODY } from '../../../protocol/bodies/statements'
import { toHex } from '../../../protocol/bytes'
import { publicKeyOf, sign } from '../../../protocol/sign'
import { VenueProcess, venueTransport } from '../../faults/kit/venue_process'
import { run } from '../../kit/said'

const bytes = (fill: number) => new Uint8Array(32).fill(fill)
const [SETTLEMENT, STATEMENT, STRANGER, VENUE] = [1, 2, 3, 4].map(bytes) as [
  Uint8Array,
  Uint8Array,
  Uint8Array,
  Uint8Array,
]
const EPOCH = 7n
const ATTESTED = { venue: VENUE, tee_pubkey: publicKeyOf(SETTLEMENT) }

const order = (id: number, side: 'buy' | 'sell', more: Partial<ExportedOrder> = {}): ExportedOrder => ({
  order_id: id.toString(16).padStart(32, '0'),
  side,
  type: 'limit',
  ticks: 100,
  lots: 10,
  min_lots: 0,
  arrival_batch: 3,
  ...more,
})
/** Two equal buys compete for the rest, so the seed decides; an ioc order is filled in part. */
const ORDERS = [
  order(1, 'buy', { ticks: 101 }),
  order(2, 'buy'),
  order(3, 'buy'),
  order(4, 'sell', { lots: 15 }),
  order(5, 'sell', { type: 'ioc', ticks: 120 }),
  order(6, 'buy', { ticks: 90 }),
]

/** The venue's export of these orders: its own result with them. */
function exportOf(orders: ExportedOrder[]): AuctionExport {
  const inputs = {
    symbol: 'SOL-USDC',
    batch: 3,
    slot: 15,
    close_seq: 40,
    close_head: bytes(9),
    reference_ticks: 100,
    collar_bps: 2_000,
    price_rule: 'std4',
    volume_tolerance_bps: 0,
    seed: bytes(8),
    price_ticks: 0,
    volume_lots: 0,
    result_hash: bytes(0),
    orders,
  } as const
  const result = recomputeBatch(inputs)
  const { price_ticks, volume_lots } = result
  return { ...inputs, price_ticks: price_ticks ?? 0, volume_lots, result_hash: auctionHash(result) }
}
const HONEST = exportOf(ORDERS)

type Keys = { settlement?: Uint8Array; statement?: Uint8Array; signing?: Uint8Array; venue?: Uint8Array }
function signed(exported: AuctionExport, keys: Keys = {}): SignedExport {
  const { settlement = SETTLEMENT, statement = STATEMENT, signing = statement, venue = VENUE } = keys
  const content = encodeExport(exported)
  const certificate = STATEMENT_BODY.encode({ venue, statement_key: publicKeyOf(statement), epoch: EPOCH })
  return {
    certificate,
    certificate_signature: sign(settlement, certificate),
    signature: sign(signing, signedExportBytes(venue, EPOCH, content)),
    content,
  }
}

let key: { identity: string; recipient: string }
beforeAll(async () => {
  const { file, recipient } = await newAgeKey()
  key = { identity: readAgeIdentity(file)!, recipient }
})
const sealed = (plain: Uint8Array) => encryptToRecipient(key.recipient, plain)
const judged = (
  file: Uint8Array,
  identity = key.identity,
  attested: typeof ATTESTED | undefined = ATTESTED,
) =>
  auditBatch(file, identity, attested).then(
    () => 'accepted',
    (error: Error) => `${error.name}: ${error.message}`,
  )
const judgedExport = async (exported: AuctionExport, keys?: Keys) =>
  judged(await sealed(padExport(signed(exported, keys))))

const CHANGED = 'ExportRefused: the file is for another key, or was changed'
const flipped = (file: Uint8Array, at: number) => {
  const copy = file.slice()
  copy[at]! ^= 1
  return copy
}

test('an honest export is accepted, with the evidence or without it', async () => {
  expect(HONEST).toMatchObject({ price_ticks: 100, volume_lots: 15 })
  const file = await sealed(padExport(signed(HONEST)))
  expect(await judged(file)).toBe('accepted')
  expect((await auditBatch(file, key.identity, undefined)).signer).toMatchObject({
    venue: VENUE,
    epoch: EPOCH,
  })
})

test('another key, a changed byte anywhere, and a file cut short or continued are refused', async () => {
  const file = await sealed(padExport(signed(HONEST)))
  expect(await judged(file, readAgeIdentity((await newAgeKey()).file))).toBe(CHANGED)
  const head = Buffer.from(file).indexOf('\n---') + 64
  const chunk = 64 * 1024 + 16
  const places = Array.from({ length: head }, (_, at) => at)
  for (let at = head; at < file.length; at += chunk) places.push(at)
  for (const at of [...places, file.length - 1])
    expect([at, await judged(flipped(file, at))]).toEqual([at, CHANGED])
  for (const cut of [0, 1, head, file.length - chunk, file.length - 1])
    expect(await judged(file.slice(0, cut))).toBe(CHANGED)
  expect(await judged(new Uint8Array([...file, 0]))).toBe(CHANGED)
}, 120_000)

test('anyone who knows the recipient can encrypt, and gains nothing: every part of the plaintext is bound', async () => {
  const plain = padExport(signed(HONEST))
  const part = async (change: Partial<SignedExport>) =>
    judged(await sealed(padExport({ ...signed(HONEST), ...change })))
  const { certificate, certificate_signature, content, signature } = signed(HONEST)
  for (let at = 0; at < certificate.length; at++)
    expect(await part({ certificate: flipped(certificate, at) })).toStartWith('ExportRefused')
  const not_certified = 'ExportRefused: the key of the export is not certified by the attested venue'
  expect(await part({ certificate_signature: flipped(certificate_signature, 5) })).toBe(not_certified)
  const not_signed = 'ExportRefused: the export is not signed by its certified key'
  expect(await part({ signature: flipped(signature, 5) })).toBe(not_signed)
  for (let at = 0; at < content.length; at += 7)
    expect(await part({ content: flipped(content, at) })).toBe(not_signed)
  const malformed = 'ExportRefused: the file is not an export'
  expect(await judged(await sealed(flipped(plain, 0)))).toBe(malformed)
  expect(await judged(await sealed(flipped(plain, plain.length - 1)))).toBe(malformed)
  expect(await judged(await sealed(plain.slice(0, -1)))).toBe(malformed)
  expect(await judged(await sealed(new Uint8Array([...plain, ...new Uint8Array(3 * plain.length)])))).toBe(
    malformed,
  )
  expect(await judged(await sealed(new Uint8Array(8)))).toBe(malformed)
}, 120_000)

test('a stranger’s signature, certificate or venue is refused', async () => {
  expect(await judgedExport(HONEST, { signing: STRANGER })).toMatch('not signed by its certified key')
  expect(await judgedExport(HONEST, { settlement: STRANGER, statement: STRANGER })).toMatch('not certified')
  expect(await judgedExport(HONEST, { venue: bytes(5) })).toMatch('of another venue')
})

describe('contents that the venue itself forged and signed', () => {
  const with_orders = (orders: ExportedOrder[]) => ({ ...HONEST, orders })
  const change = (at: number, more: Partial<ExportedOrder>) =>
    with_orders(ORDERS.map((one, index) => (index === at ? { ...one, ...more } : one)))
  /** Of the orders 2 and 3, which the seed ranks. */
  const tied_loser = () => (recomputeBatch(HONEST).fills[1]!.order_id === ORDERS[1]!.order_id ? 2 : 1)
  const other_seed = () => {
    for (let fill = 10; ; fill++) {
      const seed = bytes(fill)
      const { fills } = recomputeBatch({ ...HONEST, seed })
      if (fills[1]!.order_id !== recomputeBatch(HONEST).fills[1]!.order_id) return { ...HONEST, seed }
    }
  }
  const FORGED: Record<string, () => AuctionExport> = {
    'an order that traded is missing': () => with_orders(ORDERS.slice(1)),
    'an order is invented that takes a part': () => with_orders([order(0, 'buy', { ticks: 105 }), ...ORDERS]),
    'an order has another size': () => change(3, { lots: 14 }),
    'an order has another limit': () => change(0, { ticks: 99 }),
    'an order is older than it was': () => change(tied_loser(), { arrival_batch: 2 }),
    'an ioc order is called a limit order': () => change(4, { type: 'limit' }),
    'another seed breaks the ties': other_seed,
    'another price is stated': () => ({ ...HONEST, price_ticks: 101 }),
    'another volume is stated': () => ({ ...HONEST, volume_lots: 14 }),
    'the reference lay elsewhere': () => ({ ...HONEST, reference_ticks: 130 }),
    'the result is that of another batch': () => ({ ...HONEST, batch: 4 }),
  }
  for (const [name, forge] of Object.entries(FORGED))
    test(name, async () => {
      expect(await judgedExport(forge())).toBe(
        'ExportRefused: these orders give another result than the venue recorded',
      )
    })

  test('orders that no book holds', async () => {
    const twice = with_orders([...ORDERS, ORDERS.at(-1)!])
    for (const forged of [
      twice,
      change(0, { lots: 0 }),
      change(0, { ticks: 0 }),
      change(0, { arrival_batch: 4 }),
    ])
      expect(await judgedExport(forged)).toStartWith('ExportRefused: no book holds these orders')
  })
})

const TACIT = join(import.meta.dir, '../../../client/cli/tacit.ts')
const OPERATOR = join(import.meta.dir, '../../../tools/account/main.ts')
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

const audit = (...args: string[]) => run([process.execPath, TACIT, 'audit-batch', ...args])
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
  return run([
    process.execPath,
    OPERATOR,
    'export',
    '--symbol',
    'SOL-USDC',
    '--batch',
    batch,
    '--out',
    out,
    ...target,
  ])
}

test('a batch goes from the operator to the auditor, who needs no key of the venue', async () => {
  const { auditor_key, collateral, policy, url } = venue.facts
  const file = at('batch.age')
  // The first batch closes some slots after the start.
  let sent = await exported('1', file)
  while (sent.error.includes('auction_unknown')) sent = await exported('1', file)
  expect(sent).toMatchObject({ code: 0, error: '' })
  expect(JSON.parse(sent.out)).toEqual({ file, bytes: statSync(file).size })
  const given = ['--policy', policy, '--collateral', collateral, '--bundle', at('bundle.json')]
  expect((await run([process.execPath, TACIT, 'verify', url, ...given])).code).toBe(0)
  const attesting = ['--offline', at('bundle.json'), '--policy', policy]
  const good = await audit(file, '--key', auditor_key, ...attesting)
  expect(good).toMatchObject({ code: 0, error: '' })
  expect(JSON.parse(good.out)).toMatchObject({
    symbol: 'SOL-USDC',
    batch: 1,
    orders: 0,
    price_ticks: null,
    venue: venue_id,
    agrees: true,
    attested: true,
  })
  const alone = await audit(file, '--key', auditor_key)
  expect([alone.code, JSON.parse(alone.out).attested]).toEqual([2, false])
  // Evidence that the policy rejects attests nothing.
  expect((await audit(file, '--key', auditor_key, '--offline', at('bundle.json'))).code).toBe(1)
  const forged = readFileSync(file)
  forged[forged.length - 1]! ^= 1
  writeFileSync(at('forged.age'), forged)
  expect(await audit(at('forged.age'), '--key', auditor_key, ...attesting)).toEqual({
    code: 1,
    out: '',
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
  const { auditor_key } = JSON.parse(made.out)
  expect(statSync(at('new.key')).mode & 0o777).toBe(0o600)
  expect(readFileSync(at('new.key'), 'utf8')).toContain(auditor_key)
  expect(made.out).not.toContain('SECRET')
  const again = await audit('--new-key', at('new.key'))
  expect([again.code, again.out]).toEqual([64, ''])
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

const CLI = join(import.meta.dir, '../../../client/cli/tacit.ts')

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

  test("rejects a case that exceeds the engine's bounds", () => {
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
