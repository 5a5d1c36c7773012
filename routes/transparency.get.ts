import { Transparency } from '../protocol/wire/public'
import { endpoint } from '../server/edge/endpoint'

/** GET /transparency: liabilities against vaults per mint, settlement, pending administration, builds, daily figures. */
export default endpoint(
  {
    summary: 'Transparency',
    description:
      'A mint marked `stale` is unknown, never zero. Daily figures are delayed and suppressed below a count.',
    tag: 'trust',
    answer: { status: 200, body: Transparency },
    cache: 'public, max-age=1',
  },
  ({ venue }) => venue.transparency(),
)
