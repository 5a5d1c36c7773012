/** The program and the client number the same errors the same way. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { VAULT_ERRORS, vaultError } from '../../protocol/vault/errors'

test('program/src/error.rs and protocol/vault/errors.ts hold the same list', () => {
  const source = readFileSync(join(import.meta.dir, '../../program/src/error.rs'), 'utf8')
  const rows = [...source.matchAll(/^ {4}(\d{4}) ([A-Z0-9_]+)$/gm)].map(([, code, name]) => [
    Number(code),
    name!.toLowerCase(),
  ])
  expect(rows).toEqual(VAULT_ERRORS.map(([code, name]) => [code, name]))
})

test('numbers and names are unique and lead to each other', () => {
  expect(new Set(VAULT_ERRORS.map(([code]) => code)).size).toBe(VAULT_ERRORS.length)
  for (const [code, name, meaning] of VAULT_ERRORS) {
    expect(vaultError(code)).toEqual({ code, name, meaning })
  }
  expect(vaultError(1)).toBeUndefined()
})
