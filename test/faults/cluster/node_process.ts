/**
 * Child process: a venue over the shared log, without its listeners, as `openVenue` opens it; its parent calls it by messages.
 * Followers answer, too: with the hash of their state.
 */
import { openAccounts } from '../../../engine/accounts/open_accounts'
import { assemble, type Engine, type OpenAccounts } from '../../../engine/boot/assemble'
import { Follower, openNode, untilLeading } from '../../../engine/boot/follow'
import { type Loaded, loadState } from '../../../engine/boot/load_state'
import { start } from '../../../engine/boot/start'
import type { QuoteEpoch } from '../../../engine/chain/client/chain_client'
import type { EngineConfig } from '../../../engine/config'
import { LIMITS } from '../../../engine/limits'
import { stateHash } from '../../../engine/machine/codec/state_codec'
import { followingNode } from '../../../engine/methods/front'
import { venueOf } from '../../../engine/methods/venue_methods'
import type { LeaderPort } from '../../../engine/ports'
import type {
  FollowingNode,
  Lead,
  NodeVenue,
  Passed,
  PassedAnswer,
  Right,
  Venue,
} from '../../../engine/venue'
import { toHex } from '../../../protocol/bytes'
import { Refusal, type RefusalCode } from '../../../protocol/refusals'
import { type EmbeddedPlace, embeddedParts } from '../../kit/venue/embedded_site'
import { type JsonVenue, jsonVenue } from '../../kit/venue/json_venue'
import { accountId } from '../../kit/venue/test_login'

/** The first cluster keeps its log, the later ones have it removed. */
Object.assign(LIMITS, { log_kept_bytes: 1024 * 1024 })
/** Small: a node of a campaign starts often. */
const SEGMENT_BYTES = 2 * 1024 * 1024

type NodePlace = Omit<EmbeddedPlace, 'clock' | 'quoteEpoch'> & {
  data_dir: string
  cluster: NonNullable<EngineConfig['cluster']>
}
type Quoted = Awaited<ReturnType<QuoteEpoch>>
export type ToNode =
  | { op: 'open'; place: NodePlace }
  | { op: 'quoted'; id: number; quoted: Quoted }
  /** Of the leading node; undefined where none answers. */
  | { op: 'asked'; id: number; value?: unknown; code?: RefusalCode }
  | { op: 'call'; id: number; method: keyof NodeCalls; args: unknown[] }
export type FromNode =
  | { op: 'quote'; id: number; bound: Parameters<QuoteEpoch>[0] }
  /** Questions that a link carries to the leading node. */
  | { op: 'ask'; id: number; passed: Passed | undefined }
  | { op: 'answer'; id: number; value: unknown }
  | { op: 'refused'; id: number; code: string; applied: Refusal['applied'] }
  | { op: 'failed'; id: number; message: string }
  | { op: 'ready' }
  | { op: 'stage'; stage: 'opens' | 'follows' | 'term' | 'leads' }
  | { op: 'events'; account: string; events: { seq: number; text: string }[] }
  | { op: 'fatal'; name: string; message: string }

const send = (message: FromNode) => process.send!(message)
const quotes: ((quoted: Quoted) => void)[] = []
let step_ms = 0
let loaded: Loaded | undefined
let engine: Engine | undefined
let venue: JsonVenue | undefined
let following: FollowingNode | undefined
let fronted: NodeVenue | undefined
let front: JsonVenue | undefined
const ASK_MS = 250

function fatal(error: Error): void {
  send({ op: 'fatal', name: error.name, message: error.message })
  setImmediate(() => process.exit(1))
}

/** Rights are of LIMITS.right_ms, as on a link; the parent carries the questions. */
const asked: ((answer: Extract<ToNode, { op: 'asked' }>) => void)[] = []
class ParentLink implements LeaderPort {
  private newest: Right[] = []
  private answered: () => void = () => undefined

  readonly node = '0011223344556677.'
  handing = () => undefined
  arrived = () => undefined
  rights(): readonly Right[] {
    return venue === undefined ? this.newest : []
  }

  async ask(): Promise<Right> {
    const sent_ms = performance.now()
    const lead = (await this.answer(undefined)) as Lead
    const right = { ...lead, until_ms: sent_ms + Math.min(LIMITS.right_ms, lead.right_ms) }
    this.newest = [...this.newest.slice(-5), right]
    this.answered()
    return right
  }

  watch(on: { answered: () => void }): void {
    this.answered = on.answered
  }

  async pass(passed: Passed): Promise<PassedAnswer> {
    return (await this.answer(passed)) as PassedAnswer
  }

  async run(): Promise<void> {
    for (; venue === undefined; await Bun.sleep(ASK_MS)) await this.ask().catch(() => undefined)
  }

  private async answer(passed: Passed | undefined): Promise<unknown> {
    const { value, code } = await new Promise<Extract<ToNode, { op: 'asked' }>>((resolve) => {
      send({ op: 'ask', id: asked.push(resolve) - 1, passed })
    })
    if (code !== undefined) throw new Refusal(code)
    return value
  }
}

/** A client's requests at this node. @throws Refusal */
function serving(): JsonVenue {
  if (venue !== undefined) return venue
  if (following?.isShown() !== true) throw new Refusal('lease_lost')
  front ??= jsonVenue(fronted as Venue)
  return front
}

