/**
 * The RPC nodes of a venue: one or all may be away, one may lie for a while, as the provider of a quorum may, and two or all may
 * show a process accounts, or the history, as they were some slots ago.
 */
import {
  advancedHead,
  bentExits,
  exitAccount,
  farSlot,
  forgedError,
  forgedLeaves,
  forgedRoot,
  forgedSpends,
  forgedTransactions,
  frozen,
  hiddenExits,
  inventedExits,
  inventedLeaves,
  type Lie,
  lowerBatch,
  missingDeposit,
  notFound,
  stale,
} from '../../kit/chain/lying_endpoint'
import type { Random } from '../../kit/random'
import type { Life } from '../awaits'
import type { Answer } from './network'
import { BEHIND_MAX, LATE_READS, type SimulatedChain } from './simulated_chain'

export const NODES = ['node-0.test', 'node-1.test', 'node-2.test']
const PAIRS = NODES.flatMap((one) =>
  NODES.filter((other) => other !== one).map((other) => [one, other] as const),
)
const LIES = [
  ...[advancedHead, bentExits, farSlot, forgedError, forgedLeaves, forgedRoot, forgedSpends, frozen],
  ...[forgedTransactions, hiddenExits, inventedLeaves, lowerBatch, missingDeposit, notFound, stale],
]
type Odd = { hosts: readonly string[]; until_slot: number; lies: Record<string, Lie> | undefined }
/** A process, and the reads in which nodes show it what was so many slots ago. */
type Behind = {
  life: Life
  reads: readonly string[]
  slots: ReadonlyMap<string, number>
  until_slot: number
}
/** A note whose exit a provider may invent. */
type Exiting = { commitment: Uint8Array; nullifier: Uint8Array; mint: Uint8Array; amount: bigint }

export class Providers {
  /** Those that do not answer, or the one that lies; a quorum of the others is honest then. */
  private odd: Odd | undefined
  private behind: Behind | undefined
  /** One has lied in this world: a venue may have journaled it. */
  has_lied = false

  constructor(private readonly chain: SimulatedChain) {}

  isAway(host: string): boolean {
    return this.odd?.lies === undefined && this.odd?.hosts.includes(host) === true
  }
  /** @param life of the process that asks, or of a thread of it */
  answer(host: string, body: string, life: Life | undefined): Answer {
    const { odd, behind, chain } = this
    const is_behind = behind !== undefined && life?.isOf(behind.life) === true
    const late = is_behind ? { slots: behind.slots.get(host) ?? 0, reads: behind.reads } : undefined
    return chain.answer(body, odd?.hosts.includes(host) === true ? odd.lies : undefined, late)
  }

  /** Slots are made one by one then: a start waits for a number of them by time. */
  get isBehind(): boolean {
    return this.behind !== undefined
  }
  /** Not while one lies: two that are late and one that lies are no quorum. */
  fallBehind(random: Random, life: Life): void {
    if (this.odd?.lies !== undefined) return
    const hosts = random.below(2) === 0 ? NODES : random.pick(PAIRS)
    const slots = new Map(hosts.map((host) => [host, 1 + random.below(BEHIND_MAX)]))
    const reads = random.pick(LATE_READS)
    this.behind = { life, reads, slots, until_slot: this.chain.machine.tip + 4 + random.below(60) }
  }

  /** In each slot. @param up whether the venue serves: while it starts they are away more often */
  step(random: Random, calm: boolean, up: boolean): void {
    const { tip } = this.chain.machine
    const { behind } = this
    if (behind !== undefined && (behind.until_slot <= tip || !behind.life.alive)) this.behind = undefined
    if (this.odd !== undefined && (calm || this.odd.until_slot <= tip)) this.odd = undefined
    if (calm || this.odd !== undefined) return
    const dice = random.below(120)
    const [hosts, until_slot] = [[random.pick(NODES)], tip + 2 + random.below(20)]
    if (dice === 0) this.odd = { hosts, until_slot, lies: undefined }
    // Longer than a lease.
    if (dice === 1 || (!up && random.below(30) === 0))
      this.odd = { hosts: NODES, until_slot: tip + 3 + random.below(8), lies: undefined }
    if (dice === 2 && !this.isBehind) this.lie({ hosts, until_slot, lies: random.pick(LIES)() })
  }
  /**
   * One shows an exit request that no owner sent, which the venue takes back once a quorum contradicts. Or a quorum does: its
   * exit is in a batch until the program rejects that. Half of them spend the note by another name, so that an order may, too.
   * @returns whether its commitment is that of the note; undefined without an exit
   */
  inventExit(random: Random, { commitment, mint, ...of }: Exiting): 'its' | 'another' | undefined {
    if (this.odd !== undefined || this.isBehind) return undefined
    const is_its = random.below(2) === 0
    const named = is_its ? commitment : random.element()
    const request = exitAccount(this.chain.program, named, mint, of)
    const until_slot = this.chain.machine.tip + 4 + random.below(20)
    const [first, second] = random.pick(PAIRS)
    const hosts = random.below(2) === 0 ? [first, second] : [first]
    this.lie({ hosts, until_slot, lies: inventedExits([request]) })
    return is_its ? 'its' : 'another'
  }
  private lie(odd: Odd): void {
    this.odd = odd
    this.has_lied = true
  }
  recover(): void {
    this.odd = undefined
    this.behind = undefined
  }
}
