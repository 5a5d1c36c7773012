/** No query by an id scans the rows of an account: reads run on the engine's thread, and an account may have millions of orders. */
import { Database } from 'bun:sqlite'
import { expect, spyOn, test } from 'bun:test'
import { join } from 'node:path'
import { pruneTables } from '../../../engine/history/prune_tables'
import { Names } from '../../../engine/history/seal'
import { Store } from '../../../engine/history/store'
import { DAY_MS, fill, id, KEY, order, Recorder, START_MS, withFolder, withHistory } from './account_events'

test('every query that names an id finds its rows by an index of ids', async () => {
  await withFolder((dir) =>
    withHistory(dir, async (history) => {
      const recorder = new Recorder(history)
      recorder.record('alice', 'order.accepted', order(1, 'accepted'))
      recorder.record('alice', 'fill.matched', fill(1, 0, 'matched'))
      await history.flush()
      const db = new Database(join(dir, 'history.sqlite'))
      const query = spyOn(db, 'query')
      const store = new Store(db, KEY)
      store.order('alice', id(1))
      store.orderSeq('alice', id(1), 9)
      store.isOrder(id(1))
      store.fillsOf('alice', id(1))
      store.fillSeq('alice', fill(1, 0, 'matched'))
      store.payment('withdrawal', id(1))
      const prune = pruneTables(db, new Names(KEY), START_MS + DAY_MS)
      while (prune());
      const sqls = query.mock.calls
        .map(([sql]) => sql as string)
        .filter((sql) => /\bid = /.test(sql) && !sql.includes('salts'))
      expect(sqls).toHaveLength(8)
      for (const sql of sqls) {
        const plan = db.prepare<{ detail: string }, []>(`EXPLAIN QUERY PLAN ${sql}`).all()
        const searches = plan
          .filter(({ detail }) => /^(SEARCH|SCAN)/.test(detail))
          .map(({ detail }) => detail)
        const others = searches.filter((detail) => !detail.includes('(id=?'))
        // The orders that a step of the pruning looks through.
        expect({ sql, others }).toEqual({
          sql,
          others: sql.includes('NOT EXISTS') ? [expect.stringMatching(/^SEARCH orders/)] : [],
        })
      }
      db.close()
    }),
  )
})
