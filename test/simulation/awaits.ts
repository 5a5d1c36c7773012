/** Names every `await` of the product, and ends a process at the one that a schedule chose. */
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { openGraph, readTree } from '../../tools/check/module_graph'
import { parseSource } from '../../tools/check/parse_source'
import { type Node, walk } from '../../tools/check/syntax'

/** That have not ended. */
export const lives = new Set<Life>()
/** Where the processes that live wait now. */
export function* waiting(): Generator<Await> {
  for (const life of lives) for (const { at } of life.waiting) yield at
}

/** One process of the simulation, or a thread of one; nothing reaches one that ended. */
export class Life {
  /** Those at which it waits. */
  readonly waiting = new Set<{ readonly at: Await }>()
  private ended = false
  constructor(readonly of?: Life) {
    lives.add(this)
  }
  get alive(): boolean {
    return !this.ended && this.of?.alive !== false
  }
  end(): void {
    this.ended = true
    for (const life of lives) if (!life.alive) lives.delete(life)
  }
  /** Without a stop: wherever it waits, it ends. */
  crash(): void {
    for (const life of lives) if (life.isOf(this)) for (const { at } of life.waiting) at.crashes++
    this.end()
  }
  isOf(life: Life): boolean {
    return this === life || this.of?.isOf(life) === true
  }
}
/** `reached`: the process ends while it waits; `answered`: when the value has come and nothing has used it. */
export type Moment = 'reached' | 'answered'
export type Await = {
  readonly name: string
  /** Hash of the text of its file. */
  readonly text: string
  visits: number
  /** Processes that ended here while the rest went on. */
  crashes: number
  /** Stops of everything here. */
  stops: number
  /** Stops that the run under way has prepared. */
  planned: number
  /** Schedules that chose it. */
  chosen: number
  /** Whether a visit was while the venue started, stopped, or served. */
  readonly phases: Set<string>
}
type Target = {
  meets: (one: Await) => boolean
  /** Of those that it meets. */
  visits_left: number
  moment: Moment
  end: (life: Life, at: Await) => void
}

const ROOT = `${new URL('../..', import.meta.url).pathname.replace(/\/$/, '')}/`
export const awaits: Await[] = []
const known = new Map<string, number>()

/** Set by the simulation: the process that runs now, by the folder of the code. */
export const run: {
  /** Of code of the venue that no process began. */
  venue: Life | undefined
  current: () => { life: Life; side: 'client' | 'venue' } | undefined
  phase: string
  target: Target | undefined
  /** Is called at every moment at which a process could end. */
  visit: ((one: Await, moment: Moment) => void) | undefined
} = { venue: undefined, current: () => undefined, phase: 'none', target: undefined, visit: undefined }

/** The process or thread whose code of the venue runs now. */
export const ownLife = (): Life | undefined => {
  const current = run.current()
  return current?.side === 'venue' ? current.life : run.venue
}

/** A new one each time: a process that ended waits at it, and is collected with it. */
const never = (): Promise<never> => new Promise(() => undefined)
/** A process that ended waits for nothing; a rejection that it would have got is dropped. */
function leave(value: unknown): Promise<never> {
  Promise.resolve(value).catch(() => undefined)
  return never()
}

function at(number: number, value: unknown): unknown {
  const one = awaits[number]!
  one.visits++
  const side = one.name.startsWith('client/') ? 'client' : 'venue'
  const current = run.current()
  const life = side === 'venue' ? ownLife() : current?.side === 'client' ? current.life : undefined
  if (life === undefined) return value
  if (one.phases.size < 4) one.phases.add(side === 'client' ? 'serves' : run.phase)
  if (!life.alive) return leave(value)
  run.visit?.(one, 'reached')
  const { target } = run
  let ends: Target | undefined
  if (target?.meets(one) === true && --target.visits_left === 0) {
    ends = target
    run.target = undefined
    if (target.moment === 'reached') {
      one.crashes++
      target.end(life, one)
      return leave(value)
    }
  }
  const then = (value as PromiseLike<unknown> | undefined)?.then
  if (typeof then !== 'function' && ends === undefined) return value
  const waits = { at: one }
  life.waiting.add(waits)
  const goes = (): boolean => {
    life.waiting.delete(waits)
    if (ends !== undefined && life.alive) {
      one.crashes++
      ends.end(life, one)
    }
    if (life.alive) run.visit?.(one, 'answered')
    return life.alive
  }
  return Promise.resolve(value).then(
    (got) => (goes() ? got : never()),
    (error) => {
      if (goes()) throw error
      return never()
    },
  )
}

async function* each(number: number, values: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  const iterator = values[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = (await at(number, iterator.next())) as IteratorResult<unknown>
      if (next.done) return
      yield next.value
    }
  } finally {
    await iterator.return?.()
  }
}
Object.assign(globalThis, { $at: at, $each: each })

export const PRODUCT = /^(engine|server|routes|enclave|client\/(session|wallet|api))\/|^client\/[^/]+\.ts$/
/** Of the process of a venue and of a client's session: what else is of these folders is loaded by commands alone. */
const ENTRIES = ['server/join_process.ts', 'client/session/session.ts']

/** Those of the venue: of files that the entries import, with the threads that they start, whether or not they were loaded. */
export function venueAwaits(): Await[] {
  const tree = [...readTree(ROOT)].filter(([name]) => /^(engine|server|routes|enclave|client)\//.test(name))
  const { edges } = openGraph(new Map(tree))
  const files = new Set<string>()
  const add = (file: string): void => {
    if (files.has(file) || !edges.has(file)) return
    files.add(file)
    for (const { kind, target } of edges.get(file)!) if (target !== undefined && kind !== 'type') add(target)
  }
  for (const entry of ENTRIES) add(entry)
  for (const name of files) if (PRODUCT.test(name)) instrument(ROOT + name, readFileSync(ROOT + name, 'utf8'))
  return awaits.filter(({ name }) => files.has(name.split(':')[0]!))
}

/** The text of a file in which each `await` reports; the numbers of its awaits are those of its places. */
export function instrument(path: string, text: string): string {
  const edits: [at: number, text: string][] = []
  const of_text = Bun.hash(text).toString(36)
  const number = (start: number): number => {
    const lines = text.slice(0, start).split('\n')
    const name = `${relative(ROOT, path)}:${lines.length}:${lines.at(-1)!.length + 1}`
    const found = known.get(name) ?? awaits.length
    if (found === awaits.length) {
      awaits.push({
        name,
        text: of_text,
        visits: 0,
        crashes: 0,
        stops: 0,
        planned: 0,
        chosen: 0,
        phases: new Set(),
      })
      known.set(name, found)
    }
    return found
  }
  walk(parseSource(path, text).program, undefined, (node) => {
    const { start } = node
    const mark = (call: string, part: unknown) => {
      const inner = part as Node
      edits.push([inner.start, `${call}(${number(start)}, `], [inner.end, ')'])
    }
    if (node.type === 'AwaitExpression') mark('$at', node['argument'])
    if (node.type === 'ForOfStatement' && node['await'] === true) mark('$each', node['right'])
  })
  const sorted = edits.map((edit, order) => ({ edit, order }))
  sorted.sort((a, b) => a.edit[0] - b.edit[0] || a.order - b.order)
  let out = ''
  let from = 0
  for (const { edit } of sorted) {
    out += text.slice(from, edit[0]) + edit[1]
    from = edit[0]
  }
  return out + text.slice(from)
}
