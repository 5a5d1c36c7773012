/** Keeps a link from a node that follows to the leading one, and asks there for the right to answer. */

import type { LeaderPort } from '../../engine/ports'
import type { Passed, PassedAnswer, Right } from '../../engine/venue'
import { askBounded } from '../../protocol/ask_bounded'
import { fromHex, toHex, utf8 } from '../../protocol/bytes'
import { NOT_LEADING, REFUSAL_BY_CODE, Refusal, type RefusalCode } from '../../protocol/refusals'
import { Leader } from '../../protocol/wire/public'
import { exact, parserOf } from '../../protocol/wire/values'
import { nodeName } from '../edge/app'
import { parseJson, textOf } from '../edge/body'
import type { Log } from '../edge/log'
import { type Shared, SharedQuotes, withPath } from '../edge/shared_quotes'
import {
  LEADER_QUOTE_LATE_MS,
  LINK_ANSWER_BYTES_MAX,
  LINK_ASK_MS,
  LINK_CALL_MS,
  LINK_HANDOVER_MS,
  LINK_OPEN_MS,
  LINK_QUESTIONS_MAX,
  LINK_RENEW_MS,
  LINK_RETRY_MS,
  LINK_RIGHT_MS,
} from '../limits'
import type { LinkParts } from './answer_links'
import { evidenceOf, Hex, LinkProof, prove } from './link_proof'
import { PassStream } from './pass_stream'
import { answerOfPassed, leadOf, type Question, textOfPassed } from './questions'
import { agreementHash, linkKey, SealedLink } from './sealed_link'

const parseLeader = parserOf(Leader)
const parseOffer = parserOf(exact({ offered: Hex }))
const parseOpened = parserOf(exact({ proof: LinkProof }))

function isLeader(answer: unknown): answer is Leader {
  try {
    parseLeader(answer)
    return true
  } catch {
    return false
  }
}

/** `heard_ms`: time of the newest answer on it, by the leading node's clock, when that one had a connection of this node. */
type Open = { url: string; link: SealedLink; since_ms: number; heard_ms?: number; is_carried?: boolean }
type Answer = { code?: RefusalCode; at_ms?: number; is_carried?: boolean }
type Watching = Parameters<LeaderPort['watch']>[0]

/** From the first answer that announces the hand-over, at most for LINK_HANDOVER_MS. */
class Handing {
  private under_way:
    | { over: Promise<void>; resolve: () => void; timer: ReturnType<typeof setTimeout> }
    | undefined
  private has_answered = false

  begin(): void {
    if (this.under_way !== undefined) return
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => this.end(), LINK_HANDOVER_MS)
    timer.unref()
    this.under_way = { over, resolve, timer }
    this.has_answered = false
  }
  /** The next one has. */
  answered(): void {
    this.has_answered = true
    this.under_way?.resolve()
  }
  arrived(): void {
    if (this.has_answered) this.end()
  }
  end(): void {
    clearTimeout(this.under_way?.timer)
    this.under_way?.resolve()
    this.under_way = undefined
  }
  get over(): Promise<void> | undefined {
    return this.under_way?.over
  }
}

export class LeaderLink implements LeaderPort {
  private newest: readonly Right[] = []
  private readonly watching: Watching[] = []
  private stream: PassStream | undefined
  private asking: { now: Promise<Right>; next: Promise<Right> | undefined } | undefined
  private open: Open | undefined
  private waiting = 0
  private shared: Promise<Leader> | undefined
  /** A leading node that no longer answers does not keep its successor from being asked. */
  private readonly quotes = new SharedQuotes(
    async (nonce) => {
      const { info, attestation } = await this.attestedBy(nonce)
      return Object.freeze({ info, attestation: withPath(attestation) })
    },
    (answered) => Promise.race([answered, Bun.sleep(LEADER_QUOTE_LATE_MS)]),
  )
  /** Begins the names of this node's sockets. */
  readonly node = nodeName()
  private stopped = false
  private readonly handed = new Handing()

  constructor(
    private readonly parts: LinkParts & { log: Log },
    /** Its stated address; it proves itself there. */
    private readonly leaderUrl: () => string | undefined,
    private readonly applied: () => { seq: number; epoch: number },
  ) {}

  /** Undefined once the newest answer is older than LINK_RIGHT_MS. */
  current(): Right | undefined {
    const right = this.newest.at(-1)
    return right !== undefined && this.parts.clock.monotonicMs() < right.until_ms ? right : undefined
  }

