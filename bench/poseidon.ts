/**
 * Measures Poseidon: `bun bench/poseidon.ts`. Hashes per second of each implementation and arity, the hashing of a full
 * settlement batch, and 1,024 leaves appended to the note tree; compiled and
 * pure in turns in the same run, in processor time of one thread: steadier than wall time where others share the machine.
 */
import { emptyTrees, hashBatch, type Trees } from '../engine/hashing/tree_files'
import { loadNativePoseidon } from '../native/load_poseidon'
import { MerkleTree } from '../protocol/notes/merkle_tree'
import { installPoseidon, type PoseidonHasher, poseidonEach, purePoseidon } from '../protocol/notes/poseidon'
import { type Figure, median, numbers, random, report } from './kit/figures'
import { elements, hashJob, ORDERS } from './settling/batch_work'

const { rounds } = numbers({ rounds: 7 })
const LEAVES = 1_024

const next = random(1)

function milliseconds(work: () => void): number {
  const started = process.cpuUsage()
  work()
  const { user, system } = process.cpuUsage(started)
  return (user + system) / 1_000
}

function hashesPerSecond(arity: number): number {
  const count = 500
  const groups = new Uint8Array(count * arity * 32).map((_, at) => (at % 32 === 0 ? 0 : next() & 255))
  return (count * 1_000) / milliseconds(() => poseidonEach(arity, groups))
}

const native = loadNativePoseidon()
const implementations: [name: string, hasher: PoseidonHasher][] = [['pure', purePoseidon]]
if (native === undefined) console.log('the compiled library is not measured: it is built for x86-64 Linux')
else implementations.unshift(['native', native])

const figures = new Map<string, { unit: string; values: number[] }>()
function note(figure: string, unit: string, value: number): void {
  const known = figures.get(figure) ?? { unit, values: [] }
  known.values.push(value)
  figures.set(figure, known)
}

installPoseidon(implementations[0]![1])
/** Each implementation gets equal trees. */
const trees = new Map<string, Trees>(implementations.map(([name]) => [name, emptyTrees()]))

for (let round = 1; round <= rounds; round++) {
  const job = hashJob(round)
  const leaves = elements(LEAVES)
  const roots = new Set<string>()
  for (const [name, hasher] of implementations) {
    if (!installPoseidon(hasher)) throw new Error(`${name} gives other hashes`)
    for (const arity of [2, 3, 4, 5]) note(`${name}, ${arity} inputs`, 'hashes/s', hashesPerSecond(arity))
    note(
      `${name}, batch of ${ORDERS} orders`,
      'ms',
      milliseconds(() => hashBatch(trees.get(name)!, job)),
    )
    note(
      `${name}, append of ${LEAVES} leaves`,
      'ms',
      milliseconds(() => new MerkleTree().append(leaves)),
    )
    roots.add(trees.get(name)!.spent.root().toHex())
  }
  if (roots.size !== 1) throw new Error('the implementations disagree')
}

const measured = (figure: string): number => median(figures.get(figure)!.values)
function beside(figure: string, unit: string): string | undefined {
  const pure = figure.replace('native', 'pure')
  if (pure === figure) return undefined
  const ratio = unit === 'ms' ? measured(pure) / measured(figure) : measured(figure) / measured(pure)
  return `${ratio.toFixed(1)} times as fast as pure`
}
const printed = [...figures].map(([figure, { unit }]): Figure => {
  const comparison = beside(figure, unit)
  const row = { figure, value: measured(figure), unit }
  return comparison === undefined ? row : { ...row, beside: comparison }
})
report('poseidon', printed)
