/** The operator's list shows the terms in force of every account, and no hash of a secret. */
import { afterAll, expect, test } from 'bun:test'
import type { AccountSummary } from '../../../engine/venue'
import { encodeBase58 } from '../../../protocol/base58'
import { publicKeyOf } from '../../../protocol/sign'
import { DEFAULT_LIMITS } from '../../../tools/account/call_operator'
import { TestSite } from '../../kit/venue/open_test_venue'
import { accountId, accountSeed } from '../../kit/venue/test_login'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterAll(() => site.remove())

test('accounts are listed by id with their newest terms, once these are durable', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'bob', { keys_max: 3 })
  await Trader.provisioned(open, 'alice')
  const limits = { ...DEFAULT_LIMITS, orders_live_max: 1000, keys_max: 100 }
  const listed = (name: string) => ({
    account_id: accountId(name),
    account_key: encodeBase58(publicKeyOf(accountSeed(name))),
    version: 1,
    state: 'active' as const,
    limits,
  })
  const bob: AccountSummary = { ...listed('bob'), limits: { ...limits, keys_max: 3 } }
  const expected = [listed('alice'), bob].sort((a, b) => (a.account_id < b.account_id ? -1 : 1))
  expect(await open.venue.listAccounts()).toEqual(expected)
  await open.venue.provision({ account_id: 'bob', version: 2, state: 'suspended' })
  const now = (await open.venue.listAccounts()).find(({ account_id }) => account_id === accountId('bob'))
  expect(now).toEqual({ ...bob, version: 2, state: 'suspended', limits: DEFAULT_LIMITS })

  const { sequencer } = open.engine
  await sequencer.durable()
  const closing = open.venue.provision({ account_id: 'bob', version: 3, state: 'closed' })
  while (sequencer.seq_durable === sequencer.seq_executed) await new Promise(setImmediate)
  const seq = sequencer.seq_executed
  expect(await open.venue.listAccounts()).toContainEqual(
    expect.objectContaining({ version: 3, state: 'closed' }),
  )
  expect(sequencer.seq_durable).toBeGreaterThanOrEqual(seq)
  await closing
})
