/** Snapshots and stores of a process that dies by kill -9 between and during writing them equal a replay. */
import { expect, test } from 'bun:test'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Loaded, loadState } from '../../../engine/boot/load_state'
import { encodeState } from '../../../engine/machine/codec/state_codec'
import { indexOf, PAST_KINDS, queuesOf, rowAt } from '../../../engine/machine/state/past'
import type { ChainPort } from '../../../engine/ports'
import { toHex } from '../../../protocol/bytes'
import { Ledger } from '../../kit/venue/memory_chain'
import { testConfig, testKeys } from '../../kit/venue/open_test_venue'

const ROUNDS = Number(process.env['TACIT_CRASH_ROUNDS'] ?? 4)
const SEED = Number(process.env['TACIT_CRASH_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const VICTIM = new URL('./snapshot_victim.ts', import.meta.url).pathname
const ROUND_MS_MAX = 90_000
const DELAY_MS_MAX = 60
/** Enough that parts of the stores are merged. */
const SNAPSHOTS_MAX = 7

/** Runs the victim until it has taken `snapshots`, then kills it at some later moment. @returns the lines it printed. */
async function trade(dir: string, snapshots: number, delay_ms: number): Promise<string[][]> {
  const child = Bun.spawn([process.execPath, VICTIM, dir, String(snapshots)], {
    stdout: 'pipe',
    stderr: 'pipe',
    // With the temporary folder of this run, which Bun does not hand on by itself.
    env: process.env,
  })
  const complaints = new Response(child.stderr).text()
  let text = ''
  let armed = false
  const decoder = new TextDecoder()
  for await (const chunk of child.stdout) {
    text += decoder.decode(chunk, { stream: true })
    if (armed || text.split('\nsnapshot').length <= snapshots) continue
    armed = true
    setTimeout(() => child.kill('SIGKILL'), delay_ms)
  }
  await child.exited
  expect(await complaints).toBe('')
  return text
    .slice(0, text.lastIndexOf('\n'))
    .split('\n')
    .map((line) => line.split(' '))
}

/** The state that a boot makes of the folder. */
async function boot(dir: string, lines: string[][]) {
  const facts = lines[0]!.slice(1).map((hex) => Uint8Array.fromHex(hex))
  const [genesis_hash, program_id, config_account, settlement_key] = facts
  const chain = { genesis_hash, program_id, config_account } as ChainPort
  // The chain died with the process, and covered nothing.
  const vault = { ...new Ledger([], settlement_key!).config, epoch: 1 }
  const loaded = await loadState(testConfig(dir), { keys: testKeys(), chain }, vault)
  expect(loaded.verdict.fault).toBeUndefined()
  // Including orders that moved from the state to the stores.
  const numbers = Array.from({ length: loaded.state.finals.rows.size }, (_, number) => number)
  const ended = numbers.map((number) =>
    rowAt(loaded.state, loaded.stores, 'finals', number).subarray(0, 16).toHex(),
  )
  const orders = new Set([...loaded.state.orders.keys(), ...ended])
  const found = {
    state: toHex(encodeState(loaded.state)),
    from_seq: loaded.snapshot?.seq ?? 0,
    rows: rowsOf(loaded),
    orders,
    live: new Set(loaded.state.orders.keys()),
  }
  await loaded.journal.close()
  await loaded.history.close()
  loaded.facts.close()
  loaded.stores.close()
  return found
}

/** A hash of all rows that ever left the state or are about to, each of which must be found by its key. */
function rowsOf({ state, stores }: Loaded): { hash: string; count: number } {
  const hash = createHash('sha256')
  let count = 0
  for (const kind of PAST_KINDS) {
    const end = queuesOf(state)[kind].size
    expect(queuesOf(state)[kind].first).toBeLessThanOrEqual(stores.covered[kind])
    for (let number = 0; number < end; number++) {
      const row = rowAt(state, stores, kind, number)
      expect(indexOf(state, stores, kind, row)).toBe(number)
      if (number < stores.covered[kind]) expect(stores.indexOf(kind, row)).toBe(number)
      hash.update(row)
    }
    count += stores.covered[kind]
  }
  return { hash: hash.digest('hex'), count }
}

test(
  `a boot from a snapshot of a killed venue equals a boot from its journal (${ROUNDS} rounds, seed ${SEED})`,
  async () => {
    let random = SEED
    for (let round = 0; round < ROUNDS; round++) {
      random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0
      const dir = mkdtempSync(join(tmpdir(), 'tacit-snapshots-'))
      try {
        const lines = await trade(dir, 1 + ((2 * round) % SNAPSHOTS_MAX), (random >>> 8) % DELAY_MS_MAX)
        const said = (word: string) => lines.filter(([first]) => first === word).map((line) => line[1]!)
        const from_snapshot = await boot(dir, lines)
        expect(from_snapshot.from_seq).toBeGreaterThanOrEqual(Number(said('snapshot').at(-1)))
        expect(said('placed').filter((id) => !from_snapshot.orders.has(id))).toEqual([])
        expect(said('cancelled').filter((id) => from_snapshot.live.has(id))).toEqual([])
        rmSync(join(dir, 'snapshots'), { recursive: true })
        const from_journal = await boot(dir, lines)
        expect(from_journal.from_seq).toBe(0)
        expect(from_snapshot.state === from_journal.state).toBe(true)
        expect(from_snapshot.rows).toEqual(from_journal.rows)
        expect(from_snapshot.rows.count).toBeGreaterThan(0)
        expect(existsSync(join(dir, 'snapshots'))).toBe(true)
      } finally {
        rmSync(dir, { recursive: true, force: true })
      }
    }
  },
  ROUNDS * ROUND_MS_MAX,
)
