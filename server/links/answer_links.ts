/** Answers the links of other nodes: keys, proofs of both sides, then sealed questions. */

import type { Enclave } from '../../enclave/contract'
import type { ClockPort, Fronts } from '../../engine/ports'
import { fromHex, toHex, utf8 } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import { exact, parserOf } from '../../protocol/wire/values'
import { parseJson, textOf } from '../edge/body'
import { openBucket } from '../edge/rate'
import {
  LINK_APPLIED_LOOK_MS,
  LINK_LIFE_MS,
  LINK_OFFERS_MAX,
  LINK_RATE,
  LINK_RIGHT_MS,
  LINK_RIGHT_WAIT,
  LINKS_MAX,
} from '../limits'
import { evidenceOf, Hex, LinkProof, prove } from './link_proof'
import { type Applied, parseQuestion } from './questions'
import { agreementHash, headerOf, type LinkKey, linkKey, SealedLink } from './sealed_link'

/** Values of the side that asks: the offered key, its own key, and its proof over both. */
const Opening = exact({
  offered: Hex,
  key: Hex,
  proof: LinkProof,
})
const parseOpening = parserOf(Opening)

export type LinkParts = {
  enclave: Pick<Enclave, 'identity' | 'keyProof'>
  clock: ClockPort
  /** 32 bytes. */
  venue: Uint8Array
  /** @throws when the vault would let the machine of this evidence open no epoch */
  judge(evidence: ReturnType<typeof evidenceOf>): Promise<void>
}

/**
 * `node` is its own name, empty before it has sent it. `alive_ms`: it has lived since, as it had an answer of that time, or had
 * just proved itself: the host can hold back its frames, and deliver them when it is dead. `frames`: sent on its connection.
 * `is_left`: frames on a connection have come under a newer link of the node.
 */
type Known = {
  link: SealedLink
  since_ms: number
  node: string
  alive_ms: number
  frames: number
  is_left: boolean
}
/**
 * The end that the node has reached at least: in an epoch one boot writes one log, so that it has all of that epoch up to
 * `seq`.
 */
type Node = { epoch: number; seq: number; asked_ms: number }

export class LinkAnswers implements Fronts {
  /** Keys that were offered and not used, oldest first. */
  private readonly offers = new Map<string, LinkKey>()
  private readonly links = new Map<string, Known>()
  private readonly nodes = new Map<string, Node>()
  /** Connections by node that have said which of their sockets are open. */
  readonly carried = new Map<string, number>()
  private readonly bucket: ReturnType<typeof openBucket>
  private judging = false

  /** @param answer to a question of a proved node; may throw Refusal */
  constructor(
    private readonly parts: LinkParts,
    private readonly answer: (question: ReturnType<typeof parseQuestion>) => Promise<object> | object,
  ) {
    this.bucket = openBucket({ ...LINK_RATE, code: 'quote_busy' }, parts.clock)
  }

  /** A key for one link. */
  offer(): { offered: string } {
    const key = linkKey()
    const offered = toHex(key.public_key)
    this.offers.set(offered, key)
    if (this.offers.size > LINK_OFFERS_MAX) this.offers.delete(this.offers.keys().next().value!)
    return { offered }
  }

  /**
   * Judges the node that asks, then proves the own machine to it.
   * @throws Refusal: `quote_busy`, `frame_invalid` for a key that was not offered, `credentials_invalid` for a machine or build
   * that the vault does not admit
   */
  async open(body: Uint8Array): Promise<{ proof: LinkProof }> {
    const { offered, key, proof } = parseOpening(parseJson(textOf(body)))
    const own = this.offers.get(offered)
    if (own === undefined) throw new Refusal('frame_invalid')
    if (this.judging) throw new Refusal('quote_busy')
    this.bucket.take(1)
    this.offers.delete(offered)
    this.judging = true
    try {
      const { enclave, venue } = this.parts
      const agreed = agreementHash(venue, fromHex(key, 32)!, own.public_key)
      await this.parts.judge(evidenceOf(proof, 'asks', agreed)).catch(() => {
        throw new Refusal('credentials_invalid')
      })
      const link = linkOf(own, fromHex(key, 32)!, agreed)
      const answer = { proof: await prove(enclave, 'answers', agreed) }
      this.keep(link)
      return answer
    } finally {
      this.judging = false
    }
  }

