/** The way down: drain finishes what was promised, close frees what is held. */
import { type History, HistoryBroken } from '../history/contract'
import { LIMITS } from '../limits'
import { encodeState } from '../machine/codec/encode_state'
import type { AccountsPort } from '../ports'
import type { Engine } from './assemble'

/** Refuses new orders, says goodbye, lands and anchors within bounds, then writes a snapshot. */
export async function drain(engine: Engine): Promise<void> {
  const { availability, hub, pump, anchoring, sequencer } = engine
  availability.drain()
  if (!availability.isStopped()) await engine.grace.disarmAll()
  hub.bye('upgrade', LIMITS.restart_retry_after_ms)
  if (availability.isStopped()) return
  await pump.idle()
  await within(LIMITS.stop_landing_ms, engine.landings.done())
  // A chain that does not answer must not keep the process: the journal holds everything.
  await within(
    LIMITS.stop_anchor_ms,
    anchoring.now().catch(() => undefined),
  )
  await sequencer.durable()
  await engine.snapshotting.stop()
  await writeSnapshot(engine)
}

/** Writes the state as of the newest durable record, at the first moment at which nothing is under way. */
async function writeSnapshot(engine: Engine): Promise<void> {
  const { loaded, sequencer, state } = engine
  do await sequencer.durable()
  while (sequencer.seq_durable !== sequencer.seq_executed)
  // No await up to here: bytes and head are of the same record.
  const { seq, head } = loaded.journal.head()
  const bytes = encodeState(state)
  // A snapshot may only stand where the read models have arrived: broken ones are rebuilt from the start.
  if (!(await flushed(loaded.history))) return
  loaded.facts.mark(seq)
  await loaded.snapshots.writeSnapshot(seq, head, () => [bytes])
}

/** Ends every part in the order in which they feed each other; the ports are closed too. */
export async function close(engine: Engine, accounts: AccountsPort): Promise<void> {
  const { chain, hash, pump, anchoring, sequencer, loaded } = engine
  anchoring.stop()
  pump.stop()
  engine.grace.stop()
  engine.upkeep.stop()
  engine.signatures.close()
  await chain.close()
  await sequencer.durable().catch(() => undefined)
  await engine.snapshotting.close()
  await loaded.journal.close()
  await loaded.history.close()
  loaded.facts.close()
  await hash.close()
  await accounts.close()
}

async function flushed(history: History): Promise<boolean> {
  try {
    await history.flush()
    return true
  } catch (error) {
    if (error instanceof HistoryBroken) return false
    throw error
  }
}

async function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, bound])
  clearTimeout(timer)
}
