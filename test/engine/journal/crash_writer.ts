/** The process that the crash test kills: writes groups as fast as it can and reports each one it was promised. */
import { writeSync } from 'node:fs'
import type { NewRecord } from '../../../engine/journal/contract'
import { openJournal } from '../../../engine/journal/open_journal'
import { CRASH_KEY, CRASH_SEGMENT_BYTES, encodeMark } from './crash_marks'
import { SIGNER } from './folder'

const [dir, seed] = [process.argv[2] as string, Number(process.argv[3])]
const journal = await openJournal({ dir, key: CRASH_KEY, segment_bytes: CRASH_SEGMENT_BYTES })
journal.signAs(SIGNER)

/** Small linear generator: a round is repeated by its seed. */
let state = seed
function random(below: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((state / 2 ** 32) * below)
}

function group(): NewRecord[] {
  const count = 1 + random(6)
  return Array.from({ length: count }, (_, index) => ({
    type: 1,
    unix_ms: seed,
    body: encodeMark({ count, index }, 16 + random(900)),
  }))
}

/** Several lanes keep groups queued while a write is under way. */
async function lane(): Promise<never> {
  for (;;) {
    const { seq_last, head } = await journal.append(group())
    writeSync(1, `${seq_last} ${head.toHex()}\n`)
  }
}
writeSync(1, `${journal.head().seq} ${journal.head().head.toHex()}\n`)
await Promise.all([lane(), lane(), lane(), lane()])
