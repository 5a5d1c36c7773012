/** Serves a node of a cluster to its operator and to the other nodes, from before it follows until it ends. */

import type { Enclave } from '../../enclave/contract'
import { LIMITS } from '../../engine/limits'
import type { ChainPort, ClockPort, Fronts } from '../../engine/ports'
import type { FollowingNode, NodeVenue, Venue } from '../../engine/venue'
import { fromHex } from '../../protocol/bytes'
import type { App, AppOptions } from '../edge/app'
import type { Log } from '../edge/log'
import { LINK_STREAM_BYTES_MAX, STOP_GRACE_MS, STOP_OPENING_MS } from '../limits'
import type { NodeCalls, operatorApp } from '../operator/operator'
import { judgePeer, type SelfCheckTerms } from '../self_check'
import type { Config } from '../settings/config'
import { type Listener, listen, rotating, SELF_SIGNED } from '../tls/listen'
import { LinkAnswers, type LinkParts } from './answer_links'
import { LeaderLink } from './leader_link'
import { PassedOn } from './passed_on'
import { answerOf, questionOf, requestOf, responseOf } from './questions'

type OperatorTerms = Pick<Parameters<typeof operatorApp>[0], 'venue' | 'app' | 'node' | 'pass' | 'stream'>
export type OperatorOf = (terms: OperatorTerms, venue: Uint8Array) => Pick<App, 'fetch'>
export type AppOf = (venue: NodeVenue, of_node: Pick<AppOptions, 'node' | 'leader'>) => App

type NodeParts = {
  parts: { clock: ClockPort; config: Config; log: Log; self_check: SelfCheckTerms }
  enclave: Enclave
  operatorOf: OperatorOf
  appOf: AppOf
  node: FollowingNode
  chain: ChainPort
}
export type OpenNode = {
  readonly fronts: Fronts
  /** From here on the venue answers, on the same listeners. */
  lead(venue: Venue): { app: App; operator: Listener; listener: Listener | undefined }
  /**
   * At a planned end, a node that follows takes nothing new, answers requests under way, disarms its sockets and says `bye`
   * first.
   */
  stop(grace_ms: number, is_planned?: boolean): Promise<void>
}

export function openNode({ parts, enclave, operatorOf, appOf, node, chain }: NodeParts): OpenNode {
  const { clock, config, log, self_check: terms } = parts
  const venue_id = fromHex(node.venue, 32)!
  const judge: LinkParts['judge'] = async (evidence) => {
    const { announced } = await chain.readConfig('confirmed')
    await judgePeer({ terms, announced, now_ms: chain.view().unix_ms }, evidence)
  }
  const shared = { enclave, clock, venue: venue_id, judge }
  const link = new LeaderLink({ ...shared, log }, node.leaderUrl, node.applied)
  const front = node.front(link)
  let serves: NodeVenue = front
  const venue = switched(() => serves)
  const answers: LinkAnswers = new LinkAnswers(shared, async ({ call, attest }) => {
    const lead = { ...serves.lead(), nodes: answers.count() }
    if (attest === undefined)
      return call === undefined ? lead : answerOf(await serving.fetch(requestOf(call)))
    return app.leader(attest || undefined)
  })
  const passed_on = new PassedOn(answers, () => serves)
  enclave.follow({ venue: venue_id, slot: () => chain.view().slot })
  if (config.engine.cluster?.url) void link.run()
  const calls = callsOf(answers, () =>
    serves === front ? followingStatus(node, link) : leadingStatus(serves),
  )
  const pass = async (request: Request, body: Uint8Array) =>
    responseOf(await link.call(questionOf(request, body)))
  const leader = () => (serves === front ? (nonce?: string) => link.attested(nonce) : undefined)
  const app = appOf(venue, { node: link.node, leader })
  const of_node = { venue, app, node: calls, stream: () => passed_on.socket() }
  let serving = operatorOf({ ...of_node, pass }, venue_id)
  const operator = listen(
    { fetch: (request, server) => serving.fetch(request, server) },
    { ...config.operator_listen, tls: enclave.tls, frame_bytes_max: LINK_STREAM_BYTES_MAX },
  )
  // A public certificate is obtained by the node that leads, on the port of clients.
  const listeners = [operator]
  const stopRotating = rotating({ enclave, listeners, clock, log, source: SELF_SIGNED })
  let listener: Listener | undefined
  /** Clients are served once the chain has shown the author of the journal, and the leading node has answered. */
  const answered = () => {
    if (listener !== undefined || !node.isShown()) return
    listener = listen(app, { ...config.listen, tls: enclave.tls })
    listeners.push(listener)
    log.write('info', 'fronting', { port: listener.port })
  }
  link.watch({ answered })
  const end = () => {
    link.stop()
    stopRotating()
  }
  return {
    fronts: answers,
    lead(led) {
      end()
      serves = led
      void front.close()
      serving = operatorOf(of_node, venue_id)
      return { app, operator, listener }
    },
    async stop(grace_ms, is_planned = false) {
      const drained = is_planned ? drainFront(front, app, grace_ms) : undefined
      await Promise.all([drained, ...listeners.map((one) => one.stop(grace_ms))])
      // Requests under way were answered over the link.
      end()
      passed_on.stop()
      app.close()
    },
  }
}

/**
 * Ends a node as planned. A node with a term gives it away once it serves, unless its chain providers hang: its process ends
 * with its beat then.
 */
export async function endNode(
  node: Pick<FollowingNode, 'leave'>,
  own: Pick<OpenNode, 'stop'>,
  led: Promise<{ stop(): Promise<void> }>,
  longest_ms = STOP_OPENING_MS,
): Promise<void> {
  const serving = node.leave() ? undefined : await Promise.race([led, Bun.sleep(longest_ms)])
  await (serving === undefined ? own.stop(STOP_GRACE_MS, true) : serving.stop())
}

async function drainFront(front: NodeVenue, { log, sockets }: App, grace_ms: number): Promise<void> {
  log.write('info', 'draining', { sockets: sockets.count() })
  await Promise.race([front.drain(), Bun.sleep(grace_ms / 2)])
  sockets.byeAll('upgrade', LIMITS.handover_retry_after_ms)
}

function callsOf(answers: LinkAnswers, status: () => object): NodeCalls {
  return new Map<string, (body: Uint8Array) => object | Promise<object>>([
    ['GET /system/status', status],
    ['POST /links/offer', () => answers.offer()],
    ['POST /links/open', (body) => answers.open(body)],
    ['POST /links/frame', (body) => answers.frame(body)],
  ])
}

const leadingStatus = (venue: NodeVenue) => ({ ...venue.status(), ...venue.versions(), role: 'leading' })

/** Sockets and routes keep their venue while the node that followed leads. */
function switched(now: () => NodeVenue): NodeVenue {
  return new Proxy({} as NodeVenue, { get: (_, name) => now()[name as keyof NodeVenue] })
}

/** `right`: the leading node's answer within LINK_RIGHT_MS; null without a link to one that leads. */
function followingStatus(node: FollowingNode, link: LeaderLink): object {
  const { records, age_ms } = node.lag()
  const { epoch, seq } = link.current() ?? {}
  const right = epoch === undefined ? null : { epoch, seq }
  const log_age_ms = Number.isFinite(age_ms) ? Math.floor(age_ms) : null
  return { ...node.status(), ...node.versions(), role: 'following', lag_records: records, log_age_ms, right }
}
