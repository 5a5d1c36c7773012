/** The fields of a venue's answers that verification reads. */
import type { Form } from './require_form'

const text = 'string'

export const INFO_FORM: Form = {
  app_id: text,
  instance_id: text,
  compose_hash: text,
  tee_pubkey: text,
  venue: text,
  config_account: text,
  program_id: text,
  genesis_hash: text,
  generation: 'number',
  epoch: 'number',
}

export const ATTESTATION_FORM: Form = {
  quote: text,
  event_log: text,
  report_data: text,
  vm_config: text,
  tee_pubkey: text,
  binding: {
    body: text,
    signature: text,
    certificate: text,
    certificate_signature: text,
    statement_key: text,
  },
}
