/** The boot self-check: every register and claim that may not differ. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type AgentInfo, type AgentQuote, getInfo, getQuote } from '../../enclave/agent'
import { selfCheck } from '../../enclave/self_check'
import { utf8 } from '../../protocol/bytes'
import { attestationReportData } from '../../protocol/tdx/report_data'
import { forgeLog } from '../kit/verify/forged_log'
import { type Machine, openMachine } from './machine'

const KEY = new Uint8Array(32).fill(3)
let machine: Machine
let own: AgentQuote
let info: AgentInfo
beforeAll(async () => {
  machine = await openMachine()
  own = await getQuote(machine.agent.socket, attestationReportData(new Uint8Array(32), KEY), 5_000)
  info = await getInfo(machine.agent.socket, 5_000)
})
afterAll(() => machine.close())

type Event = { imr: number; event: string; digest: string; event_payload: string }
const withLog = (change: (log: Event[]) => void): AgentQuote => {
  const log = JSON.parse(own.event_log)
  change(log)
  return { ...own, event_log: JSON.stringify(log) }
}

test('an honest machine gives no reason', () => {
  expect(selfCheck(own, info, KEY)).toEqual([])
})

test.each([0, 1, 2, 3])('a changed event of register %d is seen', (imr) => {
  const changed = withLog((log) => {
    const event = log.find((one) => one.imr === imr && (imr < 3 || one.event === 'storage-fs'))!
    if (imr < 3) event.digest = 'ab'.repeat(48)
    else event.event_payload = '00'
  })
  expect(selfCheck(changed, info, KEY)).toEqual([`the event log does not replay to RTMR${imr}`])
})

test('a log without its claims is seen', () => {
  const changed = withLog((log) => log.pop())
  expect(selfCheck(changed, info, KEY)).toEqual(['system-ready occurs 0 times'])
})

test('relabelled boot events are seen, whatever they replay to', () => {
  const { shown } = forgeLog(JSON.parse(own.event_log), 1)
  const changed = { ...own, event_log: JSON.stringify(shown) }
  expect(selfCheck(changed, info, KEY)).toEqual(['event 9: register 3 has an event of another type'])
})

test('another key, app id, instance or manifest is seen', () => {
  expect(selfCheck(own, info, new Uint8Array(32))).toEqual(['report_data does not bind tee_pubkey'])
  const other = '44'.repeat(20)
  expect(selfCheck(own, { ...info, app_id: other }, KEY)).toEqual(['another app id was measured'])
  expect(selfCheck(own, { ...info, instance_id: other }, KEY)).toEqual(['another instance id was measured'])
  expect(selfCheck(own, { ...info, app_compose: utf8('{}') }, KEY)).toEqual([
    'the compose hash is not the hash of the manifest',
    'another manifest was measured',
  ])
})
