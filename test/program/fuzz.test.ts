/**
 * Mutated transactions against the vault program, judged by a model of its rules. The seed is printed;
 * TACIT_FUZZ_SEED repeats a run, TACIT_FUZZ_RUNS makes it longer than the few seconds it gets here, TACIT_FUZZ_AIM names
 * the instructions to mutate (a regular expression; all of them without it).
 */
import { expect, test } from 'bun:test'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { installPoseidon } from '../../protocol/notes/poseidon'
import { VAULT_SO } from '../kit/vault/vault_chain'
import { campaign, type Tally } from './fuzz/campaign'

const RUNS = Number(process.env['TACIT_FUZZ_RUNS'] ?? 0)
const SEED = Number(process.env['TACIT_FUZZ_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const AIM = new RegExp(process.env['TACIT_FUZZ_AIM'] ?? '')
const SHORT_MS = 4_000
const RUNS_LEAST = 20

const native = loadNativePoseidon()
if (native) installPoseidon(native)

const listed = (counts: Map<string, number>): string =>
  [...counts]
    .sort(([, a], [, b]) => b - a)
    .map(([name, times]) => `${name} ${times}`)
    .join(', ')

function report(tally: Tally, took_ms: number): string {
  const { runs, worlds, honest, landed, unsendable } = tally
  const rate = Math.round((runs * 1_000) / took_ms)
  return [
    `fuzz: seed ${SEED}, ${runs} mutated transactions in ${worlds} worlds, ${rate} per second`,
    `  ${honest} honest steps, ${landed} mutants landed as the rules say, ${unsendable} fit no transaction`,
    `  landed: ${listed(tally.landed_by)}`,
    `  refused: ${listed(tally.refused)}`,
  ].join('\n')
}

test(
  'no mutated transaction does what the rules forbid, changes what it should not, or crashes the program',
  () => {
    const begun = performance.now()
    const isOver = (): boolean => RUNS === 0 && performance.now() - begun > SHORT_MS
    const runs = RUNS || Number.MAX_SAFE_INTEGER
    const tally = campaign({ seed: SEED, elf: VAULT_SO, runs, isOver, aim: AIM })
    console.log(report(tally, performance.now() - begun))
    expect(tally.finding).toBeUndefined()
    expect(tally.runs).toBeGreaterThan(RUNS_LEAST)
  },
  { timeout: RUNS > 0 ? 86_400_000 : 120_000 },
)
