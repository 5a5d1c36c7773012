/**
 * Passes commands, and requests for signatures, from a node that follows to the leading one; each account has a bounded share.
 */
import { Refusal } from '../../protocol/refusals'
import type { JournalSeq } from '../../protocol/units'
import type { CommandBody } from '../commands'
import { LIMITS } from '../limits'
import { encodeCommand } from '../machine/codec/command_codec'
import type { AccountsPort, LeaderPort } from '../ports'
import type { Caller, LimitState, Passed, PassedAnswer } from '../venue'

/** The state behind the right to answer, and behind the caller's last answer. */
type Rights = {
  /** @throws Refusal `lease_lost` */
  require(): { epoch: number }
  current(): { epoch: number } | undefined
  gave(account_id: string, seq: JournalSeq): void
}

export const laneOf = ({ account_id, access }: Caller): string => `${access} ${account_id}`

export class Passing {
  /** The newest limits of commands at the leading node, by account and access. */
  private readonly limits = new Map<string, LimitState>()
  private readonly share = new Shares(LIMITS.passed_account_max)
  private readonly pages = new Pages()
  private root: { now: Promise<object>; next: Promise<object> | undefined } | undefined
  /**
   * Closed sockets whose end is not yet sent to the leading node. If they were disarmed first, their orders would stay open.
   */
  readonly unsent = new Set<string>()
  /** Resolves when this node no longer answers. */
  private ending: Promise<void> | undefined

  constructor(
    private readonly leader: LeaderPort,
    private readonly rights: Rights,
    private readonly applied: () => JournalSeq,
  ) {}

  limitsOf(caller: Caller): LimitState | undefined {
    return this.limits.get(laneOf(caller))
  }

  /** Callers without a token share one question, which is sent after their calls. */
  treeRoot(): Promise<object> {
    const { root } = this
    if (root === undefined) return this.readRoot()
    root.next ??= root.now.catch(() => undefined).then(() => this.readRoot())
    return root.next
  }

  /** @throws Refusal `matching_unavailable` beyond the share of the caller */
  read(caller: Caller | undefined, passed: Passed): Promise<object> {
    const lane = caller === undefined ? '' : laneOf(caller)
    return this.share.run(lane, () => this.value(passed))
  }

  /** A long answer: one at a time, so that no other waits behind more than one. @throws Refusal as `read` */
  page(caller: Caller | undefined, passed: Passed): Promise<object> {
    const lane = caller === undefined ? '' : laneOf(caller)
    // The present epoch: when its turn comes another node may lead, which the caller may not have judged.
    const epoch = this.rights.current()?.epoch
    return this.pages.run(lane, () => this.value(passed, epoch))
  }

  /**
   * Resolves with the seq that the answer depends on, too.
   * @param judged epoch of the leading node when the caller asked, if there was one: it may have judged no other
   * @throws Refusal `outcome_unknown` if another one leads by now: the same bytes are for that one
   */
  async of(caller: Caller, passed: Passed, judged?: number): Promise<PassedAnswer> {
    // Without it a token may have ended at another node.
    const { epoch } = this.rights.require()
    if (judged !== undefined && judged !== epoch) throw new Refusal('outcome_unknown')
    if (this.ending !== undefined) {
      await this.ending
      // Not rejected: the same bytes are to be sent to another node.
      throw new Refusal('outcome_unknown')
    }
    return this.share.run(laneOf(caller), () => this.send(caller, passed, epoch))
  }

  /**
   * The end of a socket needs no token, nor a share.
   * @param seq applied in the turn in which the caller's token was verified: by default, this one
   */
  record(
    command: CommandBody & { account_id: string },
    access: Caller['access'] = 'trade',
    seq = this.applied(),
    judged?: number,
  ): Promise<PassedAnswer> {
    const caller: Caller = { account_id: command.account_id, access }
    const record = { kind: 'record', seq, access, command: bytesOf(command) } as const
    return command.kind === 'disconnected' ? this.send(caller, record) : this.of(caller, record, judged)
  }

  /**
   * From now on commands wait for `over` and are not sent. After all earlier commands, this node sends that it ends; the leading
   * node disarms its sockets. Resolves when it has answered this and all earlier commands.
   * @throws Refusal `lease_lost` without an answer in LIMITS.handover_ms
   */
  async drain(over: Promise<void>): Promise<void> {
    this.ending = over
    const { node } = this.leader
    const until_ms = performance.now() + LIMITS.handover_ms
    const leaves = async () =>
      this.unsent.size === 0 && (await this.leader.pass({ kind: 'leaves', node }).catch(() => false))
    while (!(await leaves())) {
      if (performance.now() > until_ms) throw new Refusal('lease_lost')
      await Bun.sleep(LIMITS.release_look_ms)
    }
    while (this.share.isBusy()) await Bun.sleep(LIMITS.release_look_ms)
  }

