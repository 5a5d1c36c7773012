/** A start from the older snapshot, because the read models end before the newest, loses neither. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { LIMITS } from '../../../engine/limits'
import { makeSnapshot } from '../../../engine/snapshots/make_snapshot'
import { TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const { stall_min_ms } = LIMITS
beforeAll(() => Object.assign(LIMITS, { stall_min_ms: 600_000 }))
afterAll(() => Object.assign(LIMITS, { stall_min_ms }))

for (const models of ['older', 'lost'])
  test(`a kept snapshot stays until the next is journaled, also where the read models are ${models}`, async () => {
    const site = new TestSite()
    try {
      const first = await site.open()
      const trader = await Trader.provisioned(first, 'alice')
      const again = async () => {
        trader.deposit('quote', 200_000_000n)
        await first.chain.finalizeLeaves()
        await first.engine.sequencer.durable()
      }
      await again()
      await first.engine.snapshotting.now()
      const dirs = ['history', 'facts'].map((name) => join(first.config.data_dir, name))
      await first.engine.loaded.history.flush()
      for (const dir of dirs) cpSync(dir, `${dir}-copy`, { recursive: true })
      await again()
      await first.engine.snapshotting.now()
      await first.engine.anchoring.now()
      const kept = first.engine.snapshotting.kept
      expect(kept).toHaveLength(2)
      await first.close()
      for (const dir of dirs) {
        rmSync(dir, { recursive: true })
        if (models === 'older') cpSync(`${dir}-copy`, dir, { recursive: true })
      }
      const second = await site.open()
      expect(second.engine.loaded.snapshot?.seq).toBe(models === 'older' ? kept[1] : undefined)
      const { data_dir } = second.config
      await second.engine.sequencer.durable()
      const point = {
        ...second.engine.loaded.journal.head(),
        unix_ms: 0,
        newest: second.engine.snapshotting.newest,
      }
      // And the process ends before the record.
      await makeSnapshot(
        {
          journal_dir: join(data_dir, 'journal'),
          snapshots_dir: join(data_dir, 'snapshots'),
          stores_dir: join(data_dir, 'stores'),
          journal_key: site.keys.journal_key,
          retention_ms: 86_400_000,
        },
        point,
      )
      expect(second.engine.loaded.snapshots.seqs()).toEqual([point.seq, ...kept])
      expect(second.engine.snapshotting.kept).toEqual(kept)
    } finally {
      await site.remove()
    }
  }, 60_000)
