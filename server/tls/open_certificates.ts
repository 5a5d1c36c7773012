/** Opens the source of public certificates: a sealed one from disk first, then new ones by ACME at two thirds of their life. */

import { join } from 'node:path'
import type { Enclave } from '../../enclave/contract'
import {
  type ChallengeSolver,
  challengeCertificate,
  dnsSolver,
  type IssuedCertificate,
  issueCertificate,
  type SealedStore,
  sealCertificate,
  unsealCertificate,
} from '../../enclave/index'
import { KEY_PATHS } from '../../enclave/key_paths'
import { ACME_DNS_CALL_MS } from '../../enclave/limits'
import type { ClockPort } from '../../engine/ports'
import { pemOfDer } from '../../protocol/pem'
import type { Log } from '../edge/log'
import { PUBLIC_CERTIFICATE_CHECK_MS } from '../limits'
import type { AcmeConfig } from '../settings/config'
import type { CertificateSource, Listener } from './listen'

type CertificateParts = {
  acme: AcmeConfig
  names: readonly string[]
  data_dir: string
  enclave: Pick<Enclave, 'deriveKey'>
  /** The public listener, where a TLS-ALPN-01 challenge is answered. */
  listener: Pick<Listener, 'answerChallenge'>
  clock: ClockPort
  log: Log
}

/** Account and sealing keys are derived in the enclave; no key is on disk in plain text. */
export async function openCertificates(parts: CertificateParts): Promise<CertificateSource> {
  const { acme, names, data_dir, enclave, clock, log } = parts
  const account_seed = await enclave.deriveKey(KEY_PATHS.acme_account)
  const store: SealedStore = {
    path: join(data_dir, 'acme', 'certificate.sealed'),
    key: await enclave.deriveKey(KEY_PATHS.acme_certificate),
    directory_url: acme.directory_url,
    names,
  }
  const root = acme.root === '' ? {} : { root_pem: pemOfDer(Buffer.from(acme.root, 'base64'), 'CERTIFICATE') }
  const solver = acme.challenge === 'dns-01' ? dns(acme, root) : ownPort(parts)
  let held = unsealCertificate(store, clock.unixMs())
  let served: IssuedCertificate | undefined
  return {
    check_ms: PUBLIC_CERTIFICATE_CHECK_MS,
    isDue: (tls, unix_ms) =>
      served === undefined || tls.cert_pem !== served.cert_pem || isOld(served, unix_ms),
    async next() {
      if (held === undefined || isOld(held, clock.unixMs())) {
        const { directory_url } = acme
        held = await issueCertificate({ directory_url, ...root, account_seed, names, solver })
        log.write('info', 'certificate_issued', { account_url: held.account_url })
        sealCertificate(store, held)
      }
      served = held
      return served
    },
  }
}

/** The last third of its life is left for failed attempts. */
function isOld({ not_before_ms, not_after_ms }: IssuedCertificate, unix_ms: number): boolean {
  return unix_ms >= not_before_ms + ((not_after_ms - not_before_ms) * 2) / 3
}

function dns({ dns: api }: AcmeConfig, root: { root_pem?: string }): ChallengeSolver {
  return dnsSolver({ ...api, ...root, call_ms: ACME_DNS_CALL_MS })
}

function ownPort({ listener, clock }: CertificateParts): ChallengeSolver {
  return {
    type: 'tls-alpn-01',
    present: ({ name, key_authorization }) =>
      listener.answerChallenge(challengeCertificate(name, key_authorization, clock.unixMs())),
  }
}