  rights(): readonly Right[] {
    return this.stopped ? [] : this.newest
  }

  handing(): Promise<void> | undefined {
    // Reads have their right, but nothing can be passed on.
    const is_cut = this.stream?.isOpen() === false && !this.stopped
    if (is_cut && this.current() !== undefined) this.handed.begin()
    return this.handed.over
  }

  arrived(): void {
    this.handed.arrived()
  }

  watch(on: Watching): void {
    this.watching.push(on)
  }

  /** The answer to a question that is sent after this call. */
  ask(): Promise<Right> {
    const { asking } = this
    if (asking === undefined) return this.begin()
    asking.next ??= asking.now.catch(() => undefined).then(() => this.begin())
    return asking.next
  }

  async pass(passed: Passed, epoch?: number): Promise<PassedAnswer> {
    if (this.current() === undefined || this.stream === undefined) throw new Refusal('lease_lost')
    if (epoch !== undefined && this.stream.epoch !== epoch) throw new Refusal('lease_lost')
    const answer = this.stream.ask(textOfPassed(passed)).then(answerOfPassed)
    return answer.catch((error) => {
      if (error instanceof Refusal && error.code === 'draining') this.handed.begin()
      throw error
    })
  }

  async run(): Promise<void> {
    let failure = 'none yet'
    while (!this.stopped) {
      const error = await this.ask().then(
        () => undefined,
        (reason: Error) => reason.cause ?? reason,
      )
      const now = error === undefined ? '' : error instanceof Refusal ? error.code : String(error)
      if (now !== failure && now === '') this.parts.log.write('info', 'link_open')
      else if (now !== failure) this.parts.log.write('warn', 'link_lost', { reason: now })
      failure = now
      await Bun.sleep(error === undefined ? LINK_ASK_MS : LINK_RETRY_MS)
    }
  }

  stop(): void {
    this.stopped = true
    this.handed.end()
    this.stream?.close()
  }

  /**
   * The leading node's answer to a call of the operator that was verified here.
   * @throws Refusal `lease_lost` where nothing was sent, or of the leading node; `outcome_unknown` when no answer came
   */
  async call(question: Question): Promise<unknown> {
    if (this.current() === undefined || this.open === undefined) throw new Refusal('lease_lost')
    // One place is kept for the question that renews the right to answer.
    if (this.waiting >= LINK_QUESTIONS_MAX - 1) throw new Refusal('matching_unavailable')
    return this.answerTo(this.open, question, LINK_CALL_MS).catch((error) => {
      throw error instanceof Refusal ? error : new Refusal('outcome_unknown')
    })
  }

  /**
   * Identity and attestation of the leading node. Callers share questions.
   * @throws Refusal `lease_lost`, `quote_busy`, or of the leading node
   */
  async attested(nonce?: string): Promise<Leader | Shared<Leader>> {
    if (nonce !== undefined) return this.quotes.ask(nonce)
    this.shared ??= this.attestedBy('').finally(() => {
      this.shared = undefined
    })
    return this.shared
  }
  private async attestedBy(nonce: string): Promise<Leader> {
    const answer = await this.call({ attest: nonce }).catch((error: Refusal) => {
      // The question changes nothing there, so a missing answer means no more than a missing link.
      throw error.code === 'outcome_unknown' ? new Refusal('lease_lost') : error
    })
    if (!isLeader(answer)) throw new Refusal('lease_lost')
    return answer
  }

  private begin(): Promise<Right> {
    const now = this.askOnce().catch((error) => {
      // It lives, but learns late that it leads, or gives its term away.
      if (error instanceof Refusal && NOT_LEADING.includes(error.code)) this.handed.begin()
      // Its reason does not apply to this node.
      throw Object.assign(new Refusal('lease_lost'), { cause: error })
    })
    const asking = { now, next: undefined }
    this.asking = asking
    const ended = () => {
      if (this.asking === asking) this.asking = undefined
    }
    now.then(ended, ended)
    return now
  }

