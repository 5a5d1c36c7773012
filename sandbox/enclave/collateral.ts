/** Issues collateral for the simulated platform: TCB info, QE identity and revocation lists under the development root. */

import { type KeyObject, sign } from 'node:crypto'
import { toHex, utf8 } from '../../protocol/bytes'
import { pemOfDer } from '../../protocol/pem'
import type { Collateral } from '../../protocol/tdx/collateral'
import type { StandInKnobs } from './agent'
import { type Authorities, issueRevocationList, PLATFORM_AUTHORITY_NAME, ROOT_NAME } from './authorities'
import type { StoredKeys } from './keys'
import {
  CPU_SVN,
  FMSPC,
  PCE_ID,
  PCE_SVN,
  QE_MR_SIGNER,
  QE_PROD_ID,
  QE_SVN,
  TEE_TCB_SVN,
  TEE_TCB_SVN_OUT_OF_DATE,
} from './machine'

type Period = { this_update_ms: number; next_update_ms: number }

const DAY_MS = 86_400_000
const TCB_DATE = '2025-01-01T00:00:00Z'
const OLD_TCB_DATE = '2023-01-01T00:00:00Z'
const ADVISORY = 'DEVELOPMENT-ONLY-SA-00001'
const MODULE_SIGNER = {
  mrsigner: '00'.repeat(48),
  attributes: '0000000000000000',
  attributesMask: 'FFFFFFFFFFFFFFFF',
}

/** Intel writes hex in capitals and times in whole seconds. */
const capitals = (bytes: Uint8Array): string => toHex(bytes).toUpperCase()
const second = (unix_ms: number): string => `${new Date(unix_ms).toISOString().slice(0, 19)}Z`

/** TDX TCB info version 3 (Intel PCS API v4, "Get TDX TCB Info"). */
function tcbInfo(period: Period): unknown {
  return {
    id: 'TDX',
    version: 3,
    issueDate: second(period.this_update_ms),
    nextUpdate: second(period.next_update_ms),
    fmspc: capitals(FMSPC),
    pceId: capitals(PCE_ID),
    tcbType: 0,
    tcbEvaluationDataNumber: 18,
    tdxModule: MODULE_SIGNER,
    tdxModuleIdentities: [moduleIdentity('TDX_03', 3), moduleIdentity('TDX_01', 6)],
    tcbLevels: [
      { tcb: platformTcb(TEE_TCB_SVN), tcbDate: TCB_DATE, tcbStatus: 'UpToDate' },
      {
        tcb: platformTcb(TEE_TCB_SVN_OUT_OF_DATE),
        tcbDate: OLD_TCB_DATE,
        tcbStatus: 'OutOfDate',
        advisoryIDs: [ADVISORY],
      },
    ],
  }
}

function moduleIdentity(id: string, isvsvn: number): unknown {
  return {
    id,
    ...MODULE_SIGNER,
    tcbLevels: [
      { tcb: { isvsvn }, tcbDate: TCB_DATE, tcbStatus: 'UpToDate' },
      { tcb: { isvsvn: 2 }, tcbDate: OLD_TCB_DATE, tcbStatus: 'OutOfDate', advisoryIDs: [ADVISORY] },
    ],
  }
}

/** Component 1 of the TDX versions is the module's major version and 0 here: module identities cover the module. */
function platformTcb(tee_tcb_svn: Uint8Array): unknown {
  const tdx = Array.from(tee_tcb_svn, (svn, index) => ({ svn: index === 1 ? 0 : svn }))
  return {
    sgxtcbcomponents: Array.from(CPU_SVN, (svn) => ({ svn })),
    pcesvn: PCE_SVN,
    tdxtcbcomponents: tdx,
  }
}

/** TD_QE identity version 2 (Intel PCS API v4, "Get TDX QE Identity"). */
function qeIdentity(period: Period): unknown {
  return {
    id: 'TD_QE',
    version: 2,
    issueDate: second(period.this_update_ms),
    nextUpdate: second(period.next_update_ms),
    tcbEvaluationDataNumber: 18,
    miscselect: '00000000',
    miscselectMask: 'FFFFFFFF',
    attributes: '11000000000000000000000000000000',
    attributesMask: 'FBFFFFFFFFFFFFFF0000000000000000',
    mrsigner: capitals(QE_MR_SIGNER),
    isvprodid: QE_PROD_ID,
    tcbLevels: [{ tcb: { isvsvn: QE_SVN }, tcbDate: TCB_DATE, tcbStatus: 'UpToDate' }],
  }
}

/** Valid for 30 days, like Intel's; with the knob it expired 30 days ago. */
export function issueCollateral(
  keys: StoredKeys,
  authorities: Authorities,
  knobs: StandInKnobs,
  now_ms: number,
): Collateral {
  // One minute in the past, for verifiers whose clock is slow.
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
