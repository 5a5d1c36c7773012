import { encodeBase58 } from '../protocol/base58'
import { Info } from '../protocol/wire/public'
import { endpoint } from '../server/edge/endpoint'

/** GET /info: image and venue, a claim that only `/attestation` proves. */
export default endpoint(
  {
    summary: 'Image identity',
    description: '`compose_hash` is the value a client pins; `venue` is bound by every signed body.',
    tag: 'trust',
    answer: { status: 200, body: Info },
  },
  ({ venue, enclave, version }) => ({
    app_id: enclave.identity.app_id,
    instance_id: enclave.identity.instance_id,
    compose_hash: enclave.identity.compose_hash,
    tee_pubkey: encodeBase58(enclave.identity.tee_pubkey),
    tacit_version: version,
    ...venue.identity(),
  }),
)
