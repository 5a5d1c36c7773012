/** Identity of Intel's TD quoting enclave, version 2 (Intel PCS API v4, "Get TDX QE Identity"): form only. */

import { JsonObject } from '../json_document'
import { requireThat } from '../refused'
import { readSvnLevels, type SvnLevel } from './tcb_info'

export type QeIdentity = {
  issued_ms: number
  next_update_ms: number
  evaluation_number: number
  misc_select: Uint8Array
  misc_select_mask: Uint8Array
  attributes: Uint8Array
  attributes_mask: Uint8Array
  mr_signer: Uint8Array
  isv_prod_id: number
  /** Best first. */
  levels: SvnLevel[]
}

/** @throws Refused for any other document. */
export function readQeIdentity(text: string): QeIdentity {
  const document = JsonObject.parse(text, 'QE identity')
  requireThat(document.text('id') === 'TD_QE', 'QE identity is not of the TD quoting enclave')
  requireThat(document.integer('version') === 2, 'QE identity version is not 2')
  return {
    issued_ms: document.time('issueDate'),
    next_update_ms: document.time('nextUpdate'),
    evaluation_number: document.integer('tcbEvaluationDataNumber'),
    misc_select: document.bytes('miscselect', 4),
    misc_select_mask: document.bytes('miscselectMask', 4),
    attributes: document.bytes('attributes', 16),
    attributes_mask: document.bytes('attributesMask', 16),
    mr_signer: document.bytes('mrsigner', 32),
    isv_prod_id: document.integer('isvprodid'),
    levels: readSvnLevels(document),
  }
}
