/** Stops a venue: `drain` completes pending work, `close` releases the parts and ports. */
import { Refusal } from '../../protocol/refusals'
import { LIMITS } from '../limits'
import type { Engine } from './assemble'

/**
 * Gives the term to another node of a cluster; without one rejects new orders, sends `bye` to streams, lands batches and anchors within time limits, then writes a snapshot and gives
 * the lease back. Without the right to acknowledge, nothing more is written: the next boot continues from the journal.
 */
export async function drain(engine: Engine): Promise<void> {
  const { availability, hub, pump, anchoring, sequencer } = engine
  if (await handOver(engine)) return
  availability.drain()
  hub.bye('upgrade', LIMITS.restart_retry_after_ms)
  const isOver = () => availability.isStopped() || availability.barred() !== undefined
  const steps: [ms: number, step: () => Promise<void>][] = [
    [LIMITS.stop_landing_ms, () => engine.grace.disarmOwn()],
    [LIMITS.stop_landing_ms, () => engine.closing.drain(LIMITS.stop_landing_ms)],
    [LIMITS.stop_landing_ms, () => pump.idle()],
    [LIMITS.stop_landing_ms, () => engine.landings.done()],
    // An unreachable chain must not block the exit: the journal is complete.
    [LIMITS.stop_anchor_ms, () => anchoring.now().catch(() => undefined)],
    [LIMITS.stop_landing_ms, () => sequencer.durable()],
  ]
  for (const [ms, step] of steps) {
    if (isOver()) return
    await within(ms, step())
  }
  await engine.snapshotting.stop()
  if (isOver()) return
  pump.stop()
  anchoring.stop()
  availability.release()
  await within(
    LIMITS.stop_landing_ms,
    sequencer.durable(true).catch(() => undefined),
  )
  if (isOver()) return
  await engine.snapshotting.now()
  if (availability.isStopped()) return
  await within(LIMITS.stop_landing_ms, sequencer.submit({ kind: 'released' }))
  // Commands that a stalled disk still holds may become durable.
  sequencer.stop(new Refusal('outcome_unknown'))
}

/**
 * Gives the term to a node that follows. Everything received before is still served; later requests wait until that node leads,
 * so that a client that sends the same bytes again finds them there. False if no node can take over.
 */
async function handOver({ node, ...engine }: Engine): Promise<boolean> {
  const { availability, closing, loaded, sequencer, state } = engine
  const isOver = () => availability.isStopped() || availability.barred() !== undefined
  if (node === undefined || isOver()) return false
  const successor = await node.successor(() => loaded.journal.head().seq, state.version)
  if (successor === undefined) return false
  await engine.snapshotting.stop()
  // The next leader would find it void.
  await closing.drain(LIMITS.stop_landing_ms)
  if (isOver()) return false
  const { promise, resolve: leads } = Promise.withResolvers<void>()
  availability.hand(promise)
  availability.drain()
  availability.release()
  await within(LIMITS.stop_landing_ms, engine.grace.disarmOwn())
  await within(LIMITS.stop_landing_ms, settled(sequencer))
  engine.pump.stop()
  engine.anchoring.stop()
  closing.stop()
  // Records that an unreachable etcd has not confirmed may still become durable.
  sequencer.stop(new Refusal('outcome_unknown'))
  const given = node.handTo(successor).then(() => untilPassed(engine))
  await within(
    LIMITS.handover_ms,
    given.catch(() => undefined),
  )
  leads()
  // The commands that waited are answered before their sockets close.
  await new Promise(setImmediate)
  engine.hub.bye('upgrade', LIMITS.handover_retry_after_ms)
  return true
}

/** Resolves when everything executed is durable, and nothing of it is under way. */
async function settled(sequencer: Engine['sequencer']): Promise<void> {
  do await sequencer.durable()
  while (sequencer.seq_durable !== sequencer.seq_executed)
}

/** Resolves when the chain shows an epoch behind the own one. */
async function untilPassed({ chain, state }: Pick<Engine, 'chain' | 'state'>): Promise<void> {
  const isPassed = async () => (await chain.readConfig('confirmed')).epoch > state.epoch
  while (!(await isPassed().catch(() => false))) await Bun.sleep(LIMITS.lease_look_ms)
}

/** Closes every part and the ports, producers before consumers. */
export async function close(engine: Engine): Promise<void> {
  const { chain, hash, pump, anchoring, sequencer, loaded } = engine
  sequencer.arrived()
  anchoring.stop()
  pump.stop()
  engine.closing.stop()
  engine.grace.stop()
  engine.retention.stop()
  engine.disk_gauge.stop()
  engine.scrub.stop()
  engine.exporter.close()
  await chain.close()
  if (engine.availability.barred() !== undefined) sequencer.stop(new Refusal('outcome_unknown'))
  await sequencer.durable().catch(() => undefined)
  await engine.snapshotting.close()
  // After a drain that the lease cut short, work of before may still end; the journal takes nothing more of it.
  sequencer.stop(new Refusal('outcome_unknown'))
  await loaded.journal.close()
  engine.node?.stop()
  await loaded.history.close()
  loaded.facts.close()
  loaded.stores.close()
  await hash.close()
  engine.accounts.close()
}

/** Resolves when `work` does, or after `ms`. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const bound = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, bound])
  clearTimeout(timer)
}
