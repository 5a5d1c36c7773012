/** The sealed certificate opens for what it was sealed for and for nothing else. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  issuedCertificate,
  type SealedStore,
  sealCertificate,
  unsealCertificate,
} from '../../../enclave/acme/certificates'
import { generateTls } from '../../../enclave/x509'

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

test('what was sealed comes back as it was, and the file shows nothing of it', () => {
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

test('nothing comes back from a damaged file, whatever byte is damaged', () => {
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
