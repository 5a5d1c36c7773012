/** Machines that measured something else: the registers agree with the log, so only the log's content shows it. */

import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { EvidenceBundle } from '../../../client/verify/evidence_bundle'
import { judgeEvidence } from '../../../client/verify/judge_evidence'
import type { VerificationPolicy } from '../../../client/verify/policy'
import type { SkipReason } from '../../../client/verify/skip_reasons'
import type { Check, CheckName } from '../../../client/verify/transcript'
import { fromAnyHex, fromHex, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { parseEventLog, RUNTIME_EVENT_TYPE, replayRegisters } from '../../../protocol/tdx/event_log'
import { parseQuote } from '../../../protocol/tdx/quote'
import { changedPolicy } from '../../kit/verify/changed_policy'
import { FILLED_COMPOSE, manifestOf } from '../../kit/verify/filled_manifest'
import { forgeLog } from '../../kit/verify/forged_log'
import { quoteOfMachine } from '../../kit/verify/lying_machine'
import { openSite, type Site } from '../../kit/verify/site'

type Logged = { imr: number; event_type: number; digest: string; event: string; event_payload: string }

let site: Site
let honest: EvidenceBundle
beforeAll(async () => {
  site = await openSite()
  honest = (await site.connect()).evidence
})
afterAll(() => site.close())

const runtime = (event: string, payload: Uint8Array): Logged => ({
  imr: 3,
  event_type: RUNTIME_EVENT_TYPE,
  digest: '',
  event,
  event_payload: toHex(payload),
})

/** The honest evidence with another event log and a genuine quote over exactly that log. */
function measuredAs(change: (events: Logged[]) => void, mr_config_id?: Uint8Array): EvidenceBundle {
  const events = JSON.parse(honest.attestation.event_log) as Logged[]
  change(events)
  const event_log = JSON.stringify(events)
  const registers = replayRegisters(parseEventLog(event_log))
  const report_data = fromHex(honest.attestation.report_data, 64)!
  const body = (report: Uint8Array) => mr_config_id && report.set(mr_config_id, 184)
  const quote = quoteOfMachine(site, { registers, report_data }, { body })
  return { ...honest, attestation: { ...honest.attestation, event_log, quote: toHex(quote) } }
}

async function checkOf(
  name: CheckName,
  bundle: EvidenceBundle,
  change: Partial<VerificationPolicy> = {},
): Promise<Check> {
  const { checks } = await judgeEvidence(bundle, changedPolicy(site.policy, change), 'recorded')
  return checks.find((check) => check.name === name)!
}

test('the same log under a quote of its own passes', async () => {
  const bundle = measuredAs(() => {})
  for (const name of ['registers', 'claims', 'mr_config_id', 'compose_hash', 'evidence'] as const)
    expect((await checkOf(name, bundle)).result).toBe('pass')
})

describe('claims', () => {
  const other = new Uint8Array(32).fill(8)
  const find = (events: Logged[], name: string) => events.findIndex((event) => event.event === name)
  const cases: Record<string, [change: (events: Logged[]) => void, reason: string]> = {
    'a second manifest after the machine was ready': [
      (events) => events.push(runtime('compose-hash', other)),
      'compose-hash occurs 2 times',
    ],
    'a second manifest before it': [
      (events) => events.splice(find(events, 'compose-hash'), 0, runtime('compose-hash', other)),
      'compose-hash occurs 2 times',
    ],
    'a manifest only after the machine was ready': [
      (events) => events.push(...events.splice(find(events, 'compose-hash'), 1)),
      'compose-hash follows system-ready',
    ],
    'no manifest': [
      (events) => events.splice(find(events, 'compose-hash'), 1),
      'compose-hash occurs 0 times',
    ],
    'a machine that never was ready': [
      (events) => events.splice(find(events, 'system-ready'), 1),
      'system-ready occurs 0 times',
    ],
    'a machine that was ready twice': [
      (events) => events.push(runtime('system-ready', new Uint8Array())),
      'system-ready occurs 2 times',
    ],
    'a second app': [(events) => events.push(runtime('app-id', new Uint8Array(20))), 'app-id occurs 2 times'],
    'a manifest hash of another width': [
      (events) => Object.assign(events[find(events, 'compose-hash')]!, { event_payload: '00' }),
      'compose-hash has another width',
    ],
  }
  for (const [name, [change, reason]] of Object.entries(cases))
    test(`${name} is refused, though the registers agree`, async () => {
      const bundle = measuredAs(change)
      expect((await checkOf('registers', bundle)).result).toBe('pass')
      expect(await checkOf('claims', bundle)).toMatchObject({ result: 'fail', reason })
      expect((await checkOf('compose_hash', bundle)).result).toBe('skipped')
    })
  test('what the application measures of itself after it was ready changes nothing', async () => {
    const bundle = measuredAs((events) => events.push(runtime('my-event', other)))
    expect((await checkOf('claims', bundle)).result).toBe('pass')
  })
})

describe('relabelled boot events', () => {
  /** A machine of another build that emits the pinned build's claims after boot; every register agrees. */
  function relabelled(type: number): EvidenceBundle {
    const { extended, shown } = forgeLog(JSON.parse(honest.attestation.event_log), type)
    const bundle = measuredAs((events) => events.splice(0, events.length, ...extended), new Uint8Array(48))
    return { ...bundle, attestation: { ...bundle.attestation, event_log: JSON.stringify(shown) } }
  }
  test('the checks of the event log refuse them, and nothing is read from the log', async () => {
    for (const type of [0, 1, 0x8000_0007]) {
      const reason = 'event 9: register 3 has an event of another type'
      expect(await checkOf('registers', relabelled(type))).toMatchObject({ result: 'fail', reason })
      for (const name of ['claims', 'mr_config_id', 'compose_hash', 'binding'] as const)
        expect((await checkOf(name, relabelled(type))).result).toBe('skipped')
    }
  })
  test('a page, which sees no TLS key, refuses them too, and no permitted skip helps', async () => {
    const hidden: SkipReason[] = ['mr_config_id_absent', 'tls_key_hidden']
    const permitted_skips = [...site.policy.permitted_skips, ...hidden]
    const bundle = { ...relabelled(1), spki_sha256: null }
    const policy = changedPolicy(site.policy, { permitted_skips })
    expect((await judgeEvidence(bundle, policy, 'live')).verdict).toBe('failed')
  })
})

describe('MRCONFIGID', () => {
  const judged = (value: Uint8Array) =>
    checkOf(
      'mr_config_id',
      measuredAs(() => {}, value),
    )
  test('another manifest in it is refused', async () => {
    const value = new Uint8Array(48).fill(8, 1, 33)
    value[0] = 1
    expect(await judged(value)).toMatchObject({
      result: 'fail',
      reason: expect.stringMatching(/other facts/),
    })
  })
  test('none is skipped, never passed', async () => {
    expect((await judged(new Uint8Array(48))).result).toBe('skipped')
  })
  test('an unknown form, or padding that is not zero, fails and is no skip', async () => {
    const padded = new Uint8Array(48)
    padded[0] = 1
    padded.set(fromAnyHex(site.machine.agent.compose_hash)!, 1)
    expect((await judged(padded)).result).toBe('pass')
    const values = [new Uint8Array(48).fill(2), padded.with(47, 1), padded.with(33, 1)]
    for (const form of [0, 4, 255]) values.push(padded.with(0, form))
    for (const value of values)
      expect(await judged(value)).toMatchObject({
        result: 'fail',
        reason: expect.stringMatching(/unknown form/),
      })
  })
  test('the forms that hash facts outside the quote fail when the facts are others', async () => {
    for (const form of [2, 3]) {
      const value = new Uint8Array(48).fill(8, 1, 33)
      value[0] = form
      expect(await judged(value)).toMatchObject({
        result: 'fail',
        reason: expect.stringMatching(/other facts/),
      })
    }
  })
})

describe('the manifest text', () => {
  const SECRETS = { environment_names: ['TACIT_FEE_ANCHOR'] }
  const text = manifestOf(FILLED_COMPOSE)
  const measured = (manifest: string) =>
    measuredAs((events) => {
      const at = events.findIndex((event) => event.event === 'compose-hash')
      events[at] = runtime('compose-hash', sha256(utf8(manifest)))
    })
  test('the measured, clean text passes', async () => {
    expect((await checkOf('manifest', { ...measured(text), app_compose: text }, SECRETS)).result).toBe('pass')
  })
  test('a text that was not measured, or hides something, is refused', async () => {
    const other = { ...measured(text), app_compose: `${text} ` }
    expect((await checkOf('manifest', other)).reason).toMatch(/not the measured one/)
    const loud = manifestOf(FILLED_COMPOSE, { public_logs: true })
    const judged = await checkOf('manifest', { ...measured(loud), app_compose: loud }, SECRETS)
    expect(judged.reason).toBe('public_logs: must be false')
  })
})

describe('the key provider', () => {
  const provider = { name: 'kms', id: '00' }
  const under = (measured: object) =>
    measuredAs((events) => {
      const at = events.findIndex((event) => event.event === 'key-provider')
      events[at] = runtime('key-provider', utf8(JSON.stringify(measured)))
    })
  const kms = { rpc_url: 'http://127.0.0.1:1' }
  const pins = () => ({ kms, app_ids: [honest.info.app_id], key_providers: [provider] })
  test('a KMS without a contract to ask is skipped for its reason, other keys for theirs', async () => {
    expect((await checkOf('kms', under(provider))).reason_code).toBe('kms_without_contract')
    expect((await checkOf('kms', honest)).reason_code).toBe('keys_without_kms')
  })
  test('a contract that allows the manifest passes; one that does not, or cannot be read, is refused', async () => {
    const judged = (kms_allowed: boolean | null) =>
      checkOf('kms', { ...under(provider), kms_allowed }, pins())
    expect((await judged(true)).result).toBe('pass')
    expect((await judged(false)).reason).toMatch(/does not allow/)
    expect((await judged(null)).reason).toMatch(/could not be read/)
  })
  test('the owner is one that the policy pins, and its delay is known and long enough', async () => {
    const owner = `0x${'0a'.repeat(20)}`
    const judged = (kms_contract: EvidenceBundle['kms_contract'], change: object = {}) =>
      checkOf('kms_owner', { ...under(provider), kms_contract }, { ...pins(), kms: { ...owned, ...change } })
    const owned = { ...kms, owners: [`0x${'0b'.repeat(20)}`, owner.toUpperCase().replace('X', 'x')] }
    expect((await judged({ owner, min_delay_s: null })).values).toEqual({ owner })
    for (const other of ['', '0x', owner.slice(2), `0x${'0a'.repeat(19)}0b`, `0x${'0A'.repeat(20)}`])
      expect((await judged({ owner: other, min_delay_s: null })).reason).toBe(
        `${other} owns the KMS contract`,
      )
    expect((await judged(null)).reason).toMatch(/could not be read/)
    const lock = { timelock_min_s: 60 }
    expect((await judged({ owner, min_delay_s: 60 }, lock)).result).toBe('pass')
    expect((await judged({ owner, min_delay_s: 59 }, lock)).reason).toMatch(
      /waits 59 s, the policy asks for 60 s/,
    )
    expect((await judged({ owner, min_delay_s: null }, lock)).reason).toMatch(/is no timelock/)
    const absent = await judged({ owner, min_delay_s: null }, { owners: undefined })
    expect(absent.reason_code).toBe('kms_owner_unpinned')
  })
  test('a machine that states another provider fails, also when the policy pins that one too', async () => {
    for (const other of [
      { name: 'kms', id: '01' },
      { name: 'local-sgx', id: '00' },
      { name: 'none', id: '' },
    ]) {
      const bundle = { ...under(other), kms_allowed: true }
      expect(await checkOf('key_provider', bundle, pins())).toMatchObject({ result: 'fail' })
      expect(await checkOf('kms', bundle, pins())).toMatchObject({ result: 'skipped', reason_code: '' })
    }
    const local = { name: 'local-sgx', id: '00' }
    const both = { ...pins(), key_providers: [provider, local] }
    const judged = await checkOf('kms', { ...under(local), kms_allowed: true }, both)
    expect(judged).toMatchObject({ result: 'fail', reason: expect.stringMatching(/come from local-sgx/) })
  })
  test('a provider that is not a name and an id fails', async () => {
    for (const odd of [[], {}, { name: 'kms' }, { name: 'kms', id: '00', more: 1 }])
      expect(await checkOf('key_provider', under(odd))).toMatchObject({ result: 'fail' })
  })
})

test('registers that the policy pins stand for their operating system', async () => {
  const { rtmr, mr_td } = parseQuote(fromAnyHex(honest.attestation.quote)!).report
  const [mrtd, rtmr0, rtmr1, rtmr2] = [mr_td, ...rtmr].map(toHex) as [string, string, string, string]
  const tuple = { mrtd, rtmr0, rtmr1, rtmr2 }
  expect((await checkOf('os_image', honest, { registers: [tuple] })).values['by']).toBe('pinned registers')
  for (const name of ['mrtd', 'rtmr0', 'rtmr1', 'rtmr2'] as const) {
    const other = { ...tuple, [name]: '00'.repeat(48) }
    expect((await checkOf('os_image', honest, { registers: [other] })).result).toBe('fail')
  }
  const by_hash = await checkOf('os_image', honest, { os_image_hashes: ['00'.repeat(32)] })
  expect(by_hash.reason).toMatch(/does not describe its image/)
})
