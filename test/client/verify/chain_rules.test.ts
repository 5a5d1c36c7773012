/** Who may issue certificates and revocation lists, rule by rule. */

import { expect, test } from 'bun:test'
import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { readCertificate } from '../../../client/verify/x509/certificate'
import {
  readRevocationList,
  requireIssuedBy,
  requireListOf,
  requireNotRevoked,
} from '../../../client/verify/x509/chain'
import * as der from '../../../enclave/der'
import * as x509 from '../../../enclave/x509'
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

const LIST = {
  issuer: AUTHORITY,
  issuer_key: key,
  this_update_ms: NOW_MS,
  next_update_ms: NOW_MS + DAY_MS,
  revoked_serials: [Uint8Array.of(1)],
}

test('an authority that may not sign revocation lists signs none', async () => {
  const list = readRevocationList(issueRevocationList(LIST))
  const issuer = (...usages: (5 | 6)[]) =>
    certificate([x509.basicConstraints(true), x509.keyUsage(...usages)])
  expect(await requireListOf(list, issuer(5, 6), NOW_MS)).toBeUndefined()
  await expect(requireListOf(list, issuer(5), NOW_MS)).rejects.toThrow(/may not sign/)
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
