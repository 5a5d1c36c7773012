/** Reaches the venue through the server of the pages, which opens TLS to the one key that each path names. */
import type { Transport } from '../api/venue_client'
import { LOST_STATUS, PEER_PATH, VENUE_PATH } from './gateway_paths'

export type GatewayVenue = Transport & {
  /** SHA-256 of the TLS key that this transport is bound to, hex. */
  readonly spki_sha256: string
}

/** @param url the venue's own origin, for the transcript @throws TypeError when the venue does not open TLS */
export async function openGateway(url: string): Promise<GatewayVenue> {
  const answer = await ask(PEER_PATH)
  const { spki_sha256 } = (await answer.json()) as { spki_sha256: string }
  const base = `${VENUE_PATH}${spki_sha256}`
  return {
    base_url: url,
    spki_sha256,
    fetch: (path, init) => ask(base + path, init),
    webSocket: (path) => new WebSocket(`ws://${location.host}${base}${path}`),
  }
}

/** A call that the venue may not have answered fails as a lost connection does. */
async function ask(path: string, init?: RequestInit): Promise<Response> {
  const answer = await fetch(path, { ...init, credentials: 'omit', redirect: 'error', cache: 'no-store' })
  if (answer.status === LOST_STATUS) throw new TypeError('the connection to the venue failed')
  return answer
}
