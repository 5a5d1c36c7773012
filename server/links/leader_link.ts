/** Keeps a link from a node that follows to the leading one, and asks there what the right to answer rests on. */

import { askBounded } from '../../protocol/ask_bounded'
import { fromHex, toHex, utf8 } from '../../protocol/bytes'
import { REFUSAL_BY_CODE, Refusal, type RefusalCode } from '../../protocol/refusals'
import { parserOf } from '../../protocol/wire/parse'
import { Leader } from '../../protocol/wire/public'
import { exact } from '../../protocol/wire/values'
import { parseJson, textOf } from '../edge/body'
import type { Log } from '../edge/log'
import {
  LINK_ANSWER_BYTES_MAX,
  LINK_ASK_MS,
  LINK_CALL_MS,
  LINK_OPEN_MS,
  LINK_QUESTIONS_MAX,
  LINK_RETRY_MS,
  LINK_RIGHT_MS,
} from '../limits'
import type { LinkParts } from './answer_links'
import { evidenceOf, Hex, LinkProof, prove } from './link_proof'
import { parseLead, type Question } from './questions'
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

/** What the leading node answered; `until_ms` is monotonic, counted from when it was asked. */
export type Right = { epoch: number; seq: number; until_ms: number }

type Open = { url: string; link: SealedLink }

export class LeaderLink {
  private right: Right | undefined
  private open: Open | undefined
  private waiting = 0
  private stopped = false

  constructor(
    private readonly parts: LinkParts & { log: Log },
    /** Where it says that it is; it proves itself there. */
    private readonly leaderUrl: () => string | undefined,
  ) {}

  /** Undefined once the newest answer is older than LINK_RIGHT_MS. */
  current(): Right | undefined {
    const { right } = this
    return right !== undefined && this.parts.clock.monotonicMs() < right.until_ms ? right : undefined
  }

  async run(): Promise<void> {
    let failure = 'none yet'
    while (!this.stopped) {
      const error = await this.ask().then(
        () => undefined,
        (reason: unknown) => reason,
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
  }

  /**
   * The leading node's answer to a call that was verified here.
   * @throws Refusal `lease_lost` where nothing was sent, or of the leading node; `outcome_unknown` when no answer came
   */
  async pass(question: Question): Promise<unknown> {
    if (this.current() === undefined || this.open === undefined) throw new Refusal('lease_lost')
    return this.answerTo(this.open, question, LINK_CALL_MS).catch((error) => {
      throw error instanceof Refusal ? error : new Refusal('outcome_unknown')
    })
  }

  /** Identity and attestation of the leading node. @throws Refusal `lease_lost`, or of the leading node */
  async attested(nonce = ''): Promise<Leader> {
    const answer = await this.pass({ attest: nonce }).catch((error: Refusal) => {
      // Nothing changes there, so that no answer says no more than no link.
      throw error.code === 'outcome_unknown' ? new Refusal('lease_lost') : error
    })
    if (!isLeader(answer)) throw new Refusal('lease_lost')
    return answer
  }

  /** @throws when the leading node gives no answer that can be used; the next call opens another link */
  private async ask(): Promise<void> {
    const url = this.leaderUrl()
    if (url === undefined) throw new Refusal('lease_lost')
    const open = this.open?.url === url ? this.open : { url, link: await this.link(url) }
    this.open = open
    const sent_ms = this.parts.clock.monotonicMs()
    const lead = parseLead(await this.answerTo(open, {}, LINK_RIGHT_MS))
    this.right = { ...lead, until_ms: sent_ms + LINK_RIGHT_MS }
  }

  private async answerTo(open: Open, question: Question, time_ms: number): Promise<unknown> {
    if (this.waiting >= LINK_QUESTIONS_MAX) throw new Refusal('matching_unavailable')
    const { url, link } = open
    const number = link.next()
    this.waiting += 1
    try {
      const frame = link.seal('asks', number, utf8(JSON.stringify(question)))
      const opened = link.open('answers', await post(url, 'frame', frame, time_ms))
      if (opened?.number !== number) throw new Error('the answer is of no frame of this link')
      const answer = parseJson(textOf(opened.content)) as { code?: RefusalCode }
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

/** TLS shows nothing here: both sides prove themselves in what is sent, and frames are sealed. */
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
