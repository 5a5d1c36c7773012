import { CredentialRequest, CredentialResult } from '../../protocol/wire/accounts'
import { COST, endpoint } from '../../server/edge/endpoint'
import { UNRELEASED } from '../../server/edge/problem'

/** POST /account/credentials: sets, replaces or revokes a credential by a body that the account key signed. */
export default endpoint(
  {
    summary: 'Set or revoke a credential',
    description: 'Signed with the account key. Replacing or revoking a credential ends its tokens.',
    tag: 'account',
    bearer: true,
    cost: COST.cancel,
    body: CredentialRequest,
    answer: { status: 200, body: CredentialResult },
    refuses: [
      'signature_invalid',
      'account_unknown',
      'credential_version',
      'credential_taken',
      'credential_limit',
      ...UNRELEASED,
    ],
  },
  ({ venue, account_id, body }) => venue.setCredential(account_id, body),
)
