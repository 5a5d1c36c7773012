/**
 * The log of a cluster is put back to an older state, as from a backup of etcd: every node finds its journal ahead of it and
 * ends. The operator lets the log begin again behind the longest journal (`tools/cluster/main.ts`), and nodes that lack records
 * between take the folder of that one (cluster.md).
 */
import { rmSync } from 'node:fs'
import { Etcd } from '../../../engine/cluster/etcd'
import { ReplicatedLog } from '../../../engine/cluster/replicated_log'
import { fromHex } from '../../../protocol/bytes'
import type { Random } from '../../kit/random'
import { Life } from '../awaits'
import { copyFolder } from '../image'
import { inVenue, type SimulatedTime } from '../simulated_time'
import type { EtcdMoment, SimulatedEtcd } from './simulated_etcd'

/** States that are kept, one a slot. */
const KEPT = 12
/** As a node names it in its error. */
const END = /venue ([0-9a-f]{64}), seq (\d+), head ([0-9a-f]{64})/
type End = { venue: Uint8Array; seq: number; head: Uint8Array }

export type RolledMoment = { ends: [number, End][] | undefined; longest: number | undefined; gaps: number[] }

export class RolledLog {
  private readonly kept: EtcdMoment[] = []
  /** While the log is put back: ends of the journals, by node, of those that have ended. */
  private ends: Map<number, End> | undefined
  /** The node behind whose journal the log began again. */
  private longest: number | undefined
  /** Nodes whose journal ends before the log begins. */
  private gaps = new Set<number>()
  private operator: Life | undefined

  constructor(
    private readonly etcd: SimulatedEtcd,
    private readonly time: SimulatedTime,
    private readonly endpoints: readonly string[],
  ) {}

  /** In each slot. @param lives of the nodes, all of which have records that the older state lacks */
  step(random: Random, calm: boolean, lives: readonly Life[]): void {
    this.repair(lives.length)
    if (calm || this.ends !== undefined) return
    this.kept.push(this.etcd.moment())
    if (this.kept.length > KEPT) this.kept.shift()
    const older = random.below(20) === 0 ? random.pick(this.kept) : undefined
    const lacks_seq = older && this.etcd.firstBehind(older)
    if (lacks_seq === undefined || !lives.every((life) => this.etcd.endOf(life) >= lacks_seq)) return
    this.etcd.putBack({ ...older!, revision: this.etcd.revision + 1 })
    this.kept.length = 0
    this.ends = new Map()
  }

  /** A node ends because of the older log, or of records that the one begun again lacks. */
  isExpected({ name, message }: Error, node: number): boolean {
    if (name === 'LogGap' && this.longest !== undefined) this.gaps.add(node)
    if (name === 'LogGap') return this.gaps.has(node)
    if (name !== 'LogRolledBack' || this.ends === undefined) return false
    const [, venue, seq, head] = END.exec(message) ?? []
    if (venue !== undefined)
      this.ends.set(node, { venue: fromHex(venue, 32)!, seq: Number(seq), head: fromHex(head!, 32)! })
    return true
  }
  /** Before a start. */
  replace(node: number, dirOf: (node: number) => string): void {
    if (!this.gaps.delete(node) || this.longest === undefined || this.longest === node) return
    rmSync(dirOf(node), { recursive: true, force: true })
    copyFolder(dirOf(this.longest), dirOf(node))
  }

  /** Once each node has said where its journal ends. */
  private repair(nodes: number): void {
    if (this.ends === undefined || this.ends.size < nodes || this.operator !== undefined) return
    const [longest, { venue, seq, head }] = [...this.ends].toSorted(([, a], [, b]) => b.seq - a.seq)[0]!
    const access = { endpoints: this.endpoints, tls: { ca: '', cert: '', key: '' } }
    const log = new ReplicatedLog(new Etcd(access), { key: new Uint8Array(32), venue })
    const operator = new Life()
    this.operator = operator
    const over = (is_repaired: boolean) => {
      if (!operator.alive) return
      this.operator = undefined
      if (is_repaired) Object.assign(this, { ends: undefined, longest })
    }
    this.time
      .inside(inVenue(operator), () => log.beginBehind({ seq, head }))
      .then(
        () => over(true),
        () => over(false),
      )
  }

  moment(): RolledMoment {
    const { ends, longest, gaps } = this
    return { ends: ends && [...ends], longest, gaps: [...gaps] }
  }
  putBack({ ends, longest, gaps }: RolledMoment): void {
    this.operator?.end()
    this.operator = undefined
    this.kept.length = 0
    this.ends = ends && new Map(ends)
    this.longest = longest
    this.gaps = new Set(gaps)
  }
}
