/** Who may issue certificates and revocation lists, rule by rule. */

import { expect, test } from 'bun:test'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import {
  readRevocationList,
  requireCurrent,
  requireIssuedBy,
  requireListCurrent,
  requireListOf,
  requireNotRevoked,
} from '../../../client/verify/x509/chain'
import * as der from '../../../enclave/der'
import * as x509 from '../../../enclave/x509'
import { concatBytes } from '../../../protocol/bytes'
import { readCertificate } from '../../../protocol/x509/certificate'
import { isSignedBy } from '../../../protocol/x509/der'
import { issueRevocationList } from '../../../sandbox/enclave/authorities'
import { NOW_MS } from '../../kit/verify/development_pki'

const DAY_MS = 86_400_000
const AUTHORITY = { common_name: 'authority', organization: 'Test' }
const OTHER = { common_name: 'other', organization: 'Test' }
const key: KeyObject = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
const SIGNS = x509.keyUsage(5, 6)

function certificate(extensions: x509.Extension[], subject = AUTHORITY) {
  return readCertificate(
    x509.issueCertificate({
      subject,
      issuer: AUTHORITY,
      subject_key: key,
      issuer_key: key,
      serial: Uint8Array.of(1),
      not_before_ms: NOW_MS - DAY_MS,
      not_after_ms: NOW_MS + DAY_MS,
      extensions,
    }),
  )
}
const leaf = certificate([x509.basicConstraints(false)], OTHER)

test('an authority issues when it is one, may sign certificates and the chain is short enough', async () => {
  const judge = (extensions: x509.Extension[], authorities_below = 0) =>
    requireIssuedBy(leaf, certificate(extensions), authorities_below).then(
      () => 'accepted',
      (error: Error) => error.message,
    )
  expect(await judge([x509.basicConstraints(true), SIGNS])).toBe('accepted')
  expect(await judge([x509.basicConstraints(false), SIGNS])).toMatch(/no authority/)
  expect(await judge([SIGNS])).toMatch(/no authority/)
  expect(await judge([x509.basicConstraints(true), x509.keyUsage(0, 6)])).toMatch(/no authority/)
  expect(await judge([x509.basicConstraints(true)])).toMatch(/no authority/)
  expect(await judge([x509.basicConstraints(true, 0), SIGNS])).toBe('accepted')
  expect(await judge([x509.basicConstraints(true, 0), SIGNS], 1)).toMatch(/longer/)
  const named = certificate([x509.basicConstraints(true), SIGNS], OTHER)
  await expect(requireIssuedBy(leaf, named, 0)).rejects.toThrow(/another name/)
})

test('a certificate without basic constraints is that of a leaf', () => {
  expect(certificate([SIGNS]).basic_constraints).toEqual(leaf.basic_constraints)
  expect(leaf.basic_constraints).toEqual({ ca: false, path_length: undefined })
})

test('a common name with a character that could imitate another is refused', () => {
  const { common_name } = certificate([SIGNS], { ...OTHER, common_name: 'SGX Root CA' })
  expect(common_name).toBe('SGX Root CA')
  for (const odd of ['SGX Root CA\u0000', '\u00e9 SGX Root CA', 'SGX\u00a0Root CA', 'SGX Root C\u0410'])
    expect(() => certificate([SIGNS], { ...OTHER, common_name: odd })).toThrow(/not ASCII/)
})

test('a key or signature of another width signs nothing', async () => {
  const { public_key, signed, signature } = certificate([SIGNS])
  expect(await isSignedBy(public_key, signed, signature)).toBe(true)
  for (const width of [0, 1, 32, 63]) {
    expect(await isSignedBy(public_key.slice(0, width), signed, signature)).toBe(false)
    expect(await isSignedBy(public_key, signed, signature.slice(0, width))).toBe(false)
  }
  expect(await isSignedBy(concatBytes(public_key, Uint8Array.of(0)), signed, signature)).toBe(false)
  expect(await isSignedBy(public_key, signed, concatBytes(signature, Uint8Array.of(0)))).toBe(false)
})

test('a certificate is valid from its first to its last millisecond', () => {
  const { not_before_ms, not_after_ms } = leaf
  for (const now_ms of [not_before_ms, not_after_ms]) expect(() => requireCurrent(leaf, now_ms)).not.toThrow()
  expect(() => requireCurrent(leaf, not_before_ms - 1)).toThrow(/not valid yet/)
  expect(() => requireCurrent(leaf, not_after_ms + 1)).toThrow(/has expired/)
})

const LIST = {
  issuer: AUTHORITY,
  issuer_key: key,
  this_update_ms: NOW_MS,
  next_update_ms: NOW_MS + DAY_MS,
  revoked_serials: [Uint8Array.of(1)],
}

test('a revocation list is current from its first to its last millisecond', () => {
  const list = readRevocationList(issueRevocationList(LIST))
  for (const now_ms of [list.this_update_ms, list.next_update_ms])
    expect(() => requireListCurrent(list, now_ms)).not.toThrow()
  expect(() => requireListCurrent(list, list.this_update_ms - 1)).toThrow(/from the future/)
  expect(() => requireListCurrent(list, list.next_update_ms + 1)).toThrow(/has expired/)
})

test('an authority that may not sign revocation lists signs none', async () => {
  const list = readRevocationList(issueRevocationList(LIST))
  const issuer = (...usages: (5 | 6)[]) =>
    certificate([x509.basicConstraints(true), x509.keyUsage(...usages)])
  expect(await requireListOf(list, issuer(5, 6))).toBeUndefined()
  await expect(requireListOf(list, issuer(5))).rejects.toThrow(/may not sign/)
})

test('a list speaks for its own issuer only', () => {
  const revoking = readRevocationList(issueRevocationList(LIST))
  expect(() => requireNotRevoked(leaf, revoking)).toThrow(/is revoked/)
  const elsewhere = readRevocationList(issueRevocationList({ ...LIST, issuer: OTHER, revoked_serials: [] }))
  expect(() => requireNotRevoked(leaf, elsewhere)).toThrow(/another issuer/)
})

test('a partial list, which a critical extension marks, is refused', () => {
  const list = (...extensions: x509.Extension[]) =>
    x509.signedSequence(
      der.sequence(
        der.smallInteger(1),
        x509.ECDSA_SHA256,
        x509.encodeName(AUTHORITY),
        der.time(NOW_MS),
        der.time(NOW_MS + DAY_MS),
        der.explicit(0, der.sequence(x509.extension('2.5.29.20', false, der.smallInteger(1)), ...extensions)),
      ),
      key,
    )
  expect(readRevocationList(list()).revoked.size).toBe(0)
  const delta = x509.extension('2.5.29.27', true, der.smallInteger(1))
  expect(() => readRevocationList(list(delta))).toThrow(/unknown critical/)
})
