/**
 * Connects a page to the server that serves it: paths, defaults, and a transport to the venue under the TLS key that a path
 * names.
 */
import type { Transport } from '../api/venue_client'

export const PEER_PATH = '/peer'
export const VENUE_PATH = '/venue/'
export const ADMIT_PATH = '/admit'
/** No venue answers: the connection failed, and the outcome of a command is unknown. */
export const LOST_STATUS = 599

/** Initial values of a served page: public facts only, since every program of the machine can read them. */
export type PageDefaults = {
  /** HTTPS origin of the venue. */
  url: string
  /** The vault that a wallet is for: genesis hash and config account. */
  vault: string
  policy: string
  /** Text of the collateral's file; empty: the policy's service is asked. */
  collateral: string
  /** Node of the trader's choice. */
  rpc_url: string
  /** The server of the page admits new accounts, and the chain gives test money. */
  is_laptop: boolean
}

/** Undefined on a page without a server. */
export function pageDefaults(): PageDefaults | undefined {
  const text = document.getElementById('defaults')?.textContent
  return text === undefined || text === null ? undefined : (JSON.parse(text) as PageDefaults)
}

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
