/** A transport to the venue process wherever it listens now, trusting the certificate it made. */
import { readFileSync } from 'node:fs'
import type { Transport } from '../../../client/api/venue_client'
import type { VenueProcess } from './venue_process'

export function venueTransport(venue: VenueProcess): Transport {
  const ca = () => readFileSync(venue.facts.certificate, 'utf8')
  return {
    get base_url() {
      return venue.facts.url
    },
    fetch(path, init) {
      return fetch(venue.facts.url + path, { ...init, tls: { ca: ca() } } as RequestInit)
    },
    webSocket(path) {
      const url = venue.facts.url.replace(/^http/, 'ws') + path
      return new WebSocket(url, { tls: { ca: ca() } } as never)
    },
  }
}
