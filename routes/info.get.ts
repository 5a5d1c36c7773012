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
  ({ info }) => info(),
)
