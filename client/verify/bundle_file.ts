/** Reads an evidence bundle from its file; the checks judge what it says. */
import { BUNDLE_FORMAT, type EvidenceBundle } from './evidence_bundle'
import { Refused } from './refused'
import { requireForm } from './require_form'
import { ATTESTATION_FORM, INFO_FORM } from './venue_forms'

const CHAIN_FORM = {
  genesis_hash: 'string',
  slot: 'number',
  config: { owner: 'string', data: 'string' },
  program: { owner: 'string', data: 'string' },
  program_data: { owner: 'string', sha256: 'string' },
} as const
export const COLLATERAL_FORM = {
  pck_crl_issuer_chain: 'string',
  root_ca_crl: 'string',
  pck_crl: 'string',
  tcb_info_issuer_chain: 'string',
  tcb_info: 'string',
  tcb_info_signature: 'string',
  qe_identity_issuer_chain: 'string',
  qe_identity: 'string',
  qe_identity_signature: 'string',
} as const

/** @throws Refused for anything but a bundle of this format. */
export function parseBundle(text: string): EvidenceBundle {
  const bundle = parseJson(text) as EvidenceBundle
  requireForm(bundle, {
    format: 'string',
    url: 'string',
    now_ms: 'number',
    nonce: 'string',
    info: INFO_FORM,
    attestation: ATTESTATION_FORM,
    missing: {},
    evidences: { quote_json: 'string', cert_pem: 'string', sha256sum_txt: 'string' },
  })
  if (bundle.format !== BUNDLE_FORMAT) throw new Refused('the bundle is of another format')
  if (bundle.collateral !== null) requireForm(bundle.collateral, COLLATERAL_FORM)
  if (bundle.chain !== null) requireForm(bundle.chain, CHAIN_FORM)
  const authority: unknown = bundle.chain?.program_data.upgrade_authority ?? null
  const loose: unknown[] = [bundle.spki_sha256, bundle.app_compose, authority]
  if (loose.some((value) => value !== null && typeof value !== 'string'))
    throw new Refused('a field of the bundle is malformed')
  return bundle
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused('the bundle is not JSON')
  }
}
