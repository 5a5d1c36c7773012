/** A question to all providers takes every answer that comes soon, each time. */
import { expect, test } from 'bun:test'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'

test('a provider that answers after the quorum, but soon, is heard each time', async () => {
  const urls = ['one', 'two', 'three'].map((name) => `http://${name}.example`)
  const pool = new RpcPool(urls, 1_000)
  const ask = async (_: unknown, at: number) => {
    if (at === 2) await Bun.sleep(20)
    return at
  }
  for (let time = 0; time < 3; time++) {
    const answers = await pool.all(ask)
    expect(answers.map(({ value }) => value)).toEqual([0, 1, 2])
  }
  pool.close()
})
