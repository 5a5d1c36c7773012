/** Each change of the status is one line of the log. */
import { expect, test } from 'bun:test'
import { openLog } from '../../server/edge/log'
import { watchStatus } from '../../server/join_process'

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
