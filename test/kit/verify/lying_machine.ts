/** Makes a site answer as another machine would: a forged event log and TD report, signed again by the site's own keys. */
import { fromAnyHex, fromHex, toHex } from '../../../protocol/bytes'
import {
  parseEventLog,
  RUNTIME_EVENT_TYPE,
  replayRegisters,
  runtimeDigest,
} from '../../../protocol/tdx/event_log'
import type { Attestation, Info } from '../../../protocol/wire/public'
import {
  issueAuthorities,
  signQuote,
  startQuotingEnclave,
  type TdFacts,
} from '../../../sandbox/enclave/authorities'
import { loadKeys } from '../../../sandbox/enclave/machine'
import { type Changes, signAnyQuote } from './sign_any_quote'
import type { Site } from './site'

export function quoteOfMachine(
  site: Pick<Site, 'machine'>,
  facts: Pick<TdFacts, 'registers' | 'report_data'>,
  changes: Changes = {},
): Uint8Array {
  const keys = loadKeys(site.machine.data_dir, new Uint8Array(32))
  const authorities = issueAuthorities(site.machine.data_dir, keys, Date.now())
  const compose_hash = fromHex(site.machine.agent.compose_hash, 32)!
  const stated = { ...facts, compose_hash, debug: false, out_of_date: false }
  const quote = signQuote(startQuotingEnclave(authorities, keys.pck), stated)
  const chain = [authorities.pck, authorities.platform_authority, authorities.root]
  return signAnyQuote(quote, { pck: keys.pck, chain }, changes)
}

export type Lie = {
  /** Events in the order of the registers, and as the host shows them. */
  log?: (honest: LoggedEvent[]) => { extended: LoggedEvent[]; shown: LoggedEvent[] }
  /** Of both quotes. */
  quote?: Changes
  attestation?: (attestation: Attestation) => void
  info?: Partial<Info>
}

/** MRCONFIGID of a machine that was started without one, or as given, in a TD report. */
export const mrConfigId =
  (value = new Uint8Array(48)) =>
  (body: Uint8Array): void =>
    body.set(value, 184)

/** The event log with one payload replaced, shown as it was extended. */
export const withClaim =
  (name: string, event_payload: string): NonNullable<Lie['log']> =>
  (honest) => {
    const changed = honest.map((event) => (event.event === name ? { ...event, event_payload } : event))
    return { extended: changed, shown: changed }
  }

/** Undone by `site.restore()`. */
export function lie(site: Site, change: Lie): void {
  const honest = new Map(site.answers)
  const { quote: changes = {}, log = (events) => ({ extended: events, shown: events }) } = change
  const sign = (event_log: string, report_data: string) => {
    const { extended, shown } = log(JSON.parse(event_log) as LoggedEvent[])
    const registers = replayRegisters(parseEventLog(JSON.stringify(extended)))
    const facts = { registers, report_data: fromHex(report_data, 64)! }
    return { quote: toHex(quoteOfMachine(site, facts, changes)), event_log: JSON.stringify(shown) }
  }
  site.answers.set('/attestation', async (nonce) => {
    const attestation = JSON.parse(await honest.get('/attestation')!(nonce)) as Attestation
    Object.assign(attestation, sign(attestation.event_log, attestation.report_data))
    change.attestation?.(attestation)
    return JSON.stringify(attestation)
  })
  site.answers.set('/evidences/quote.json', async () => {
    const file = JSON.parse(await honest.get('/evidences/quote.json')!(undefined)) as Attestation
    return JSON.stringify({ ...file, ...sign(file.event_log, file.report_data) })
  })
  site.answers.set('/info', async () =>
    JSON.stringify({ ...JSON.parse(await honest.get('/info')!(undefined)), ...change.info }),
  )
}

/**
 * Forges an event log: a machine booted with another manifest emits the claims of the pinned build after boot, and its host
 * shows the genuine boot events of register 3 under another type, with their genuine digests. Every register agrees.
 */

export type LoggedEvent = {
  imr: number
  event_type: number
  digest: string
  event: string
  event_payload: string
}

const CLAIMS = ['app-id', 'compose-hash', 'instance-id', 'key-provider', 'system-ready']
const EVIL_COMPOSE_HASH = 'ee'.repeat(32)

type ForgedLog = {
  /** The order in which the machine extended its registers: the quote agrees with it. */
  extended: LoggedEvent[]
  /** The form that the host shows: other types for the boot's events, the emitted claims as they are. */
  shown: LoggedEvent[]
}

/** @param honest log of a machine that runs the pinned build @param shown_type event type of the relabelled events */
export function forgeLog(honest: readonly LoggedEvent[], shown_type: number): ForgedLog {
  const boot = honest.map((event) =>
    event.event === 'compose-hash' ? { ...event, event_payload: EVIL_COMPOSE_HASH } : event,
  )
  const emitted = CLAIMS.map((name) => ({ ...honest.find(({ event }) => event === name)!, digest: '' }))
  const shown = boot.map((event) =>
    event.event_type === RUNTIME_EVENT_TYPE ? relabelled(event, shown_type) : event,
  )
  return { extended: [...boot, ...emitted], shown: [...shown, ...emitted] }
}

function relabelled({ event, event_payload }: LoggedEvent, event_type: number): LoggedEvent {
  const digest = toHex(runtimeDigest(event, fromAnyHex(event_payload)!))
  return { imr: 3, event_type, digest, event: '', event_payload: '' }
}
