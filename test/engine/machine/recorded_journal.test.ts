/** A journal recorded once keeps its meaning: each build gives the same outcomes and the same state, byte for byte. */
import { expect, test } from 'bun:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import type { CommandBody } from '../../../engine/commands'
import { decodeCommand } from '../../../engine/machine/codec/command_codec'
import { decodeState } from '../../../engine/machine/codec/decode_state'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import { execute } from '../../../engine/machine/rules/execute'
import { createState } from '../../../engine/machine/state/state'
import { concatBytes, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { expectGolden } from '../../kit/golden'
import { FIXED_HASH_SEED } from '../../kit/venue/machine_world'
import { played, steps } from './random_commands'

/** Commands of every kind of trade, payment, exit and halt, each behind its length in 4 bytes, compressed. */
const file = new URL('../../golden/recorded_journal.gz', import.meta.url)

/** `UPDATE_GOLDEN=1` records another journal: only for a build whose records have another layout. */
async function record(): Promise<void> {
  const streams = fc.sample(steps, { seed: 16, numRuns: 24 })
  const { journal } = played(streams.flat(), (world, at) => {
    if (at % 400 === 399)
      for (const kind of ['halted', 'resumed'] as const)
        world.must({ kind, reason: 'vault_paused' } as CommandBody)
  })
  const framed = journal.flatMap((bytes) => {
    const length = new Uint8Array(4)
    new DataView(length.buffer).setUint32(0, bytes.length, true)
    return [length, bytes]
  })
  await Bun.write(file, gzipSync(concatBytes(...framed)))
}

async function recorded(): Promise<Uint8Array[]> {
  const all = new Uint8Array(gunzipSync(await Bun.file(file).bytes()))
  const view = new DataView(all.buffer)
  const commands: Uint8Array[] = []
  for (let at = 0; at < all.length; at += 4 + view.getUint32(at, true)) {
    commands.push(all.slice(at + 4, at + 4 + view.getUint32(at, true)))
  }
  return commands
}

function plain(_: string, value: unknown): unknown {
  if (value instanceof Map) return [...value]
  if (typeof value === 'bigint') return value.toString()
  return value instanceof Uint8Array ? value.toHex() : value
}

const CHECK_EVERY = 500

test('a recorded journal gives the outcomes and states it gave when it was recorded', async () => {
  if (process.env['UPDATE_GOLDEN'] === '1') await record()
  const commands = await recorded()
  let state = createState(FIXED_HASH_SEED)
  let outcomes = utf8('outcomes')
  const checkpoints: { commands: number; state: string; outcomes: string }[] = []
  commands.forEach((bytes, at) => {
    const outcome = execute(state, decodeCommand(bytes), {})
    outcomes = sha256(outcomes, utf8(JSON.stringify(outcome, plain)))
    if ((at + 1) % CHECK_EVERY > 0 && at + 1 < commands.length) return
    const snapshot = encodeState(state)
    checkpoints.push({ commands: at + 1, state: sha256(snapshot).toHex(), outcomes: outcomes.toHex() })
    // From here on by a state that went through a snapshot, as after a boot.
    state = decodeState(snapshot, FIXED_HASH_SEED)
    expect(encodeState(state)).toEqual(snapshot)
  })
  expectGolden('recorded_journal.json', { checkpoints })
})
