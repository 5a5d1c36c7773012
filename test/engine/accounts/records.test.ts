/** Account records: their bytes, their signature and which of them the venue takes. */
import { afterAll, describe, expect, test } from 'bun:test'
import {
  type AccountRecord,
  accountRecordBytes,
  readAccountRecord,
  signAccountRecord,
} from '../../../protocol/bodies/account_record'
import { toHex } from '../../../protocol/bytes'
import { setStatus } from '../../../tools/account/issue_account'
import { codeOf, issued, NOW_MS, OPERATOR_SEED, openTestAccounts, provisioned } from './venue_operator'

const { accounts } = await openTestAccounts()
afterAll(() => accounts.close())

const fields = {
  account_id: 'alice',
  version: 2,
  status: 'suspended' as const,
  api_key: '01'.repeat(16),
  secret_salt: '02'.repeat(32),
  secret_hash: '03'.repeat(32),
  passphrase_hash: `$argon2id$v=19$m=19456,t=2,p=1$${'a'.repeat(43)}$${'b'.repeat(43)}`,
  rate_capacity: 100,
  rate_refill_per_s: 50,
  orders_live_max: 258,
  keys_max: 5,
  issued_unix_ms: 1,
}

describe('an account record', () => {
  test('is signed over exactly 312 bytes, each field in its place', () => {
    const bytes = accountRecordBytes(fields)
    expect(bytes.length).toBe(312)
    const expected = [
      Buffer.from('tacit/account/v1').toString('hex'),
      Buffer.from('alice').toString('hex').padEnd(64, '0'),
      '0200000000000000',
      '0100000000000000',
      '01'.repeat(16),
      '02'.repeat(32),
      '03'.repeat(32),
      '6400000000000000',
      '3200000000000000',
      '0201000000000000',
      '0500000000000000',
      '0100000000000000',
      Buffer.from(fields.passphrase_hash).toString('hex').padEnd(256, '0'),
    ]
    expect(toHex(bytes)).toBe(expected.join(''))
  })

  test('holds neither secret nor passphrase', async () => {
    const { credentials, record } = await issued('alice')
    const text = JSON.stringify(record)
    expect(text).not.toContain(credentials.api_secret)
    expect(text).not.toContain(credentials.passphrase)
    expect(credentials.api_secret).toMatch(/^[0-9a-f]{64}$/)
  })

  test('with any field missing, added or out of form is record_invalid', async () => {
    const { record } = await issued('alice')
    expect(readAccountRecord(record)).toEqual(record)
    const wrong: unknown[] = [undefined, null, 'record', [], {}, { ...record, extra: 1 }]
    for (const name of Object.keys(record)) {
      wrong.push({ ...record, [name]: undefined }, { ...record, [name]: 1.5 }, { ...record, [name]: 'Z' })
      const { [name as keyof AccountRecord]: _, ...rest } = record
      wrong.push(rest)
    }
    wrong.push({ ...record, account_id: '-alice' }, { ...record, account_id: 'a'.repeat(33) })
    wrong.push({ ...record, passphrase_hash: record.passphrase_hash.replace('m=19456', 'm=99999') })
    for (const value of wrong) expect(await codeOf(() => accounts.verifyRecord(value))).toBe('record_invalid')
    expect(() => signAccountRecord({ ...fields, account_id: 'Alice' }, OPERATOR_SEED)).toThrow(
      'not well formed',
    )
  })

  test('with any field changed after signing is operator_signature_invalid', async () => {
    const { record } = await issued('alice')
    const changes: Partial<AccountRecord>[] = [
      { account_id: 'mallory' },
      { version: 7 },
      { status: 'suspended' },
      { api_key: '0'.repeat(32) },
      { secret_salt: '0'.repeat(64) },
      { secret_hash: '0'.repeat(64) },
      { passphrase_hash: fields.passphrase_hash },
      { rate_capacity: 101 },
      { rate_refill_per_s: 51 },
      { orders_live_max: 1 },
      { keys_max: 1 },
      { issued_unix_ms: 0 },
      { signature: '0'.repeat(128) },
    ]
    for (const change of changes) {
      const code = await codeOf(() => accounts.verifyRecord({ ...record, ...change }))
      expect(code).toBe('operator_signature_invalid')
    }
    const foreign = signAccountRecord(fields, new Uint8Array(32).fill(4))
    expect(await codeOf(() => accounts.verifyRecord(foreign))).toBe('operator_signature_invalid')
  })

  test('must be newer than the known one', async () => {
    const { record } = await provisioned(accounts, 'bob')
    expect(await codeOf(() => accounts.verifyRecord(record))).toBe('record_stale')
    const next = setStatus(record, 'suspended', OPERATOR_SEED, NOW_MS)
    const { command, record: same } = accounts.verifyRecord(next)
    expect(same).toEqual(next)
    expect(command).toMatchObject({ account_id: 'bob', version: 2, status: 'suspended' })
    expect(JSON.parse(Buffer.from(command.record).toString())).toEqual(next)
  })

  test('cannot take the api key of another account', async () => {
    const { record } = await provisioned(accounts, 'carol')
    const { record: _, signature: __, ...known } = record
    const thief = signAccountRecord({ ...known, account_id: 'dave' }, OPERATOR_SEED)
    expect(await codeOf(() => accounts.verifyRecord(thief))).toBe('record_invalid')
  })
})
