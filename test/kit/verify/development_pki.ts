/** A development PKI with its private keys, so that a test can sign as an attacker would. */

import { type KeyObject, sign } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openCollateral, trustedRoots } from '../../../client/verify/tdx/collateral'
import { verifyUnderCollateral } from '../../../client/verify/tdx/genuine_quote'
import type { PlatformPolicy } from '../../../client/verify/tdx/platform'
import { reasonOf } from '../../../client/verify/transcript'
import { toHex, utf8 } from '../../../protocol/bytes'
import type { Collateral } from '../../../protocol/tdx/collateral'
import { pemOfDer } from '../../../protocol/x509/certificate'
import { issueCollateral, NO_FAULTS } from '../../../sandbox/enclave/agent'
import {
  type Authorities,
  issueAuthorities,
  signQuote,
  startQuotingEnclave,
  type TdFacts,
} from '../../../sandbox/enclave/authorities'
import { loadKeys, type StoredKeys } from '../../../sandbox/enclave/machine'

export const NOW_MS = Date.UTC(2026, 0, 15, 12)
export const STRICT: PlatformPolicy = { tcb_statuses: ['UpToDate'], advisories: [], tcb_evaluation_min: 0 }

type DevelopmentPki = { keys: StoredKeys; authorities: Authorities; root_pem: string }

/** A fresh PKI whose certificates and collateral are current at `NOW_MS`. */
export function makePki(): DevelopmentPki {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-pki-'))
  try {
    const keys = loadKeys(folder, crypto.getRandomValues(new Uint8Array(32)))
    const authorities = issueAuthorities(folder, keys, NOW_MS)
    return { keys, authorities, root_pem: pemOfDer(authorities.root, 'CERTIFICATE') }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export function collateralOf(pki: DevelopmentPki, now_ms = NOW_MS): Collateral {
  return issueCollateral(pki.keys, pki.authorities, NO_FAULTS, now_ms)
}

export function quoteOf(pki: DevelopmentPki, facts: Partial<TdFacts> = {}): Uint8Array {
  const register = (fill: number) => new Uint8Array(48).fill(fill)
  return signQuote(startQuotingEnclave(pki.authorities, pki.keys.pck), {
    registers: [register(1), register(2), register(3), register(4)],
    compose_hash: new Uint8Array(32).fill(9),
    debug: false,
    out_of_date: false,
    report_data: new Uint8Array(64).fill(5),
    ...facts,
  })
}

/** The sentence of the refusal, or `accepted`. @throws an error that is no refusal */
export async function outcome(
  pki: DevelopmentPki,
  quote: Uint8Array,
  collateral: Collateral,
  policy: PlatformPolicy = STRICT,
  now_ms = NOW_MS,
): Promise<string> {
  try {
    const opened = await openCollateral(collateral, trustedRoots(pki.root_pem), now_ms)
    await verifyUnderCollateral(quote, opened, policy, now_ms)
    return 'accepted'
  } catch (error) {
    const reason = reasonOf(error)
    if (reason.startsWith('unexpected')) throw error
    return reason
  }
}

export function signText(text: string, key: KeyObject): string {
  return toHex(sign('sha256', utf8(text), { key, dsaEncoding: 'ieee-p1363' }))
}

/** Collateral with one signed document changed and signed again by the right key. */
export function withDocument(
  pki: DevelopmentPki,
  document: 'tcb_info' | 'qe_identity',
  change: (value: Record<string, never> & Record<string, unknown>) => void,
): Collateral {
  const collateral = collateralOf(pki)
  const value = JSON.parse(collateral[document])
  change(value)
  const text = JSON.stringify(value)
  return { ...collateral, [document]: text, [`${document}_signature`]: signText(text, pki.keys.tcb_signing) }
}
