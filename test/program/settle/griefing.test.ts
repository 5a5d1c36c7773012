/**
 * Random settlements between strangers who choose destinations, bond payers and moments: every batch lands at once within
 * its formula of units, every queue entry closes, no exit is paid twice, every mint conserves, every served owner's payer
 * gets the bond. TACIT_GRIEF_RUNS makes it longer, TACIT_GRIEF_SEED repeats a run.
 */
import { expect, test } from 'bun:test'
import { loadNativePoseidon } from '../../../native/load_poseidon'
import { installPoseidon } from '../../../protocol/notes/poseidon'
import { Chance } from '../fuzz/chance'
import { ACTS } from './griefing_acts'
import { Arena } from './griefing_arena'

const RUNS = Number(process.env['TACIT_GRIEF_RUNS'] ?? 120)
const SEED = Number(process.env['TACIT_GRIEF_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
/** Settlements of one vault: its trees are modelled in memory. */
const ARENA_RUNS = 200

const native = loadNativePoseidon()
if (native) installPoseidon(native)

const tally = new Map(Object.keys(ACTS).map((name) => [name, 0]))
const count = (name: string): void => void tally.set(name, (tally.get(name) ?? 0) + 1)

/** Some acts, each the rarest so far of three. */
function act(arena: Arena, moment: string): void {
  const { chance } = arena
  for (let acts = chance.below(5); acts > 0; acts--) {
    const names = Object.keys(ACTS)
    const drawn = [chance.pick(names), chance.pick(names), chance.pick(names)]
    const name = drawn.reduce((least, one) => (tally.get(one)! < tally.get(least)! ? one : least))
    if (!ACTS[name]!(arena)) continue
    count(name)
    count(moment)
  }
}

test(`strangers hinder no batch, no payment and no bond (seed ${SEED})`, () => {
  const chance = new Chance(SEED)
  for (let run = 0; run < RUNS; ) {
    const arena = new Arena(chance, count)
    for (let turn = 0; turn < ARENA_RUNS && run < RUNS; turn++, run++) {
      arena.settle((moment) => act(arena, moment))
      if (arena.waiting.length === 0 || chance.oneIn(4)) arena.pay()
      arena.judge()
    }
    arena.drain()
    // The collector does not see the memory of the SVM that an arena held.
    Bun.gc(true)
  }
  console.log(`griefing: seed ${SEED}, ${RUNS} settlements, ${JSON.stringify(Object.fromEntries(tally))}`)
  const wanted = ['exit queued', 'withdrawal queued', 'batch landed while the queue was full']
  const outcomes = [
    'paid',
    'destination_missing',
    'destination_frozen',
    'destination_refuses',
    'vault_frozen',
  ]
  const counted = [...tally.keys(), ...wanted, ...outcomes.map((name) => `outcome ${name}`)]
  expect(counted.filter((name) => !tally.get(name))).toEqual([])
}, 86_400_000)
