/** The stand-in's collateral: TCB info, QE identity and revocation lists, signed under the development root. */
import { type KeyObject, sign } from 'node:crypto'
import { toHex, utf8 } from '../../protocol/bytes'
import type { Collateral } from '../../protocol/collateral'
import { pemOfDer } from '../../protocol/pem'
import { type Authorities, PLATFORM_AUTHORITY_NAME, ROOT_NAME } from './authorities'
import type { StandInKnobs } from './knobs'
import { qeIdentity } from './qe_identity'
import { issueRevocationList } from './revocation_list'
import type { StoredKeys } from './stored_keys'
import { tcbInfo } from './tcb_info'

const DAY_MS = 86_400_000

/** Valid for 30 days, as Intel's is; with the knob it ended 30 days ago. */
export function issueCollateral(
  keys: StoredKeys,
  authorities: Authorities,
  knobs: StandInKnobs,
  now_ms: number,
): Collateral {
  // A minute in the past absorbs a verifier's clock that runs behind.
  const this_update_ms = knobs.expired_collateral ? now_ms - 60 * DAY_MS : now_ms - 60_000
  const period = { this_update_ms, next_update_ms: this_update_ms + 30 * DAY_MS }
  const { root, platform_authority, tcb_signing } = keys
  const chain = (der: Uint8Array) =>
    [der, authorities.root].map((one) => pemOfDer(one, 'CERTIFICATE')).join('')
  const revoked_serials = knobs.revoked_pck ? [authorities.pck_serial] : []
  const root_list = issueRevocationList({
    issuer: ROOT_NAME,
    issuer_key: root,
    ...period,
    revoked_serials: [],
  })
  const pck_list = issueRevocationList({
    issuer: PLATFORM_AUTHORITY_NAME,
    issuer_key: platform_authority,
    ...period,
    revoked_serials,
  })
  const tcb_info = JSON.stringify(tcbInfo(period))
  const qe_identity = JSON.stringify(qeIdentity(period))
  return {
    pck_crl_issuer_chain: chain(authorities.platform_authority),
    root_ca_crl: toHex(root_list),
    pck_crl: toHex(pck_list),
    tcb_info_issuer_chain: chain(authorities.tcb_signing),
    tcb_info,
    tcb_info_signature: signText(tcb_info, tcb_signing),
    qe_identity_issuer_chain: chain(authorities.tcb_signing),
    qe_identity,
    qe_identity_signature: signText(qe_identity, tcb_signing),
  }
}

function signText(text: string, key: KeyObject): string {
  return toHex(sign('sha256', utf8(text), { key, dsaEncoding: 'ieee-p1363' }))
}
