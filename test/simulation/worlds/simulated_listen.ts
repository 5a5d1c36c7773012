/** Stands in for `server/tls/listen`, in which a process listens at a name of the simulated network, and for the judgement of quotes. */
import type { App } from '../../../server/edge/app'
import type { Listener } from '../../../server/tls/listen'
import { type Life, ownLife } from '../awaits'

export type Listening = { app: Pick<App, 'fetch'>; life: Life }
export const listening = new Map<string, Listening>()

/** Which machine may have a link is judged by `test/cluster/links.test.ts`. */
export const judgePeer = async (): Promise<void> => undefined

export const SELF_SIGNED = undefined
export const rotating = () => () => undefined

export function listen(app: Pick<App, 'fetch'>, { hostname }: { hostname: string }): Listener {
  const own = { app, life: ownLife()! }
  listening.set(hostname, own)
  return {
    port: 443,
    url: `https://${hostname}`,
    rotate: () => undefined,
    answerChallenge: async () => async () => undefined,
    stop: async () => {
      if (listening.get(hostname) === own) listening.delete(hostname)
    },
  }
}