/** @throws Refusal while this node does not lead */
function leading(): JsonVenue {
  if (venue === undefined) throw new Refusal('matching_unavailable')
  return venue
}

const calls = {
  venue: async () => leading().identity().venue,
  provision: (account: string) => leading().provision({ account_id: account, version: 1 }),
  place: (...args: Parameters<JsonVenue['place']>) => serving().place(...args),
  cancel: (...args: Parameters<JsonVenue['cancel']>) => serving().cancel(...args),
  lead: () => leading().lead(),
  passed: (passed: Passed) =>
    leading().passed(
      passed,
      () => 0,
      () => false,
    ),
  /** As the edge reads: the text of an event of the account, by this node's replica, or by the leading node while it has the right. */
  read: async (account: string, seq: number) => {
    const one = serving()
    // Without it the edge rejects the reader's token; a node that is cut off leads until it notices.
    venue?.lead()
    await one.caughtUp(accountId(account))
    const { items } = JSON.parse(one.own.events(account, { after: seq - 1, limit: 1 })) as { items: object[] }
    if (items.length === 0) throw new Error(`no event ${seq}`)
    return JSON.stringify(items[0])
  },
  events: (...args: Parameters<JsonVenue['events']>) => leading().events(...args),
  usable: async (leaf: number) => {
    const { leaf_count } = leading().treeRoot()
    return leaf < leaf_count && (await leading().treeInclusion(leaf)).usable
  },
  follow: async (account: string, after: number) => {
    leading()
    const sink = {
      events: (list: readonly { event: { seq: number }; text: string }[]) => {
        send({ op: 'events', account, events: list.map(({ event, text }) => ({ seq: event.seq, text })) })
      },
      ended: () => undefined,
      bye: () => undefined,
    }
    const gap = () => fatal(new Error('a stream has a gap'))
    engine!.hub.subscribe({ account_id: accountId(account), access: 'trade' }, after, sink, gap)
  },
  /** Of a moment at which nothing is under way. */
  state: async () => {
    const { journal, state } = loaded!
    if (engine !== undefined) {
      const { sequencer } = engine
      do await sequencer.durable()
      while (sequencer.seq_durable !== sequencer.seq_executed)
    }
    const { seq, head } = journal.head()
    return { seq, head: toHex(head), hash: toHex(stateHash(state)), epoch: state.epoch }
  },
  status: async () => venue?.status().reasons.map(String) ?? [],
  step: async (ms: number) => {
    step_ms += ms
  },
  /** As a process stops on SIGTERM. */
  stop: async () => {
    await leading().drain()
    await leading().close()
  },
}
export type NodeCalls = typeof calls

async function answer({ id, method, args }: Extract<ToNode, { op: 'call' }>): Promise<void> {
  try {
    const call = calls[method] as (...args: unknown[]) => Promise<unknown>
    send({ op: 'answer', id, value: await call(...args) })
  } catch (error) {
    if (error instanceof Refusal) send({ op: 'refused', id, code: error.code, applied: error.applied })
    else send({ op: 'failed', id, message: String(error) })
  }
}

async function open({ data_dir, cluster, ...place }: NodePlace): Promise<void> {
  const quoteEpoch: QuoteEpoch = (bound) =>
    new Promise((resolve) => {
      send({ op: 'quote', id: quotes.push(resolve) - 1, bound })
    })
  const clock = { unixMs: () => Date.now() + step_ms, monotonicMs: () => performance.now() }
  const { config, ports } = await embeddedParts(data_dir, { ...place, clock, quoteEpoch }, { cluster })
  send({ op: 'stage', stage: 'opens' })
  const vault = await ports.chain.readConfig()
  const node = openNode(config, ports)!
  loaded = await loadState(config, ports, vault, { thread: node.thread, segment_bytes: SEGMENT_BYTES })
  send({ op: 'stage', stage: 'follows' })
  const { credential_key } = ports.keys
  const { token_ttl_s } = config
  const openBook: OpenAccounts = (book) => openAccounts({ credential_key, clock, token_ttl_s, book })
  const follower = new Follower(node, loaded, config, ports, vault, openBook)
  const link = new ParentLink()
  following = followingNode(node, follower, config, { chain: ports.chain, clock }, [
    vault,
    await ports.chain.readMints(),
  ])
  fronted = following.front(link)
  void link.run()
  const led = await untilLeading(follower, fatal)
  send({ op: 'stage', stage: 'term' })
  const first = { config: led.vault, mints: led.mints }
  engine = assemble(config, { ...ports, fatal, node }, loaded, first, openBook, led.views)
  await start(engine, led.vault)
  venue = jsonVenue(venueOf(engine))
  void fronted?.close()
  send({ op: 'stage', stage: 'leads' })
}

process.on('uncaughtException', fatal)
process.on('unhandledRejection', (error) => fatal(error as Error))
process.on('disconnect', () => process.exit(1))
process.on('message', (message: ToNode) => {
  if (message.op === 'call') void answer(message)
  else if (message.op === 'asked') asked[message.id]!(message)
  else if (message.op === 'quoted') quotes[message.id]!(message.quoted)
  else open(message.place).catch(fatal)
})
send({ op: 'ready' })
