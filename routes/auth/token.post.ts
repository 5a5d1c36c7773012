import { TokenRequest, TokenResponse } from '../../protocol/wire/public'
import { endpoint } from '../../server/edge/endpoint'
import { UNRELEASED } from '../../server/edge/problem'

/** POST /auth/token: exchanges credentials for a bearer token. Wrong secrets never block a login with the right one. */
export default endpoint(
  {
    summary: 'Log in',
    description:
      'Exchanges a credential, whose id is the `api_key`, for a bearer token of `expires_in` seconds.',
    tag: 'account',
    body: TokenRequest,
    answer: { status: 200, body: TokenResponse },
    refuses: ['credentials_invalid', 'credential_expired', 'login_limited', 'login_busy', ...UNRELEASED],
  },
  ({ venue, body }) => venue.login(body),
)