  /** @throws Refusal `token_invalid` for a frame of no link that is open */
  async frame(frame: Uint8Array): Promise<Uint8Array> {
    const id = headerOf(frame)?.link
    const known = id && this.known(toHex(id))
    const taken = known?.link.take('asks', frame)
    if (taken === undefined) throw new Refusal('token_invalid')
    const answer = await this.answered(taken.content, known!)
    return known!.link.seal('answers', taken.number, utf8(JSON.stringify(answer)))
  }

  private async answered(content: Uint8Array, known: Known): Promise<object> {
    let heard = {}
    try {
      const question = parseQuestion(parseJson(textOf(content)))
      const { applied } = question
      if (applied !== undefined)
        heard = { at_ms: this.asked(applied, known), is_carried: this.carried.has(applied.node) }
      return { ...(await this.answer(question)), ...heard }
    } catch (error) {
      return { code: error instanceof Refusal ? error.code : 'internal', ...heard }
    }
  }

  private asked({ seq, epoch, node, frames, heard_ms }: Applied, known: Known): number {
    const now_ms = this.nowMs()
    const before = this.nodes.get(node)
    if (before === undefined)
      for (const [name, one] of this.nodes) if (!isLive(one, now_ms)) this.nodes.delete(name)
    // Questions overtake each other.
    const has_more =
      before !== undefined && (before.epoch > epoch || (before.epoch === epoch && before.seq > seq))
    this.nodes.set(node, { ...(has_more ? before : { epoch, seq }), asked_ms: now_ms })
    if (known.node === '') this.forget(node)
    const alive_ms = Math.min(heard_ms ?? known.since_ms, now_ms)
    Object.assign(known, { node, frames, alive_ms: Math.max(alive_ms, known.alive_ms) })
    return Math.floor(now_ms)
  }

  /** Of a node's links only the newest counts, and the one that carries its name: a second one is for a renewal only. */
  private forget(node: string): void {
    const older = [...this.links].filter(([, one]) => one.node === node).slice(0, -1)
    for (const [id] of older) this.links.delete(id)
  }

  /**
   * A node uses its links in the order in which it proved them, and has given up each earlier connection. So once a frame came
   * under a link, none counts that comes on a connection under an older one.
   */
  carry(id: string): void {
    const node = this.links.get(id)?.node
    for (const [older, one] of this.links) {
      if (older === id) return
      if (one.node === node) one.is_left = true
    }
  }

  nowMs(): number {
    return this.parts.clock.monotonicMs()
  }

  /** Undefined for a link that is not open, or no longer. */
  known(id: string): Known | undefined {
    const known = this.links.get(id)
    return known !== undefined && this.nowMs() - known.since_ms < LINK_LIFE_MS ? known : undefined
  }

  /** As `known`, for a connection: undefined for a link that is left, too. */
  carrying(id: string): Known | undefined {
    const known = this.known(id)
    return known?.is_left ? undefined : known
  }

  /** Nodes that may have the right to answer. */
  count(): number {
    const now_ms = this.nowMs()
    return [...this.nodes.values()].filter((one) => isLive(one, now_ms)).length
  }

  /** A node without an answer for longer than its right lasts answers nothing. */
  async applied(seq: number, epoch: number): Promise<void> {
    const until_ms = this.nowMs() + RIGHT_WAIT_MS
    const isBehind = () => {
      const now_ms = this.nowMs()
      const lacks = (one: Node) => one.epoch !== epoch || one.seq < seq
      return [...this.nodes.values()].some((one) => isLive(one, now_ms) && lacks(one))
    }
    while (this.nowMs() < until_ms && isBehind()) await Bun.sleep(LINK_APPLIED_LOOK_MS)
  }

  private keep(link: SealedLink): void {
    const since_ms = this.nowMs()
    this.links.set(toHex(link.id), {
      link,
      since_ms,
      node: '',
      alive_ms: since_ms,
      frames: 0,
      is_left: false,
    })
    if (this.links.size > LINKS_MAX) this.links.delete(this.links.keys().next().value!)
  }
}

const RIGHT_WAIT_MS = LINK_RIGHT_WAIT * LINK_RIGHT_MS
const isLive = ({ asked_ms }: Node, now_ms: number): boolean => now_ms < asked_ms + RIGHT_WAIT_MS

function linkOf(own: LinkKey, other: Uint8Array, agreed: Uint8Array): SealedLink {
  try {
    return new SealedLink(own, other, agreed)
  } catch {
    throw new Refusal('frame_invalid')
  }
}
