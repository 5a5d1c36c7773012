/** `Bun.serve` and `Bun.listen` of the product: a process listens at a name of the simulated network, or at a socket file. */
import type { App } from '../../../server/edge/app'
import { type Life, ownLife } from '../awaits'

export type Listening = { app: Pick<App, 'fetch'>; life: Life }
type Served = { unix?: string; hostname: string; port: number } & Pick<App, 'fetch'>
export const listening = new Map<string, Listening>()
/** The guest agent: the newest server at a socket file. */
export const agent: { fetch: App['fetch'] | undefined } = { fetch: undefined }

export function simulateListening(): void {
  const serve = ({ fetch, hostname, port, unix }: Served) => {
    if (unix !== undefined) {
      agent.fetch = fetch
      const file = Bun.listen({ unix, socket: { data() {} } })
      file.unref()
      return { stop: async () => file.stop() }
    }
    const own = { app: { fetch }, life: ownLife()! }
    listening.set(hostname, own)
    const stop = async () => {
      if (listening.get(hostname) === own) listening.delete(hostname)
    }
    return { port, stop }
  }
  const { $Bun } = globalThis as never as { $Bun: object }
  Object.assign($Bun, { serve, listen: () => ({ stop: () => undefined }) })
}

/** No front of a TLS-ALPN-01 challenge: `test/server/challenge_front.test.ts` tests it with real connections. */
export const openFront = async () => ({ close: async () => undefined })
export class Accepted {}
