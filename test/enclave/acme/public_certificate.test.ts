/** A public certificate against a real ACME authority: both challenges, under load, with the evidence, over a restart. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  issuedCertificate,
  type SealedStore,
  sealCertificate,
  unsealCertificate,
} from '../../../enclave/acme/issue_certificate'
import type { Enclave } from '../../../enclave/contract'
import { generateTls } from '../../../enclave/x509'
import { pemOfDer } from '../../../protocol/x509/certificate'
import { createApp } from '../../../server/edge/app'
import { openLog } from '../../../server/edge/log'
import type { AcmeConfig } from '../../../server/settings/config'
import { type Listener, listen, openCertificates, renewIfDue } from '../../../server/tls/listen'
import { only } from '../../kit/server/harness'
import { ownNetwork, type Seen } from '../../kit/server/steady_load'
import { type Machine, openMachine, openOn } from '../machine'
import { openPebble, type Pebble, pebblePrograms } from './open_pebble'

const NAME = 'venue.example.org'
const programs = pebblePrograms()
const clock = { unixMs: () => Date.now(), monotonicMs: () => Math.floor(performance.now()) }

test.skipIf(programs === undefined)(
  'a challenge on our own port fails no request and drops no socket',
  () => {
    const network = ownNetwork()
    if (network === undefined) return
    const seen = network.run(join(import.meta.dir, 'answer_under_load.ts')) as Seen
    expect(seen).toMatchObject({ failed: [], sockets_lost: 0 })
    expect(seen.keys.length).toBeGreaterThanOrEqual(2)
    expect(seen.fresh).toBeGreaterThan(20)
    expect(seen.kept).toBeGreaterThan(20)
  },
)

describe.skipIf(programs === undefined)('a public certificate', () => {
  let machine: Machine
  let enclave: Enclave
  let listener: Listener
  let pebble: Pebble
  const lines: string[] = []
  const log = openLog((line) => lines.push(line), clock.unixMs)

  beforeAll(async () => {
    machine = await openMachine()
    enclave = await openOn(machine.agent, { tls: { names: [NAME] } })
    const app = createApp({ venue: only('venue', {}), enclave, options: { version: '1', clock, log } })
    listener = listen(app, { hostname: '127.0.0.1', port: 0, tls: enclave.tls })
    pebble = await openPebble(programs!, listener.port)
  })
  afterAll(async () => {
    await pebble?.close()
    await listener?.stop(0)
    await enclave?.close()
    await machine?.close()
  })

  function acme(more: Partial<AcmeConfig> = {}): AcmeConfig {
    const root = Buffer.from(pebble.root_pem.replace(/-----[^-]+-----|\s/g, ''), 'base64')
    expect(pemOfDer(root, 'CERTIFICATE').trim()).toBe(pebble.root_pem.trim())
    const dns = { url: '', record_name: '', credentials: '' }
    return {
      directory_url: pebble.directory_url,
      challenge: 'tls-alpn-01',
      root: root.toString('base64'),
      dns,
      ...more,
    }
  }

  /** @param name its challenge is answered only if no earlier order proved it */
  async function renew(config: AcmeConfig, folder: string, name = NAME) {
    const data_dir = join(machine.data_dir, folder)
    const parts = { acme: config, names: [name], data_dir, enclave, listener, clock, log }
    const source = await openCertificates(parts)
    await renewIfDue({ enclave, listeners: [listener], clock, log, source })
    return { source, data_dir, last: JSON.parse(lines.at(-1)!) }
  }

  test('comes by TLS-ALPN-01, with evidence of the same file', async () => {
    const before = enclave.tls.cert_pem
    const { data_dir, last, source } = await renew(acme(), 'alpn')
    expect(last).toMatchObject({ event: 'certificate_renewed' })
    expect(enclave.tls.cert_pem).not.toBe(before)
    // Leaf and intermediate, and the evidence is about the very same file.
    expect(enclave.tls.cert_pem.match(/BEGIN CERTIFICATE/g)!.length).toBeGreaterThanOrEqual(2)
    expect(enclave.evidence('cert.pem')!.body).toBe(enclave.tls.cert_pem)
    const { account_url } = JSON.parse(lines.find((line) => line.includes('certificate_issued'))!)
    expect(JSON.parse(enclave.evidence('acme-account.json')!.body)).toEqual({ uri: account_url })
    const listed = enclave
      .evidence('sha256sum.txt')!
      .body.split('\n')
      .map((line) => line.slice(66))
    expect(listed).toEqual(['acme-account.json', 'cert.pem', ''])
    expect(source.isDue(enclave.tls, Date.now())).toBe(false)
    const six_days = 518_400_000
    expect(source.isDue(enclave.tls, Date.now() + six_days * 0.65)).toBe(false)
    expect(source.isDue(enclave.tls, Date.now() + six_days * 0.68)).toBe(true)
    const sealed = readFileSync(join(data_dir, 'acme/certificate.sealed'))
    expect(sealed.includes('PRIVATE')).toBe(false)
  })

  test('is taken from its seal after a restart, without asking the authority', async () => {
    const data_dir = join(machine.data_dir, 'alpn')
    expect(existsSync(data_dir)).toBe(true)
    const before = enclave.tls.cert_pem
    await enclave.rotateTls()
    const issued = lines.filter((line) => line.includes('certificate_issued')).length
    await renew(acme(), 'alpn')
    expect(enclave.tls.cert_pem).toBe(before)
    expect(lines.filter((line) => line.includes('certificate_issued')).length).toBe(issued)
  })

  test('comes by DNS-01 through a delegated zone, whose record is taken away again', async () => {
    const name = `dns.${NAME}`
    await pebble.setCname(`_acme-challenge.${name}.`, 'venue.challenges.example.')
    const dns = { url: pebble.dns_url, record_name: 'venue.challenges.example', credentials: 'venue:word' }
    const { last } = await renew(acme({ challenge: 'dns-01', dns }), 'dns', name)
    expect(last).toMatchObject({ event: 'certificate_renewed' })
    expect(pebble.dns_calls.map(({ operation, fqdn }) => `${operation} ${fqdn}`)).toEqual([
      'present venue.challenges.example.',
      'cleanup venue.challenges.example.',
    ])
    expect(new Set(pebble.dns_calls.map(({ authorization }) => authorization))).toEqual(
      new Set([`Basic ${Buffer.from('venue:word').toString('base64')}`]),
    )
  })

  test('keeps its account over renewals', () => {
    const issued = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'certificate_issued')
    expect(issued.length).toBe(2)
    expect(new Set(issued.map(({ account_url }) => account_url)).size).toBe(1)
  })

  test('that the authority refuses changes nothing, and the log says why without a secret', async () => {
    const before = { tls: enclave.tls, evidence: enclave.evidence('quote.json') }
    const name = `refused.${NAME}`
    await pebble.setCname(`_acme-challenge.${name}.`, 'venue.challenges.example.')
    const dns = { url: pebble.dns_url, record_name: 'elsewhere.example', credentials: 'venue:hidden-word' }
    const { last } = await renew(acme({ challenge: 'dns-01', dns }), 'refused', name)
    expect(last).toMatchObject({
      level: 'error',
      event: 'certificate_not_renewed',
      reason: 'ACME challenge: unauthorized',
    })
    expect(lines.join('')).not.toContain('hidden-word')
    expect({ tls: enclave.tls, evidence: enclave.evidence('quote.json') }).toEqual(before)
  })
})

