/** Stops a venue: `drain` completes pending work, `close` releases the parts and ports. */
import { type History, HistoryBroken } from '../history/contract'
import { LIMITS } from '../limits'
import { encodeState } from '../machine/codec/encode_state'
import type { AccountsPort } from '../ports'
import type { Engine } from './assemble'

/** Rejects new orders, sends `bye` to streams, lands batches and anchors within time limits, then writes a snapshot. */
export async function drain(engine: Engine): Promise<void> {
  const { availability, hub, pump, anchoring, sequencer } = engine
  availability.drain()
  if (!availability.isStopped()) await engine.grace.disarmAll()
  hub.bye('upgrade', LIMITS.restart_retry_after_ms)
  if (availability.isStopped()) return
  await engine.closing.drain(LIMITS.stop_landing_ms)
  await pump.idle()
  await within(LIMITS.stop_landing_ms, engine.landings.done())
  // An unreachable chain must not block the exit: the journal is complete.
  await within(
    LIMITS.stop_anchor_ms,
    anchoring.now().catch(() => undefined),
  )
  await sequencer.durable()
  await engine.snapshotting.stop()
  await writeSnapshot(engine)
}

/** Writes the state as of the newest durable record, once no record is pending. */
async function writeSnapshot(engine: Engine): Promise<void> {
  const { loaded, sequencer, state } = engine
  do await sequencer.durable()
  while (sequencer.seq_durable !== sequencer.seq_executed)
  // No await between the loop and these lines: bytes and head belong to the same record.
  const { seq, head } = loaded.journal.head()
  const bytes = encodeState(state)
  // A snapshot ahead of the read models would skip their missing events: broken ones are rebuilt from the start.
  if (!(await flushed(loaded.history))) return
  loaded.facts.mark(seq)
  await loaded.snapshots.writeSnapshot(seq, head, () => [bytes])
}

/** Closes every part and the ports, producers before consumers. */
export async function close(engine: Engine, accounts: AccountsPort): Promise<void> {
  const { chain, hash, pump, anchoring, sequencer, loaded } = engine
  anchoring.stop()
  pump.stop()
  engine.closing.stop()
  engine.grace.stop()
  engine.retention.stop()
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

/** False when the read models are broken. */
async function flushed(history: History): Promise<boolean> {
  try {
    await history.flush()
    return true
  } catch (error) {
    if (error instanceof HistoryBroken) return false
    throw error
  }
}

/** Resolves when `work` does, or after `ms`. */
async function within(ms: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, bound])
  clearTimeout(timer)
}
