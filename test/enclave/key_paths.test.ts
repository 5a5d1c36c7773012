/** Derivation paths: their letters select the keys, so they are pinned here, and no other file may spell one. */

import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Glob } from 'bun'
import { KEY_PATHS } from '../../enclave/key_paths'
import { deriveKey, type StoredKeys } from '../../sandbox/enclave/keys'

const ROOT = join(import.meta.dir, '../..')
const PINNED = {
  epoch_authority: 'tacit/epoch/ed25519/v1',
  journal: 'tacit/journal/v1',
  tie_break: 'tacit/tie-break/v1',
  credential: 'tacit/credential/v1',
  hashing: 'tacit/hashing/v1',
  acme_account: 'tacit/acme/account/v1',
  acme_certificate: 'tacit/acme/certificate/v1',
  fees: 'tacit/fees/ed25519/v1',
}

test('the derivation paths are these, letter by letter', () => {
  expect<Record<string, string>>(KEY_PATHS).toEqual(PINNED)
})

test('each path has one purpose: no two derive the same key', () => {
  const root = new Uint8Array(32).fill(3)
  const stored = { app_id: new Uint8Array(20), app_root_key: root, kms_root_key: root } as StoredKeys
  const keys = Object.values(KEY_PATHS).map((path) => deriveKey(stored, path, 'tacit', 'ed25519').key)
  expect(new Set(keys).size).toBe(keys.length)
  // HKDF-SHA256 (salt `RATLS`, this root, info `tacit/journal/v1`), computed by another implementation.
  expect(keys[1]).toBe('9e1ad47568b5c07040c603b7453bd2d5fbca5f4ed82aa5afc1965f4ee461d124')
})

test('no other file of the product spells a path', () => {
  const folders = 'protocol,native,engine,enclave,server,routes,client,sandbox,tools,bench'
  const files = [...new Glob(`{${folders}}/**/*.ts`).scanSync({ cwd: ROOT })]
  expect(files).toContain('enclave/key_paths.ts')
  const spelled = files.filter((file) => {
    const source = readFileSync(join(ROOT, file), 'utf8')
    return Object.values(PINNED).some((path) => source.includes(`'${path}'`) || source.includes(`"${path}"`))
  })
  expect(spelled).toEqual(['enclave/key_paths.ts'])
})