const NOW = Date.UTC(2026, 0, 1)
const NAMES = ['venue.example.org']
let folder: string
let store: SealedStore
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'tacit-sealed-'))
  store = {
    path: join(folder, 'acme/certificate.sealed'),
    key: new Uint8Array(32).fill(1),
    directory_url: 'https://authority.example/directory',
    names: NAMES,
  }
})
afterEach(() => rmSync(folder, { recursive: true }))

function certificate() {
  const { cert_pem, key_pem } = generateTls(NAMES, NOW)
  return issuedCertificate({ cert_pem, key_pem, account_url: 'https://authority.example/1' }, NAMES, NOW)
}

test('a sealed certificate comes back unchanged, and the file shows nothing of it', () => {
  const sealed = certificate()
  sealCertificate(store, sealed)
  expect(unsealCertificate(store, NOW)).toEqual(sealed)
  const bytes = readFileSync(store.path)
  expect(bytes.includes('CERTIFICATE')).toBe(false)
  expect(statSync(store.path).mode & 0o777).toBe(0o600)
  // A nonce used twice would give the key away.
  sealCertificate(store, sealed)
  expect(readFileSync(store.path).subarray(0, 12)).not.toEqual(bytes.subarray(0, 12))
})

test('nothing comes back for another key, directory or name, after the end, or when there is no file', () => {
  expect(unsealCertificate(store, NOW)).toBeUndefined()
  sealCertificate(store, certificate())
  const others: Partial<SealedStore>[] = [
    { key: new Uint8Array(32).fill(2) },
    { directory_url: 'https://authority.example/other' },
    { names: ['other.example.org'] },
    { names: [...NAMES, 'more.example.org'] },
  ]
  for (const other of others) expect(unsealCertificate({ ...store, ...other }, NOW)).toBeUndefined()
  expect(unsealCertificate(store, NOW + 91 * 86_400_000)).toBeUndefined()
})

test('nothing comes back from a file with any damaged byte', () => {
  sealCertificate(store, certificate())
  const bytes = readFileSync(store.path)
  for (const at of [0, 11, 12, bytes.length >> 1, bytes.length - 17, bytes.length - 1]) {
    const damaged = Buffer.from(bytes)
    damaged[at]! ^= 1
    writeFileSync(store.path, damaged)
    expect(unsealCertificate(store, NOW)).toBeUndefined()
  }
  for (const length of [0, 27, 28, bytes.length - 1]) {
    writeFileSync(store.path, bytes.subarray(0, length))
    expect(unsealCertificate(store, NOW)).toBeUndefined()
  }
})