  private async send(caller: Caller, passed: Passed, epoch?: number): Promise<PassedAnswer> {
    const { account_id } = caller
    try {
      const answer = await this.leader.pass(passed, epoch)
      this.rights.gave(account_id, answer.seq)
      if (answer.limits !== null) this.limits.set(laneOf(caller), answer.limits)
      return answer
    } catch (error) {
      // Its reason may be newer than the replica.
      this.rights.gave(account_id, Number.POSITIVE_INFINITY)
      throw error
    }
  }

  private async value(passed: Passed, epoch = this.rights.current()?.epoch): Promise<object> {
    return (await this.leader.pass(passed, epoch)).value
  }

  private readRoot(): Promise<object> {
    const now = this.value({ kind: 'tree_root' })
    const root = { now, next: undefined }
    this.root = root
    const ended = () => {
      if (this.root === root) this.root = undefined
    }
    now.then(ended, ended)
    return now
  }
}

export const bytesOf = (command: CommandBody): Uint8Array => encodeCommand({ ...command, unix_ms: 0 })

const full = () => new Refusal('matching_unavailable', { subsystem: 'link' })

/** Bounds the requests that wait for the leading node, by lane. */
export class Shares {
  private readonly waiting = new Map<string, number>()

  constructor(private readonly most: number) {}

  isFull(lane: string): boolean {
    return (this.waiting.get(lane) ?? 0) >= this.most
  }
  isBusy(): boolean {
    return this.waiting.size > 0
  }

  /** @throws Refusal `matching_unavailable` */
  async run<T>(lane: string, work: () => Promise<T>): Promise<T> {
    if (this.isFull(lane)) throw full()
    this.waiting.set(lane, (this.waiting.get(lane) ?? 0) + 1)
    try {
      return await work()
    } finally {
      const left = this.waiting.get(lane)! - 1
      if (left > 0) this.waiting.set(lane, left)
      else this.waiting.delete(lane)
    }
  }
}

/** Bounds the requests that wait until a node may answer again, in total and by lane. */
export class Waits {
  private readonly share = new Shares(LIMITS.passed_account_max)
  private waiting = 0

  /** Undefined where too much waits already. */
  run(lane: string, untilMay: () => Promise<void>): Promise<void> | undefined {
    if (this.waiting >= LIMITS.handover_waits_max || this.share.isFull(lane)) return undefined
    this.waiting += 1
    return this.share.run(lane, untilMay).finally(() => {
      this.waiting -= 1
    })
  }

  /** @throws Refusal `lease_lost` where too much waits already */
  require(lane: string, untilMay: () => Promise<void>): Promise<void> {
    const wait = this.run(lane, untilMay)
    if (wait === undefined) throw new Refusal('lease_lost')
    return wait
  }
}

/** Requests with an unknown token, or none, share the lane of strangers. */
export function laneOfToken(
  accounts: () => Pick<AccountsPort, 'authenticate'>,
  token: string | undefined,
): string {
  try {
    return laneOf(accounts().authenticate(token!))
  } catch {
    return ''
  }
}

/** Runs one at a time, of the lanes in turn. */
class Pages {
  /** Waiting requests, by lane; the lane whose turn is next first. */
  private readonly lanes = new Map<string, (() => void)[]>()
  private is_busy = false

  /** @throws Refusal `matching_unavailable` */
  async run<T>(lane: string, work: () => Promise<T>): Promise<T> {
    if (this.is_busy) await this.turn(lane)
    this.is_busy = true
    try {
      return await work()
    } finally {
      this.next()
    }
  }

  private turn(lane: string): Promise<void> {
    const queue = this.lanes.get(lane) ?? []
    if (queue.length >= LIMITS.pages_account_max) throw full()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.lanes.set(lane, [...queue, resolve])
    return promise
  }

  /** Stays busy for the request whose turn it is. */
  private next(): void {
    const [first] = this.lanes
    this.is_busy = first !== undefined
    if (first === undefined) return
    const [lane, [turn, ...left]] = first
    this.lanes.delete(lane)
    if (left.length > 0) this.lanes.set(lane, left)
    turn!()
  }
}
