/** The signed bodies of accounts, byte by byte, and what derives from a seed and a key. */
import { expect, test } from 'bun:test'
import { createHash, hkdfSync } from 'node:crypto'
import {
  ADMISSION_BODY,
  accountIdOf,
  CREDENTIAL_BODY,
  PASSPHRASE_COST,
  REBIND_BODY,
  secretHash,
} from '../../protocol/bodies/account'
import { fromHex, toHex } from '../../protocol/bytes'
import { deriveAccountKey, deriveTradingKey } from '../../protocol/notes/derive'

const of = (byte: string, width: number) => fromHex(byte.repeat(width), width)!
const ascii = (text: string, width: number) =>
  Buffer.from(text)
    .toString('hex')
    .padEnd(2 * width, '0')
const venue = of('aa', 32)

test('an admission has 128 bytes, each field in its place', () => {
  const limits = { rate_capacity: 1, rate_refill_per_s: 2, orders_live_max: 258, keys_max: 4 }
  const body = ADMISSION_BODY.encode({
    venue,
    account_key: of('bb', 32),
    version: 5,
    state: 'closed',
    limits,
  })
  const numbers = ['0100000000000000', '0200000000000000', '0201000000000000', '0400000000000000']
  const head = [ascii('tacit/admission1', 16), 'aa'.repeat(32), 'bb'.repeat(32), '0500000000000000']
  expect(toHex(body)).toBe([...head, '0200000000000000', ...numbers].join(''))
  expect(body.length).toBe(128)
})

test('a credential has 240 bytes, each field in its place', () => {
  const body = CREDENTIAL_BODY.encode({
    venue,
    account_id: of('bb', 32),
    credential_id: of('cc', 16),
    version: 7,
    kind: 'revoke',
    secret_hash: of('dd', 32),
    passphrase_digest: of('ee', 32),
    salt: of('ff', 16),
    expiry_s: 9,
  })
  const expected = [
    ...[ascii('tacit/credential1', 24), 'aa'.repeat(32), 'bb'.repeat(32), 'cc'.repeat(16)],
    ...['0700000000000000', '0200000000000000', 'dd'.repeat(32), 'ee'.repeat(32), 'ff'.repeat(16)],
    ...['0900000000000000', '00'.repeat(32)],
  ]
  expect(toHex(body)).toBe(expected.join(''))
  expect(body.length).toBe(240)
})

test('a rebind has 128 bytes, each field in its place', () => {
  const fields = { venue, trading_key: of('bb', 32), account_id: of('cc', 32), cancel_nonce: 3n }
  const expected = [
    ...[ascii('tacit/rebind1', 16), 'aa'.repeat(32), 'bb'.repeat(32), 'cc'.repeat(32)],
    ...['0300000000000000', '00'.repeat(8)],
  ]
  expect(toHex(REBIND_BODY.encode(fields))).toBe(expected.join(''))
})

test('a passphrase costs what the specification says', () => {
  expect(PASSPHRASE_COST).toEqual({ m: 65_536, t: 3, p: 1, dkLen: 32 })
})

test('account ids, secret hashes and account keys are those of other programs', () => {
  const key = of('11', 32)
  expect(accountIdOf(key)).toBe(createHash('sha256').update('tacit/account/v1').update(key).digest('hex'))
  expect(toHex(secretHash('secret'))).toBe(createHash('sha256').update('secret').digest('hex'))
  const info = Buffer.concat([Buffer.from('account-key'), Buffer.alloc(8)])
  const derived = Buffer.from(hkdfSync('sha256', key, 'tacit/wallet/v1', info, 32)).toString('hex')
  expect(toHex(deriveAccountKey(key))).toBe(derived)
  expect(toHex(deriveTradingKey(key, 0))).not.toBe(derived)
})
