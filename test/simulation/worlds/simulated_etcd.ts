/**
 * The log of a cluster: the verdicts of a majority of etcd's members, one transaction after the other, by the JSON of their
 * gateway.
 */
import type { Life } from '../awaits'
import type { Answer } from './network'

type Compare = { key: string; target: 'VERSION' | 'VALUE'; value?: string }
type Operation = {
  requestPut?: { key: string; value: string }
  requestRange?: { key: string; range_end?: string; limit?: string }
  requestDeleteRange?: { key: string; range_end: string }
}
type Txn = { compare: Compare[]; success: Operation[]; failure: Operation[] }
/** Values in base64. */
export type EtcdMoment = { pairs: Map<string, string>; revision: number }

/** The place of an entry: its first record. */
const ENTRY = /\/log\/(\d+)\//

const textOf = (base64: string): string => Buffer.from(base64, 'base64').toString()

export class SimulatedEtcd {
  private pairs = new Map<string, string>()
  revision = 1
  /** The process, or a thread of it, that took the present term; undefined once that was given to another one. */
  private led: Life | undefined
  /** Records that a process has, by what it last read or wrote. */
  private readonly ends = new WeakMap<Life, number>()

  /** @param life of the process that asks */
  answer(path: string, body: string, life: Life | undefined): Answer {
    return { status: 200, content: JSON.stringify(this.result(path, JSON.parse(body), life)) }
  }
  /** This one took the present term, so that no process has a right to call it deposed. */
  isLed(life: Life): boolean {
    const { led } = this
    return led !== undefined && (led.isOf(life) || life.isOf(led))
  }
  /** The last record that its journal is known to have. */
  endOf(life: Life): number {
    return this.ends.get(life) ?? 0
  }
  /** The first record of the log that `older` lacks. */
  firstBehind({ pairs }: EtcdMoment): number | undefined {
    const lacked = [...this.pairs.keys()].filter((key) => !pairs.has(key))
    const places = lacked.flatMap((key) => Number(ENTRY.exec(key)?.[1] ?? Number.NaN))
    const known = places.filter((seq) => !Number.isNaN(seq))
    return known.length > 0 ? Math.min(...known) : undefined
  }
  private note(key: string, life: Life | undefined): void {
    const seq = ENTRY.exec(key)?.[1]
    if (seq === undefined) return
    for (let one = life; one !== undefined; one = one.of) this.ends.set(one, Number(seq) - 1)
  }
  private result(path: string, body: Txn, life: Life | undefined): object {
    const header = { revision: String(this.revision) }
    if (path === '/v3/maintenance/status') {
      const bytes = [...this.pairs].reduce((sum, [key, value]) => sum + key.length + value.length, 0)
      return { header, dbSizeInUse: String(bytes) }
    }
    if (path === '/v3/kv/compaction') return { header }
    const succeeded = body.compare.every((one) => this.holds(one))
    const ran = succeeded ? body.success : body.failure
    const responses = ran.map((one) => this.run(one, life))
    return succeeded ? { header, succeeded, responses } : { header, responses }
  }
  private holds({ key, target, value }: Compare): boolean {
    const found = this.pairs.get(textOf(key))
    return target === 'VERSION' ? found === undefined : found === value
  }
  private run(
    { requestPut: put, requestRange: range, requestDeleteRange: remove }: Operation,
    life: Life | undefined,
  ): object {
    if (put !== undefined) {
      const key = textOf(put.key)
      this.note(key, life)
      this.revision++
      this.pairs.set(key, put.value)
      // The one that has the term puts the next one for another node.
      if (key.endsWith('/term')) this.led = life === undefined || this.isLed(life) ? undefined : life
      return { response_put: {} }
    }
    const { key, range_end } = range ?? remove!
    const [first, end] = [textOf(key), range_end && textOf(range_end)]
    if (range !== undefined) this.note(first, life)
    const isIn = (one: string) => (end ? one >= first && one < end : one === first)
    const found = [...this.pairs].filter(([one]) => isIn(one)).sort(([a], [b]) => (a < b ? -1 : 1))
    if (remove !== undefined) {
      this.revision++
      for (const [one] of found) this.pairs.delete(one)
      return { response_delete_range: {} }
    }
    const kvs = found
      .slice(0, Number(range!.limit ?? found.length))
      .map(([one, value]) => ({ key: Buffer.from(one).toString('base64'), value }))
    return { response_range: kvs.length > 0 ? { kvs } : {} }
  }

  moment(): EtcdMoment {
    return { pairs: new Map(this.pairs), revision: this.revision }
  }
  putBack({ pairs, revision }: EtcdMoment): void {
    this.pairs = new Map(pairs)
    this.revision = revision
    this.led = undefined
  }
}
