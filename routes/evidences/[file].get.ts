import { Refusal } from '../../protocol/refusals'
import { exact, t } from '../../protocol/wire/values'
import { endpoint } from '../../server/edge/endpoint'
import { PATH_NAME_LENGTH_MAX } from '../../server/limits'

/** GET /evidences/{file}: the files that bind the served TLS certificate to a key held inside the enclave. */
export default endpoint(
  {
    summary: 'Evidence file',
    description:
      '`quote.json`, `cert.pem` or `sha256sum.txt`. The quote binds the SHA-256 of `sha256sum.txt`.',
    tag: 'trust',
    params: exact({ file: t.String({ minLength: 1, maxLength: PATH_NAME_LENGTH_MAX }) }),
    answer: { status: 200, text: ['application/json', 'application/x-pem-file', 'text/plain'] },
    refuses: ['evidence_unknown'],
  },
  ({ enclave, params }) => {
    const file = enclave.evidence(params.file)
    if (file === undefined) throw new Refusal('evidence_unknown')
    return file
  },
)
