/** Answers the nonces of many callers with one quote. */

import { fromHex, toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import { JointNonce, type NonceLeaf, pathOf } from '../../protocol/tdx/quote'
import type { Attestation, Leader } from '../../protocol/wire/public'
import {
  QUOTE_ANSWERS_A_TURN,
  QUOTE_CALLERS_MAX,
  QUOTE_CALLERS_WAITING_MAX,
  SHARED_QUOTE_MS,
} from '../limits'

const PATH = '"nonce_path":['

/** The shared part of the answer to many callers, with the siblings from the nonce of one of them to the quoted one, hex. */
export class Shared<T extends object> {
  constructor(
    /** Frozen, so that its text is made once; it has `nonce_path`, of a node that follows the path of the leading one. */
    readonly answer: T,
    readonly path: readonly string[],
  ) {}

  of<U extends object>(part: (answer: T) => U): Shared<U> {
    return new Shared(part(this.answer), this.path)
  }

  /** @param whole the answer's text; no text inside it can contain PATH, whose quotes would be escaped */
  textIn(whole: string): string {
    if (this.path.length === 0) return whole
    const at = whole.indexOf(PATH) + PATH.length
    const own = `"${this.path.join('","')}"`
    return `${whole.slice(0, at)}${own}${whole[at] === ']' ? '' : ','}${whole.slice(at)}`
  }
}

/** The answer without a path; frozen. */
export const withPath = (answer: Attestation, path: readonly string[] = []): Attestation =>
  Object.freeze({ ...answer, nonce_path: [...path, ...(answer.nonce_path ?? [])] })

/** The answer to one caller, with its path in place. */
export function leaderOf(answer: Leader | Shared<Leader>): Leader {
  if (!(answer instanceof Shared)) return answer
  const { info, attestation } = answer.answer
  return { info, attestation: withPath(attestation, answer.path) }
}

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

type Caller<T extends object> = {
  leaf: NonceLeaf
  resolve: (shared: Shared<T>) => void
  reject: (error: unknown) => void
}
type Batch<T extends object> = { joint: JointNonce; callers: Caller<T>[] }

/**
 * One quote is under way, and the next ones are for those who came meanwhile, in their order: no caller takes one from another.
 * However many they are, a turn of the event loop answers few: strangers take neither a term nor a right from the node.
 */
export class SharedQuotes<T extends object> {
  /** All but the last one are full. */
  private readonly batches: Batch<T>[] = []
  private callers = 0
  private runs = false
  private answering: Promise<unknown> = Promise.resolve()

  /** @param quote over a nonce, hex; frozen @param next when the one after it may begin */
  constructor(
    private readonly quote: (nonce: string) => Promise<T>,
    private readonly next: (answered: Promise<unknown>) => Promise<unknown>,
  ) {}

  /**
   * @param nonce 64 hex digits @param is_node for all callers of a node that follows: it goes first, into the next quote
   * @throws Refusal `quote_busy`, or of the quote
   */
  async ask(nonce: string, is_node = false): Promise<Shared<T>> {
    if (!is_node && this.callers >= QUOTE_CALLERS_WAITING_MAX)
      throw new Refusal('quote_busy', { retry_after_ms: SHARED_QUOTE_MS * (this.batches.length + 1) })
    const { joint, callers } = this.batchOf(is_node)
    const { promise, resolve, reject } = Promise.withResolvers<Shared<T>>()
    callers[is_node ? 'unshift' : 'push']({ leaf: joint.add(fromHex(nonce, 32)!), resolve, reject })
    this.callers += 1
    if (!this.runs) void this.run()
    return promise
  }

  private batchOf(is_node: boolean): Batch<T> {
    const known = this.batches.at(is_node ? 0 : -1)
    if (known !== undefined && (is_node || known.callers.length < QUOTE_CALLERS_MAX)) return known
    const batch = { joint: new JointNonce(), callers: [] }
    this.batches.push(batch)
    return batch
  }

  private async run(): Promise<void> {
    this.runs = true
    for (let batch = this.batches.shift(); batch !== undefined; batch = this.batches.shift()) {
      const { joint, callers } = batch
      const asked = this.quote(toHex(joint.close()))
      const give = asked.then(
        (answer) => (caller: Caller<T>) => caller.resolve(new Shared(answer, pathOf(caller.leaf).map(toHex))),
        (error) => (caller: Caller<T>) => caller.reject(error),
      )
      await this.next(give.then((to) => this.answer(callers, to)))
    }
    this.runs = false
  }

  /** Behind the callers of earlier quotes. */
  private answer(callers: readonly Caller<T>[], give: (caller: Caller<T>) => void): Promise<unknown> {
    this.answering = this.answering.then(async () => {
      for (let at = 0; at < callers.length; at += QUOTE_ANSWERS_A_TURN) {
        const some = callers.slice(at, at + QUOTE_ANSWERS_A_TURN)
        this.callers -= some.length
        for (const caller of some) give(caller)
        await nextTurn()
      }
    })
    return this.answering
  }
}
