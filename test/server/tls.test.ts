/** The listener on TLS: version 1.3 only, paths of https URLs, new certificates under load without a lost request. */

import { afterEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { type Listener, listen } from '../../server/tls/listen'
import { TOKEN } from '../kit/server/harness'
import { listeningApp, spkiOf, tlsMaterial } from '../kit/server/listening_app'
import { ownNetwork } from '../kit/server/own_network'
import type { Seen } from '../kit/server/steady_load'

let listener: Listener
afterEach(() => listener.stop(0))

function handshake(port: number, options: object): Promise<{ version: string | null; spki: string }> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options }, () => {
      const version = socket.getProtocol()
      const spki = spkiOf(socket.getPeerCertificate().raw)
      socket.destroy()
      resolve({ version, spki })
    })
    socket.on('error', reject)
  })
}

test('TLS 1.3 is spoken and 1.2 refused', async () => {
  listener = listen(listeningApp(), { hostname: '127.0.0.1', port: 0, tls: tlsMaterial() })
  expect((await handshake(listener.port, {})).version).toBe('TLSv1.3')
  await expect(handshake(listener.port, { maxVersion: 'TLSv1.2' })).rejects.toThrow()
})

test('paths are found in https URLs, whatever the host', async () => {
  const tls = tlsMaterial()
  listener = listen(listeningApp(), { hostname: '127.0.0.1', port: 0, tls })
  for (const host of ['localhost', '127.0.0.1']) {
    const get = (path: string) =>
      fetch(`https://${host}:${listener!.port}${path}`, { tls: { ca: tls.cert_pem } }).then((answer) =>
        answer.json(),
      )
    expect(await get('/time')).toEqual({ slot: 1, unix_ms: 2, slot_ms: 400 })
    // `/time` has no query, so it rejects one; `/health` is in the query and not the path.
    expect(await get('/time?x=/health')).toMatchObject({ code: 'field_unknown', field: 'x' })
  }
})

test('a new certificate serves new connections while open sockets live on', async () => {
  const [first, second] = [tlsMaterial(), tlsMaterial()]
  listener = listen(listeningApp(), { hostname: '127.0.0.1', port: 0, tls: first })
  const frames: string[] = []
  const socket = new WebSocket(`${listener.url.replace('https', 'wss')}/ws/fills?token=${TOKEN}`, {
    tls: { ca: first.cert_pem },
  } as never)
  const next = () =>
    new Promise<string>((resolve) => {
      socket.onmessage = ({ data }) => resolve(String(data))
    })
  frames.push(await next())
  expect((await handshake(listener.port, {})).spki).toBe(spkiOf(first.cert_pem))
  listener.rotate(second)
  for (let attempt = 0; attempt < 8; attempt += 1) {
    expect((await handshake(listener.port, {})).spki).toBe(spkiOf(second.cert_pem))
  }
  socket.send('{"op":"ping","id":"still-here"}')
  expect(JSON.parse(await next())).toMatchObject({ type: 'reply', id: 'still-here' })
  socket.close()
})

const ROTATIONS = 12

test('rotation under load fails no request and drops no socket', () => {
  const seen = ownNetwork()?.run(
    join(import.meta.dir, '../kit/server/rotate_under_load.ts'),
    String(ROTATIONS),
  ) as Seen | undefined
  if (seen === undefined) return
  expect(seen).toMatchObject({ failed: [], sockets_lost: 0 })
  // The first key may have gone before the first new connection.
  expect(seen.keys.length).toBeGreaterThanOrEqual(ROTATIONS)
  expect(seen.fresh).toBeGreaterThan(ROTATIONS)
  expect(seen.kept).toBeGreaterThan(ROTATIONS)
})
