import { TokenRequest, TokenResponse } from '../../protocol/wire/public'
import { endpoint } from '../../server/edge/endpoint'

/** POST /auth/token: exchanges credentials for a bearer token. Wrong secrets never block a login with the right one. */
export default endpoint(
  {
    summary: 'Log in',
    description:
      'Exchanges the credentials of an account for a bearer token that lives `expires_in` seconds.',
    tag: 'account',
    body: TokenRequest,
    answer: { status: 200, body: TokenResponse },
    refuses: ['credentials_invalid', 'login_limited', 'login_busy'],
  },
  ({ venue, body }) => venue.login(body),
)
