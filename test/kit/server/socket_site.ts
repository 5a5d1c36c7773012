/** A venue whose sockets a test opens one by one; venue and sockets end with the test. */
import { afterEach } from 'bun:test'
import { type Harness, openHarness } from './harness'
import { openPeer, type Peer } from './peer'

type SocketSite = {
  serve(...options: Parameters<typeof openHarness>): Harness
  connect(path: string, headers?: Record<string, string>): Promise<Peer>
}

/** Called once by a file of tests. */
export function socketSite(): SocketSite {
  let harness: Harness
  let peers: Peer[] = []
  afterEach(async () => {
    for (const peer of peers) peer.close()
    peers = []
    await harness.stop()
  })
  return {
    serve(...options) {
      harness = openHarness(...options)
      return harness
    },
    async connect(path, headers) {
      const peer = await openPeer(harness.listener.url, path, headers)
      peers.push(peer)
      return peer
    },
  }
}
