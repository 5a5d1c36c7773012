/** The version of rules and formats in the state, over this build and one that carries the next (cluster.md "Upgrade"). */
import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { decodeReplayed } from '../../engine/machine/codec/command_codec'
import { decodeState, encodeState, stateHash } from '../../engine/machine/codec/state_codec'
import { execute } from '../../engine/machine/rules/execute'
import { createState, FIRST_VERSION, VERSIONS, VersionUnknown } from '../../engine/machine/state/state'
import { played, steps } from '../engine/machine/random_commands'
import { NEXT_TIMER_SLOTS, NEXT_VERSION, nextBuild } from '../kit/copy_tree'
import { FIXED_HASH_SEED, SIGNATURE, seeded, World } from '../kit/venue/machine_world'

const copy = nextBuild()
afterAll(() => copy.remove())
const at = <M>(path: string): Promise<M> => import(join(copy.root, path))
type Codec = {
  decodeState: typeof decodeState
  encodeState: typeof encodeState
  execute: typeof execute
  createState: typeof createState
}
const next = {
  ...(await at<Pick<Codec, 'decodeState'>>('engine/machine/codec/state_codec.ts')),
  ...(await at<Pick<Codec, 'encodeState'>>('engine/machine/codec/state_codec.ts')),
  ...(await at<Pick<Codec, 'execute'>>('engine/machine/rules/execute.ts')),
  ...(await at<Pick<Codec, 'createState'>>('engine/machine/state/state.ts')),
} as Codec

const activate = { kind: 'activate', version: NEXT_VERSION } as const

function replayed({ createState: create, execute: run }: Codec, journal: readonly Uint8Array[]) {
  const state = create(FIXED_HASH_SEED)
  for (const bytes of journal) expect(run(state, decodeReplayed(bytes), {}, 'skipped').ok).toBe(true)
  return state
}
const own: Codec = { decodeState, encodeState, execute, createState }

/** A timer, armed by the rules of the state's version. */
function armed(world: World): number {
  const body = { account_id: world.account('alice'), trading_key: seeded('alice key'), signature: SIGNATURE }
  const outcome = world.must({ kind: 'dead_man', ...body, cancel_nonce: 1n, timeout_slots: 7 })
  return (outcome.answer as { result: { expires_slot: number } }).result.expires_slot
}

describe('this build', () => {
  test('a state begins in the first version, which is the first byte of its snapshot and part of its hash', () => {
    const { state } = new World()
    expect(state.version).toBe(FIRST_VERSION)
    expect(encodeState(state)[0]).toBe(FIRST_VERSION)
    const other = new World().state
    other.version = NEXT_VERSION
    expect(stateHash(other)).not.toEqual(stateHash(state))
  })

  test('it carries versions without a gap, and stops at one that it does not carry, with nothing changed', () => {
    expect(VERSIONS.map((version) => version - FIRST_VERSION)).toEqual([...VERSIONS.keys()])
    const world = new World()
    const before = encodeState(world.state)
    for (const version of [0, FIRST_VERSION, FIRST_VERSION + 2])
      expect(() => world.run({ kind: 'activate', version })).toThrow('follows the one before')
    expect(() => world.run(activate)).toThrow(VersionUnknown)
    world.state.unix_ms = new World().state.unix_ms
    expect(encodeState(world.state)).toEqual(before)
  })

  test('the message names the build to start', () => {
    expect(new VersionUnknown(NEXT_VERSION).message).toContain(`carries ${FIRST_VERSION}: start a build`)
  })
})

describe('the build after it', () => {
  test('before the activation both give the same states, byte for byte, and read the snapshots of each other', () => {
    fc.assert(
      fc.property(steps, (stream) => {
        const { journal, state } = played(stream)
        const bytes = encodeState(state)
        expect(next.encodeState(replayed(next, journal))).toEqual(bytes)
        expect(next.encodeState(next.decodeState(bytes, FIXED_HASH_SEED))).toEqual(bytes)
        expect(encodeState(decodeState(next.encodeState(replayed(next, journal)), FIXED_HASH_SEED))).toEqual(
          bytes,
        )
      }),
      { numRuns: 15 },
    )
  })

  test('from the activation on its next rule and its next format count, in a replay and from a snapshot, too', async () => {
    const { World: NextWorld } = await at<{ World: typeof World }>('test/kit/venue/machine_world.ts')
    const [old, fresh] = [new World(), new NextWorld()]
    const old_slot = armed(old)
    expect(old_slot % NEXT_TIMER_SLOTS).not.toBe(0)
    const cut = fresh.journal.length
    const kept = encodeState(new World().state)
    fresh.must(activate)
    expect(armed(fresh)).toBe(Math.ceil(old_slot / NEXT_TIMER_SLOTS) * NEXT_TIMER_SLOTS)
    const bytes = next.encodeState(fresh.state)
    expect(bytes[0]).toBe(NEXT_VERSION)
    expect(next.encodeState(replayed(next, fresh.journal))).toEqual(bytes)
    expect(next.encodeState(next.decodeState(bytes, FIXED_HASH_SEED))).toEqual(bytes)
    // A snapshot of the version before, and the journal from there.
    const resumed = next.decodeState(kept, FIXED_HASH_SEED)
    for (const one of fresh.journal.slice(cut)) next.execute(resumed, decodeReplayed(one), {}, 'skipped')
    expect(next.encodeState(resumed)).toEqual(bytes)
  })

  test('the build before it reads neither the snapshot nor the journal behind the activation', async () => {
    const { World: NextWorld } = await at<{ World: typeof World }>('test/kit/venue/machine_world.ts')
    const world = new NextWorld()
    const cut = world.journal.length
    world.must(activate)
    armed(world)
    expect(() => decodeState(next.encodeState(world.state), FIXED_HASH_SEED)).toThrow(VersionUnknown)
    expect(() => replayed(own, world.journal)).toThrow(VersionUnknown)
    expect(replayed(own, world.journal.slice(0, cut)).version).toBe(FIRST_VERSION)
  })
})
