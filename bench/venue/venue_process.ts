/** Runs the venue under load as a child process: real engine, journal, read models, routes and TLS on a quiet chain. */

import { challengeCertificate, openEnclave } from '../../enclave/index'
import type { EngineConfig } from '../../engine/config'
import { openStandInAgent } from '../../sandbox/enclave/agent'
import { createApp } from '../../server/edge/app'
import { openLog } from '../../server/edge/log'
import { type Listener, listen } from '../../server/tls/listen'
import { DEFAULT_LIMITS } from '../../tools/account/call_operator'
import { answerQuestions } from '../kit/child_process'
import { type RawFacts, RawTopics, type RawWave } from '../kit/raw_server'
import { named } from './bench_config'
import { eventsOfOne, fundNotes, waveOfEvents } from './fund_notes'
import { type LoopGauge, openLoopGauge, type Pauses, type ThreadTimes, threadTimes } from './gauges'
import { type BenchEngine, clock, openEngine, provisionAccount, provisionAccounts } from './open_engine'

type VenueStart = {
  dir: string
  notes: number
  two_sided?: boolean
  through_tree?: boolean
  slot_ms?: number
  cluster?: EngineConfig['cluster']
}
export type VenueFacts = { port: number; certificate: string; venue: string; tokens: string[]; slot: number }
export type VenueUsage = {
  cpu_ms: number
  /** Undefined if the system does not report it. */
  threads: ThreadTimes | undefined
  rss_bytes: number
  /** Undefined unless the loop is being measured. */
  pauses: Pauses | undefined
  commands: number
  groups: number
  batches_hashed: number
}

let open: BenchEngine | undefined
let listener: Listener | undefined
let topics: RawTopics | undefined
let gauge: LoopGauge | undefined

answerQuestions({
  async start(options: VenueStart): Promise<VenueFacts> {
    open = await openEngine(options.dir, options.slot_ms, options.cluster && { cluster: options.cluster })
    const { venue, chain } = open
    // Less than all that the venue may have: a neighbour may join.
    const credentials = await provisionAccounts(venue, 100_000)
    await fundNotes(open, options.notes, options)
    const tokens: string[] = []
    for (const one of credentials) tokens.push((await venue.login(one)).access_token)
    const agent = await openStandInAgent({ data_dir: `${options.dir}/stand-in`, app_compose: '{}' })
    const enclave = await openEnclave({
      kind: 'development',
      agent: { socket: agent.socket },
      tls: { names: [] },
    })
    const log = openLog((line) => void process.stdout.write(line), clock.unixMs)
    const app = createApp({ venue, enclave, options: { version: '0.1.0', clock, log } })
    listener = listen(app, { hostname: '127.0.0.1', port: 0, tls: enclave.tls })
    const { port } = listener
    const { cert_pem: certificate } = enclave.tls
    return { port, certificate, venue: venue.identity().venue, tokens, slot: chain.view().slot }
  },
  /** From here on every connection passes through the front of a TLS-ALPN-01 challenge. */
  async openChallenge() {
    await listener!.answerChallenge(challengeCertificate('venue.example.org', 'token.thumbprint', Date.now()))
  },
  /** Admits one more account, with the limits of everyone, and gives it `events` events; returns its token. */
  async neighbour({ leaf, events }: { leaf: number; events: number }): Promise<string> {
    const login = await provisionAccount(open!.venue, named('neighbour'), DEFAULT_LIMITS)
    const { access_token } = await open!.venue.login(login)
    await eventsOfOne(open!, named('neighbour'), leaf, events)
    return access_token
  },
  /** Serves bare topics in the venue's process. */
  startTopics(): RawFacts {
    topics = new RawTopics()
    return topics.facts
  },
  /** Events of all accounts for the fan-out bench; `raw` is published after each wave. */
  async waves({ waves, per_wave, raw }: { waves: number; per_wave: number; raw?: RawWave }) {
    for (let wave = 0; wave < waves; wave++) {
      await waveOfEvents(open!, per_wave)
      if (raw !== undefined) topics!.publish(raw)
    }
  },
  /** Starts measuring the loop; optional, because a timer of 1 ms costs 4 % of a core. */
  feelLoop() {
    gauge ??= openLoopGauge()
  },
  /** Totals of the process; the pause is the worst since the last call. */
  usage(): VenueUsage {
    const metrics = new Map(open!.venue.metrics().map((one) => [one.name, one.value]))
    const { user, system } = process.cpuUsage()
    return {
      cpu_ms: (user + system) / 1_000,
      threads: threadTimes(),
      rss_bytes: process.memoryUsage.rss(),
      pauses: gauge?.takeWorst(),
      commands: metrics.get('tacit_commands_total') ?? 0,
      groups: metrics.get('tacit_journal_groups_total') ?? 0,
      batches_hashed: metrics.get('tacit_batches_hashed') ?? 0,
    }
  },
})
