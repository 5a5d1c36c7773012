/** Chooses by need: which world and traffic a campaign plays next, and which moments of a run start again. */
import { type Await, awaits } from './awaits'

/** Ends at each `await`, of one process or of everything. */
export const ENOUGH = 100
export const endsOf = ({ stops, crashes }: Await): number => stops + crashes
export const needOf = (one: Await): number => Math.max(0, ENOUGH - endsOf(one))

/** The most frequent acts of a run: a trader's calls, ends of processes, stops, the operator, other traders' sessions, exits. */
const FOCUSES = ['trade', 'ends', 'stops', 'operator', 'sessions', 'exits'] as const
export type Focus = (typeof FOCUSES)[number]

type Stops = ReadonlyMap<Await, number>

/** Those that together meet most of the need, each worth the share of the need that it meets. */
export function mostNeeded<T extends { stops: Stops }>(among: readonly T[], count: number): Set<T> {
  const left = new Map<Await, number>()
  const leftOf = (one: Await) => left.get(one) ?? needOf(one)
  const worth = ({ stops }: T): number => {
    let sum = 0
    for (const [one, times] of stops) {
      const need = leftOf(one)
      if (need > 0) sum += Math.min(1, times / need)
    }
    return sum
  }
  // A choice can only make others worth less.
  const ordered = among.map((one) => ({ one, worth: worth(one) })).sort((a, b) => b.worth - a.worth)
  const chosen = new Set<T>()
  while (chosen.size < count && ordered.length > 0) {
    const first = ordered[0]!
    const now = worth(first.one)
    if (now === 0) break
    if (now < first.worth && now < (ordered[1]?.worth ?? 0)) {
      first.worth = now
      ordered.sort((a, b) => b.worth - a.worth)
      continue
    }
    ordered.shift()
    chosen.add(first.one)
    for (const [one, times] of first.one.stops) left.set(one, Math.max(0, leftOf(one) - times))
  }
  return chosen
}

type Played<Kind> = {
  readonly kind: Kind
  readonly focus: Focus
  groups: number
  /** Of a group: processor time, and the ends that it added. */
  cost_ms: number
  ends: Map<Await, number>
}

/** Worlds and traffic by the yield of their groups, as long as it is needed, for their processor time. */
export class Guide<Kind extends string> {
  private readonly all: Played<Kind>[]

  constructor(kinds: readonly Kind[]) {
    this.all = FOCUSES.flatMap((focus) =>
      kinds.map((kind) => ({ kind, focus, groups: 0, cost_ms: 0, ends: new Map<Await, number>() })),
    )
  }

  /** Of each, for a campaign that goes on. */
  get kept() {
    return this.all.map((one) => ({
      ...one,
      ends: [...one.ends].map(([{ name }, times]) => ({ name, times })),
    }))
  }
  goOnFrom(kept: this['kept']): void {
    const named = new Map(awaits.map((one) => [one.name, one]))
    for (const { kind, focus, groups, cost_ms, ends } of kept) {
      const own = this.of({ kind, focus })
      if (own === undefined) continue
      Object.assign(own, { groups, cost_ms })
      for (const { name, times } of ends) if (named.has(name)) own.ends.set(named.get(name)!, times)
    }
  }
  private of(one: { kind: Kind; focus: Focus }): Played<Kind> | undefined {
    return this.all.find(({ kind, focus }) => kind === one.kind && focus === one.focus)
  }

  /** Each was played, and no `await` that was reached lacks ends. */
  get isDone(): boolean {
    return (
      this.all.every(({ groups }) => groups > 0) &&
      awaits.every((one) => one.visits === 0 || needOf(one) === 0)
    )
  }

  /** Each was played once before any is played twice. */
  next(): { kind: Kind; focus: Focus } {
    const unplayed = this.all.find(({ groups }) => groups === 0)
    if (unplayed !== undefined) return unplayed
    const worth = ({ cost_ms, ends }: Played<Kind>): number => {
      let sum = 0
      for (const [one, times] of ends) if (needOf(one) > 0) sum += Math.min(1, times / needOf(one))
      return sum / cost_ms
    }
    return this.all.reduce((best, one) => (worth(one) > worth(best) ? one : best))
  }

  /** @param play one group */
  async played<T>(of: { kind: Kind; focus: Focus }, play: () => Promise<T>): Promise<T> {
    const before = new Map(awaits.map((one) => [one, endsOf(one)]))
    const from = process.cpuUsage()
    const result = await play()
    const { user, system } = process.cpuUsage(from)
    const own = this.of(of)!
    const mean = (old: number, now: number) => (own.groups === 0 ? now : (old + now) / 2)
    own.cost_ms = mean(own.cost_ms, (user + system) / 1_000)
    for (const one of awaits) {
      const ends = mean(own.ends.get(one) ?? 0, endsOf(one) - (before.get(one) ?? 0))
      if (ends > 0) own.ends.set(one, ends)
    }
    own.groups++
    return result
  }
}
