/** One socket of an account, for tests that send frames raw: its answers one after another, without greetings and events. */
import type { VenueClient } from '../../../client/api/venue_client'

type Frame = Record<string, unknown>

export async function openFrameSocket(client: VenueClient, path: string) {
  const frames: Frame[] = []
  const waiting: ((frame: Frame) => void)[] = []
  const socket = client.transport.webSocket(`${path}?token=${await client.token()}&after=0`)
  const [opened, closed] = [Promise.withResolvers<void>(), Promise.withResolvers<number>()]
  socket.onopen = () => opened.resolve()
  socket.onclose = ({ code }) => {
    opened.reject(new Error(`closed with ${code}`))
    closed.resolve(code)
  }
  socket.onmessage = ({ data }) => {
    const frame = JSON.parse(String(data)) as Frame
    if (frame['type'] !== 'reply' && frame['type'] !== 'error') return
    const next = waiting.shift()
    if (next === undefined) frames.push(frame)
    else next(frame)
  }
  await opened.promise
  return {
    closed: closed.promise,
    close: () => socket.close(),
    send: (message: string | Uint8Array<ArrayBuffer>) => socket.send(message),
    next: () =>
      new Promise<Frame>((resolve) => {
        const first = frames.shift()
        if (first === undefined) waiting.push(resolve)
        else resolve(first)
      }),
  }
}
