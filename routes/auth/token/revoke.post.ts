import { exact, t } from '../../../protocol/wire/values'
import { endpoint } from '../../../server/edge/endpoint'
import { UNRELEASED } from '../../../server/edge/problem'

/** POST /auth/token/revoke: ends the token of the Authorization header at once, on REST and on every socket. */
export default endpoint(
  {
    summary: 'Revoke the token',
    description:
      'The token in the Authorization header is refused from now on and its sockets are closed. No body. After a 503 it has ' +
      'ended, too, unless the process ends before it can record that.',
    tag: 'account',
    bearer: true,
    access: 'read',
    answer: { status: 200, body: exact({ revoked: t.Literal(true) }) },
    refuses: UNRELEASED,
  },
  async ({ venue, session }) => {
    await venue.revoke(session)
    return { revoked: true as const }
  },
)
