/**
 * The fuzzer's transactions in two executors: litesvm and Mollusk end each of them with the same error, or with the same
 * accounts and compute units. TACIT_SECOND_RUNS builds the second one (cargo) and makes a long run, TACIT_SECOND_SEED
 * repeats one.
 */
import { expect, test } from 'bun:test'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { loadNativePoseidon } from '../../../../native/load_poseidon'
import { buildProgram, toolchainMissing } from '../../../../program/build'
import { installPoseidon } from '../../../../protocol/notes/poseidon'
import { VAULT_SO } from '../../../kit/vault/vault_chain'
import { campaign, WORLD_RUNS } from '../campaign'
import { buildSecond, runSecond, secondMissing } from './build'
import { Recorder } from './record'

const RUNS = Number(process.env['TACIT_SECOND_RUNS'] ?? 0)
const SEED = Number(process.env['TACIT_SECOND_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const SHORT_RUNS = 300
const PROGRAM = join(import.meta.dir, '../../../../program')
/** `program/src/error.rs`. */
const BELOW_MIN_DEPOSIT = 7033
const LONG_MS = 86_400_000

const native = loadNativePoseidon()
if (native) installPoseidon(native)

if (RUNS > 0) buildSecond()
const missing = secondMissing()
if (missing !== undefined) console.log(`the second executor does not run here: ${missing}`)

/** One world whose transactions one executor runs with `first`, and the other with `second`. */
function oneWorld(seed: number, runs: number, first: Uint8Array, second = first) {
  const recorder = new Recorder(first, second)
  const tally = campaign({ seed, elf: first, runs, isOver: () => false, aim: /./, witness: recorder })
  expect(tally.finding).toBeUndefined()
  return { ...runSecond(recorder.bytes()), recorded: recorder.recorded, outside: recorder.outside }
}

test.skipIf(missing !== undefined)(
  'both executors agree on every transaction',
  () => {
    const total = { compared: 0, landed: 0, outside: 0 }
    for (let world = 0; total.compared < Math.max(RUNS, 1); world++) {
      const seed = (SEED + world) >>> 0
      const { compared, landed, recorded, outside, differences } = oneWorld(
        seed,
        RUNS > 0 ? WORLD_RUNS : SHORT_RUNS,
        VAULT_SO,
      )
      expect({ seed, differences, compared }).toEqual({ seed, differences: [], compared: recorded })
      total.compared += compared
      total.landed += landed
      total.outside += outside
    }
    const { compared, landed, outside } = total
    console.log(
      `second executor: seed ${SEED}, ${compared} transactions equal, ${landed} of them landed; ${outside} not comparable`,
    )
    expect(landed).toBeGreaterThan(10)
  },
  { timeout: RUNS > 0 ? LONG_MS : 120_000 },
)

test.skipIf(missing !== undefined || toolchainMissing() !== undefined)(
  'a program with one other comparison differs',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'vault-planted-'))
    try {
      cpSync(join(PROGRAM, 'src'), folder, { recursive: true })
      const path = join(folder, 'instructions/deposit.rs')
      const source = readFileSync(path, 'utf8')
      const altered = source.replace('amount >= record.min_deposit()', 'amount <= record.min_deposit()')
      expect(altered).not.toBe(source)
      writeFileSync(path, altered)
      const { elf } = buildProgram(relative(PROGRAM, join(folder, 'lib.rs')))
      const { differences } = oneWorld(1, SHORT_RUNS, VAULT_SO, elf)
      expect(differences.join('\n')).toContain(`Custom(${BELOW_MIN_DEPOSIT})`)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
  { timeout: 300_000 },
)
