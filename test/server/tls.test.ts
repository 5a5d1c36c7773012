/** The listener on TLS 1.3, new certificates under load and in time, and log lines with allowed fields only. */

import { afterEach, expect, test } from 'bun:test'
import { join } from 'node:path'
import { connect } from 'node:tls'
import type { TlsMaterial } from '../../enclave/contract'
import { LogRolledBack } from '../../engine/cluster/replicated_log'
import { openLog } from '../../server/edge/log'
import { placeOf } from '../../server/edge/problem'
import { watchStatus } from '../../server/join_process'
import { RENEW_BEFORE_MS } from '../../server/limits'
import { type Listener, listen, renewIfDue, rotating, SELF_SIGNED } from '../../server/tls/listen'
import { listeningApp, StandingClock, spkiOf, TOKEN, tlsMaterial } from '../kit/server/harness'
import { ownNetwork, type Seen } from '../kit/server/steady_load'

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

test('paths are found in https URLs of any host', async () => {
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
  const closed = new Promise((resolve) => {
    socket.onclose = resolve
  })
  await listener.stop(0)
  await closed
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

test('fields beyond the list are dropped', () => {
  const lines: string[] = []
  const log = openLog(
    (line) => lines.push(line),
    () => 5,
  )
  const smuggled = { route: 'GET /time', amount: '5', url: '/?token=x', token: 'x' }
  log.write('info', 'listening', smuggled as never)
  expect(lines).toEqual(['{"unix_ms":5,"level":"info","event":"listening","route":"GET /time"}\n'])
})

test('an error is logged with its message only where no submitted value can be in it', () => {
  expect(placeOf(new Error('5 SOL at 150'))).not.toHaveProperty('reason')
  const fault = new LogRolledBack('the log ends at seq 5, this journal at 7')
  expect(placeOf(fault)).toMatchObject({ error: 'LogRolledBack', reason: fault.message })
})

function renewal(left_ms: number, fails = false) {
  const clock = new StandingClock()
  const lines: string[] = []
  const rotated: TlsMaterial[] = []
  const tls = (not_after_ms: number): TlsMaterial => ({
    cert_pem: '',
    key_pem: '',
    spki_sha256: new Uint8Array(32),
    not_after_ms,
  })
  const enclave = {
    tls: tls(clock.unixMs() + left_ms),
    rotateTls: async () => {
      if (fails) throw new Error('a secret sentence')
      return tls(clock.unixMs() + 90 * 86_400_000)
    },
  }
  const listener = { rotate: (fresh: TlsMaterial) => void rotated.push(fresh) }
  const log = openLog((line) => lines.push(line), clock.unixMs)
  const parts = { enclave, listeners: [listener, listener], clock, log, source: SELF_SIGNED }
  return { lines, rotated, parts, run: () => renewIfDue(parts) }
}

test('a certificate that lives long enough is left alone', async () => {
  const { rotated, run } = renewal(RENEW_BEFORE_MS + 1)
  await run()
  expect(rotated).toEqual([])
})

test('one that nears its end is renewed on every listener', async () => {
  const { rotated, run } = renewal(RENEW_BEFORE_MS)
  await run()
  expect(rotated.length).toBe(2)
})

test('a failed renewal is logged without its message and changes nothing', async () => {
  const { lines, rotated, run } = renewal(0, true)
  await run()
  expect(rotated).toEqual([])
  expect(lines.length).toBe(1)
  expect(lines[0]).toContain('certificate_not_renewed')
  expect(lines[0]).not.toContain('a secret sentence')
})

test('readiness and reasons that come and go are logged once each', async () => {
  const lines: string[] = []
  const states = [
    { ready: true, reasons: [] },
    { ready: false, reasons: ['disk_full: free some'] },
    { ready: false, reasons: ['disk_full: free some'] },
    { ready: true, reasons: ['history_stalled: look'] },
    { ready: true, reasons: [] },
    { ready: false, reasons: [] },
  ]
  let at = 0
  const log = openLog(
    (line) => void lines.push(line),
    () => 1,
  )
  const stop = watchStatus(() => states[Math.min(at++, 5)]!, log, 0)
  while (at < 9) await Bun.sleep(1)
  stop()
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { unix_ms: 1, level: 'warn', event: 'status_changed', code: 'not_ready', reason: 'disk_full: free some' },
    { unix_ms: 1, level: 'info', event: 'status_changed', code: 'ready', reason: 'history_stalled: look' },
    { unix_ms: 1, level: 'info', event: 'status_changed', code: 'ready', reason: '' },
    { unix_ms: 1, level: 'warn', event: 'status_changed', code: 'not_ready', reason: '' },
  ])
})

test('a certificate is looked at again and again, also after a renewal', async () => {
  const { rotated, parts } = renewal(0)
  const stop = rotating({ ...parts, source: { ...SELF_SIGNED, check_ms: 5 } })
  while (rotated.length < 4) await Bun.sleep(5)
  stop()
})
