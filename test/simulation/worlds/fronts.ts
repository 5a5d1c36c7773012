/** Names of a simulated process in the network, and app, enclave and operator's calls of a venue that listens nowhere. */
import type { Enclave } from '../../../enclave/contract'
import { openOperatorCheck } from '../../../engine/accounts/verify_operator'
import type { ClockPort } from '../../../engine/ports'
import type { NodeVenue } from '../../../engine/venue'
import { encodeBase58 } from '../../../protocol/base58'
import { publicKeyOf } from '../../../protocol/sign'
import { type App, type AppOptions, createApp } from '../../../server/edge/app'
import { openLog } from '../../../server/edge/log'
import { operatorApp } from '../../../server/operator/operator'
import { only } from '../../kit/server/harness'
import { OPERATOR_SEED } from '../../kit/venue/test_login'

export const linkHost = (node: number): string => `link-${node}.test`
export const frontHost = (node: number): string => `front-${node}.test`

const OPERATOR_KEY = encodeBase58(publicKeyOf(OPERATOR_SEED))
/** Errors in the logs of nodes. */
export const errors: string[] = []
export const silentLog = (clock: ClockPort) =>
  openLog((line) => {
    if (line.includes('"level":"error"')) errors.push(line)
  }, clock.unixMs)

/** A process's statements of itself without a machine. */
export function simulatedEnclave(tee_pubkey: Uint8Array): Enclave {
  return only<Enclave>('enclave', {
    evidence: () => undefined,
    identity: {
      app_id: 'aa'.repeat(20),
      instance_id: 'bb'.repeat(20),
      compose_hash: 'cc'.repeat(32),
      app_compose: '',
      kind: 'development',
      tee_pubkey,
    },
    tls: { not_after_ms: Number.MAX_SAFE_INTEGER } as never,
    attestation: async () => ({
      ...{ quote: '00', event_log: '[]', report_data: '00', vm_config: '' },
      tee_pubkey: encodeBase58(tee_pubkey),
      enclave: 'development' as const,
      binding: {
        ...{ body: '00', signature: '00'.repeat(64), certificate: '00' },
        certificate_signature: '00'.repeat(64),
        statement_key: encodeBase58(tee_pubkey),
      },
    }),
  })
}

export function simulatedApp(venue: NodeVenue, enclave: Enclave, clock: ClockPort, of: Partial<AppOptions>) {
  const app = createApp({ venue, enclave, options: { version: '1', clock, log: silentLog(clock), ...of } })
  // Its ticks come in simulated time.
  app.close()
  return app
}

export function operatorOf(venue_id: Uint8Array, clock: ClockPort, drain: () => void) {
  const check = openOperatorCheck({ operator_key: OPERATOR_KEY, venue: venue_id, clock })
  const ends = () => ({ certificate_ms: 0, collateral_ms: 0 })
  const documents = { html: '', json: '', css: '' } as never
  return (of: { venue: NodeVenue; app: App }) =>
    operatorApp({ ...of, log: silentLog(clock), clock, documents, check, ends, drain })
}
