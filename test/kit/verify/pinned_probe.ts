/**
 * A separate process, because authorities and leniency come from the environment: prints the answers that a transport pinned to
 * the right and to another key gets from a server. Bun and Node. Arguments: URL, leaf to pin otherwise.
 */

import { readFileSync } from 'node:fs'
import type { Transport } from '../../../client/api/venue_client'
import { pinnedTransport, readPeer } from '../../../client/verify/collect/pinned_transport'

const [address, other_path] = process.argv.slice(2)
const url = new URL(address!)
const other_leaf = readFileSync(other_path!, 'utf8')
const peer = await readPeer(url, 5_000)
const other = { ...peer, spki_sha256: '00'.repeat(32), leaf_pem: other_leaf }

const overFetch = (transport: Transport): Promise<string> =>
  transport.fetch('/').then(
    (response) => response.text(),
    () => 'refused',
  )
const overSocket = (transport: Transport): Promise<string> =>
  new Promise((resolve) => {
    const socket = transport.webSocket('/', { 'x-leader-epoch': '7' })
    socket.onmessage = (message) => resolve(String(message.data))
    socket.onerror = () => resolve('refused')
  })

// Leaves a connection of the pool that no pin was compared with; in Node only where the environment believes the server.
const unpinned = { tls: { rejectUnauthorized: false } } as RequestInit
const before = await fetch(url, unpinned).then(
  (response) => response.text(),
  () => 'refused',
)
const told: Record<string, string> = {}
for (const [name, pinned] of [
  ['right', peer],
  ['other', other],
] as const) {
  const transport = await pinnedTransport(url, pinned)
  told[`${name} fetch`] = await overFetch(transport)
  told[`${name} socket`] = await overSocket(transport)
}
console.log(JSON.stringify({ before, self_signed: peer.self_signed, ...told }))
process.exit(0)
