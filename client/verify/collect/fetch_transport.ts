/** Asks a venue through the platform's plain `fetch`, as a browser must: nothing here shows or pins the TLS key. */
import type { Transport } from '../../api/transport'

/** The half of a transport that evidence is collected through. */
export type AskingTransport = Pick<Transport, 'base_url' | 'fetch'>

/** Sends no cookie, follows nothing to another place, takes nothing from a cache. */
export function fetchTransport(origin: URL): AskingTransport {
  return {
    base_url: origin.origin,
    fetch: (path, init) =>
      fetch(origin.origin + path, {
        ...init,
        mode: 'cors',
        credentials: 'omit',
        redirect: 'error',
        cache: 'no-store',
        referrerPolicy: 'no-referrer',
      }),
  }
}