  /** @throws when the leading node gives no answer that can be used; the next call opens another link */
  private async askOnce(): Promise<Right> {
    const url = this.leaderUrl()
    if (url === undefined) throw new Error('no node leads')
    const { clock } = this.parts
    const { open: known } = this
    const is_young = known !== undefined && clock.monotonicMs() - known.since_ms < LINK_RENEW_MS
    const is_open = known?.url === url && is_young && this.stream?.isOpen() !== false
    const open = is_open ? known : { url, link: await this.link(url), since_ms: clock.monotonicMs() }
    this.open = open
    const sent_ms = clock.monotonicMs()
    const { heard_ms } = open
    const stream = this.streamOf(url)
    const frames = stream?.sent ?? 0
    const applied = {
      ...this.applied(),
      node: this.node,
      frames,
      ...(heard_ms === undefined ? {} : { heard_ms }),
    }
    const lead = leadOf(await this.answerTo(open, { applied }, LINK_RIGHT_MS))
    stream?.carried(open.is_carried, sent_ms)
    if (stream?.isOpen() === false) {
      // The next question is on a link that no connection has carried.
      this.open = undefined
      throw new Error('the connection has ended')
    }
    const until_ms = sent_ms + Math.min(LINK_RIGHT_MS, lead.right_ms)
    const right = { ...lead, until_ms }
    // The first question on a link may have been refused: a connection to the previous node is still open.
    if (this.stream?.carries(open.link) !== true)
      await this.streamTo(open).catch((error) => {
        this.open = undefined
        throw error
      })
    this.stream!.epoch = lead.epoch
    const now_ms = clock.monotonicMs()
    this.newest = [...this.newest.filter((one) => now_ms < one.until_ms), right]
    this.handed.answered()
    for (const { answered } of this.watching) answered()
    return right
  }

  private streamOf(url: string): PassStream | undefined {
    return this.stream?.isOpen() && this.stream.url === url ? this.stream : undefined
  }

  /** A renewed link continues on the same connection. */
  private async streamTo({ url, link }: Open): Promise<void> {
    const known = this.streamOf(url)
    if (known !== undefined) return known.renew(link)
    this.stream?.close()
    const stream = await PassStream.open(url)
    const open = this.watching.flatMap(({ sockets }) => [...(sockets?.() ?? [])])
    stream.begin(link, open, (origins) => {
      for (const { unarmed } of this.watching) unarmed?.(origins)
    })
    this.stream = stream
  }

  private async answerTo(open: Open, question: Question, time_ms: number): Promise<unknown> {
    const { url, link } = open
    const number = link.next()
    this.waiting += 1
    try {
      const frame = link.seal('asks', number, utf8(JSON.stringify(question)))
      const opened = link.open('answers', await post(url, 'frame', frame, time_ms))
      if (opened?.number !== number) throw new Error('the answer is of no frame of this link')
      const { at_ms, is_carried, ...answer } = parseJson(textOf(opened.content)) as Answer
      if (at_ms !== undefined) Object.assign(open, { heard_ms: at_ms, is_carried })
      if (answer.code !== undefined && REFUSAL_BY_CODE.has(answer.code)) throw new Refusal(answer.code)
      return answer
    } catch (error) {
      if (!(error instanceof Refusal) && this.open === open) this.open = undefined
      throw error
    } finally {
      this.waiting -= 1
    }
  }

  private async link(url: string): Promise<SealedLink> {
    const { enclave, judge, venue } = this.parts
    const ask = async (call: string, body: Uint8Array) =>
      parseJson(textOf(await post(url, call, body, LINK_OPEN_MS)))
    const { offered } = parseOffer(await ask('offer', new Uint8Array(0)))
    const [own, other] = [linkKey(), fromHex(offered, 32)!]
    const agreed = agreementHash(venue, own.public_key, other)
    const proof = await prove(enclave, 'asks', agreed)
    const opening = { offered, key: toHex(own.public_key), proof }
    const opened = parseOpened(await ask('open', utf8(JSON.stringify(opening))))
    await judge(evidenceOf(opened.proof, 'answers', agreed))
    return new SealedLink(own, other, agreed)
  }
}

/** TLS shows nothing here: both sides prove themselves in the messages, and frames are sealed. */
async function post(url: string, call: string, body: Uint8Array, time_ms: number): Promise<Uint8Array> {
  const tls = { rejectUnauthorized: false }
  const answer = await askBounded(
    (init) => fetch(`${url}/links/${call}`, { ...init, method: 'POST', body: new Uint8Array(body), tls }),
    LINK_ANSWER_BYTES_MAX,
    time_ms,
  )
  if (!answer.ok) throw new Error(`${call} answered ${answer.status}`)
  return answer.bytes
}
