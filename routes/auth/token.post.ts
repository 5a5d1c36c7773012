import { endpoint } from '../_endpoint'
import { TokenRequest, TokenResponse } from '../_venue_shapes'

/** POST /auth/token: credentials against a bearer token. Wrong secrets have a small bucket per api key that never blocks a right one. */
export default endpoint(
  {
    summary: 'Log in',
    description:
      'Exchanges the credentials of an account for a bearer token that lives `expires_in` seconds.',
    tag: 'account',
    body: TokenRequest,
    answer: { status: 200, body: TokenResponse },
    refuses: ['credentials_invalid', 'login_limited', 'login_busy', 'account_suspended'],
  },
  ({ venue, body }) => venue.login(body),
)
