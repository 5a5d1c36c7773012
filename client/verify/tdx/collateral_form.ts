/** Reads collateral from JSON of another program; the checks judge its content. */
import type { Collateral } from '../../../protocol/tdx/collateral'
import { JsonObject, parseJson } from '../json_document'
import { Refused } from '../transcript'

const FIELDS = [
  'pck_crl_issuer_chain',
  'root_ca_crl',
  'pck_crl',
  'tcb_info_issuer_chain',
  'tcb_info',
  'tcb_info_signature',
  'qe_identity_issuer_chain',
  'qe_identity',
  'qe_identity_signature',
] as const satisfies readonly (keyof Collateral)[]

/**
 * Texts beside the nine fields are ignored, as some tools add a PCK chain; anything else there is an error, because the
 * file is then not collateral.
 * @throws Refused naming the field
 */
export function readCollateralValue(value: unknown): Collateral {
  const document = JsonObject.of(value, 'the collateral')
  for (const [field, member] of Object.entries(value as object))
    if (typeof member !== 'string' && member !== null)
      throw new Refused(`the collateral has no well formed ${field}`)
  return Object.fromEntries(FIELDS.map((field) => [field, document.text(field)])) as Collateral
}

/** The same from text. @throws Refused */
export function parseCollateral(text: string): Collateral {
  return readCollateralValue(parseJson(text))
}
