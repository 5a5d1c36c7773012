/** Log lines hold only what is allowed, each change of the status is one; certificates are renewed in time. */

import { expect, test } from 'bun:test'
import type { TlsMaterial } from '../../enclave/contract'
import { LogRolledBack } from '../../engine/cluster/replicated_log'
import { openLog } from '../../server/edge/log'
import { placeOf } from '../../server/edge/problem'
import { watchStatus } from '../../server/join_process'
import { RENEW_BEFORE_MS } from '../../server/limits'
import { renewIfDue, SELF_SIGNED } from '../../server/tls/listen'
import { StandingClock } from '../kit/server/harness'

test('fields beyond the list are dropped, whatever the caller passes', () => {
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
  return {
    lines,
    rotated,
    run: () => renewIfDue({ enclave, listeners: [listener, listener], clock, log, source: SELF_SIGNED }),
  }
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
