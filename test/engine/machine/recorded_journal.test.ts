/** A journal recorded once keeps its meaning: each build gives the same outcomes and the same state, byte for byte. */
import { expect, test } from 'bun:test'
import { gunzipSync } from 'node:zlib'
import { decodeCommand } from '../../../engine/machine/codec/command_codec'
import { decodeState } from '../../../engine/machine/codec/decode_state'
import { encodeState } from '../../../engine/machine/codec/encode_state'
import { execute } from '../../../engine/machine/rules/execute'
import type { Env } from '../../../engine/machine/state/outcome'
import { createState } from '../../../engine/machine/state/state'
import { utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { checkpoints } from '../../golden/recorded_journal.json'
import { FIXED_HASH_SEED, seeded } from '../../kit/venue/machine_world'

/** Commands of every kind of trade, payment, exit and halt, each behind its length in 4 bytes, compressed. */
const file = new URL('../../golden/recorded_journal.gz', import.meta.url)

const env: Env = { batchSeed: (symbol, batch, epoch) => seeded(`seed ${symbol} ${batch} ${epoch}`) }

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
  if (typeof value === 'bigint') return value.toString()
  return value instanceof Uint8Array ? value.toHex() : value
}

test('a recorded journal gives the outcomes and states it gave when it was recorded', async () => {
  const commands = await recorded()
  expect(commands.length).toBe(checkpoints.at(-1)!.commands)
  let state = createState(FIXED_HASH_SEED)
  let outcomes = utf8('outcomes')
  const reached: typeof checkpoints = []
  commands.forEach((bytes, at) => {
    const outcome = execute(state, decodeCommand(bytes), env)
    outcomes = sha256(outcomes, utf8(JSON.stringify(outcome, plain)))
    if (!checkpoints.some((one) => one.commands === at + 1)) return
    const snapshot = encodeState(state)
    reached.push({ commands: at + 1, state: sha256(snapshot).toHex(), outcomes: outcomes.toHex() })
    // From here on by a state that went through a snapshot, as after a boot.
    state = decodeState(snapshot, FIXED_HASH_SEED)
    expect(encodeState(state)).toEqual(snapshot)
  })
  expect(reached).toEqual(checkpoints)
})
