/** The services of a simulated node while it follows, and when it leads: its links and its app. */
import type { Enclave } from '../../../enclave/contract'
import { openOperatorCheck } from '../../../engine/accounts/verify_operator'
import type { ChainPort, ClockPort } from '../../../engine/ports'
import type { FollowingNode, NodeVenue, Venue } from '../../../engine/venue'
import { encodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { publicKeyOf } from '../../../protocol/sign'
import { type App, type AppOptions, createApp } from '../../../server/edge/app'
import { openLog } from '../../../server/edge/log'
import { type OpenNode, openNode } from '../../../server/links/open_node'
import { operatorApp } from '../../../server/operator/operator'
import { only } from '../../kit/server/harness'
import { OPERATOR_SEED } from '../../kit/venue/test_login'

export const linkHost = (node: number): string => `link-${node}.test`
export const frontHost = (node: number): string => `front-${node}.test`

const OPERATOR_KEY = encodeBase58(publicKeyOf(OPERATOR_SEED))
const silentLog = (clock: ClockPort) => openLog(() => undefined, clock.unixMs)

/** A process's statements of itself without a machine. */
export function simulatedEnclave(tee_pubkey: Uint8Array): Enclave {
  return only<Enclave>('enclave', {
    identity: {
      app_id: 'aa'.repeat(20),
      instance_id: 'bb'.repeat(20),
      compose_hash: 'cc'.repeat(32),
      app_compose: '',
      kind: 'development',
      tee_pubkey,
    },
    tls: { not_after_ms: Number.MAX_SAFE_INTEGER } as never,
    follow: () => undefined,
    keyProof: async (of, nonce) => ({
      quote: toHex(sha256(new TextEncoder().encode(`${of} ${nonce}`))),
      ...{ event_log: '[]', report_data: '00'.repeat(64), vm_config: '' },
      tee_pubkey: encodeBase58(tee_pubkey),
      enclave: 'development',
    }),
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

export type Front = { node: OpenNode; app: App; lead(venue: Venue): void }

/** @param edge the venue as the weather lets clients have it */
export function openFront(
  at: number,
  { node, chain, clock }: { node: FollowingNode; chain: ChainPort; clock: ClockPort },
  edge: (venue: NodeVenue) => NodeVenue,
): Front {
  const enclave = simulatedEnclave(crypto.getRandomValues(new Uint8Array(32)))
  let app!: App
  const config = {
    engine: { cluster: { url: `https://${linkHost(at)}` } },
    operator_listen: { hostname: linkHost(at), port: 443 },
    listen: { hostname: frontHost(at), port: 443 },
  }
  const opened = openNode({
    parts: { clock, config: config as never, log: silentLog(clock), self_check: {} as never },
    enclave,
    operatorOf: (of, venue_id) => operatorOf(venue_id, clock, () => undefined)(of as never),
    appOf: (venue, of) => {
      app = simulatedApp(edge(venue), enclave, clock, of)
      return app
    },
    node,
    chain,
  })
  return { node: opened, app, lead: (venue) => void opened.lead(venue) }
}
