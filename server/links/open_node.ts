/** Serves a node of a cluster to its operator and to the other nodes, from before it follows until it ends. */

import type { Enclave } from '../../enclave/contract'
import type { ChainPort, ClockPort } from '../../engine/ports'
import type { FollowingNode, Venue } from '../../engine/venue'
import { fromHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { App } from '../edge/app'
import type { Log } from '../edge/log'
import { openMeters } from '../edge/meters'
import { openBucket } from '../edge/rate'
import { QUOTE_RATES } from '../limits'
import type { NodeCalls, operatorApp } from '../operator/operator'
import { judgePeer, type SelfCheckTerms } from '../self_check'
import type { Config } from '../settings/config'
import { type Listener, listen, rotating, SELF_SIGNED } from '../tls/listen'
import { LinkAnswers, type LinkParts } from './answer_links'
import { LeaderLink } from './leader_link'
import { answerOf, questionOf, requestOf, responseOf } from './questions'

type OperatorTerms = Pick<Parameters<typeof operatorApp>[0], 'venue' | 'app' | 'node' | 'pass'>
export type OperatorOf = (terms: OperatorTerms, venue: Uint8Array) => Pick<App, 'fetch'>

type NodeParts = {
  parts: { clock: ClockPort; config: Config; log: Log; self_check: SelfCheckTerms }
  enclave: Enclave
  operatorOf: OperatorOf
  node: FollowingNode
  chain: ChainPort
}
export type OpenNode = {
  /** From here on the venue answers. */
  lead(venue: Venue, app: App): Listener
  stop(grace_ms: number): Promise<void>
}

/** Nothing of a node that follows needs the venue: what does is passed on to the leading one. */
const NO_VENUE = new Proxy({} as Venue, {
  get() {
    throw new Refusal('lease_lost')
  },
})

export function openNode({ parts, enclave, operatorOf, node, chain }: NodeParts): OpenNode {
  const { clock, config, log, self_check: terms } = parts
  const venue_id = fromHex(node.venue, 32)!
  const judge: LinkParts['judge'] = async (evidence) => {
    const { announced } = await chain.readConfig('confirmed')
    await judgePeer({ terms, announced, now_ms: chain.view().unix_ms }, evidence)
  }
  const shared = { enclave, clock, venue: venue_id, judge }
  let leading: { venue: Venue; app: App } | undefined
  const quotes = openBucket({ ...QUOTE_RATES.links, code: 'quote_busy' }, clock)
  const answers = new LinkAnswers(shared, async ({ call, attest }) => {
    const { venue, app } = leading ?? { venue: NO_VENUE }
    const lead = venue.lead()
    if (attest === undefined)
      return call === undefined ? lead : answerOf(await serving.fetch(requestOf(call)))
    if (attest !== '') quotes.take(1)
    return app!.leader(attest || undefined)
  })
  const link = new LeaderLink({ ...shared, log }, node.leaderUrl)
  enclave.follow({ venue: venue_id, slot: () => chain.view().slot })
  if (config.engine.cluster?.url) void link.run()
  const calls: NodeCalls = new Map<string, (body: Uint8Array) => object | Promise<object>>([
    [
      'GET /system/status',
      () => (leading === undefined ? followingStatus(node, link) : leadingStatus(leading.venue)),
    ],
    ['POST /links/offer', () => answers.offer()],
    ['POST /links/open', (body) => answers.open(body)],
    ['POST /links/frame', (body) => answers.frame(body)],
  ])
  const pass = async (request: Request, body: Uint8Array) =>
    responseOf(await link.pass(questionOf(request, body)))
  let serving = operatorOf({ venue: NO_VENUE, app: { meters: openMeters() }, node: calls, pass }, venue_id)
  const operator = listen(
    { fetch: (request) => serving.fetch(request) },
    { ...config.operator_listen, tls: enclave.tls },
  )
  // A public certificate is obtained by the node that leads, on the port of clients.
  const stopRotating = rotating({ enclave, listeners: [operator], clock, log, source: SELF_SIGNED })
  const end = () => {
    link.stop()
    stopRotating()
  }
  return {
    lead(venue, app) {
      end()
      leading = { venue, app }
      serving = operatorOf({ venue, app, node: calls }, venue_id)
      return operator
    },
    stop(grace_ms) {
      end()
      return operator.stop(grace_ms)
    },
  }
}

const leadingStatus = (venue: Venue) => ({ ...venue.status(), ...venue.versions(), role: 'leading' })

/** `right`: what the leading node answered within LINK_RIGHT_MS; null without a link to one that leads. */
function followingStatus(node: FollowingNode, link: LeaderLink): object {
  const { records, age_ms } = node.lag()
  const { epoch, seq } = link.current() ?? {}
  const right = epoch === undefined ? null : { epoch, seq }
  const log_age_ms = Number.isFinite(age_ms) ? Math.floor(age_ms) : null
  return { ...node.status(), ...node.versions(), role: 'following', lag_records: records, log_age_ms, right }
}
