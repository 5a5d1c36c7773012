/** The operator's list shows the terms in force of every account, and no hash of a secret. */
import { afterAll, expect, test } from 'bun:test'
import { TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterAll(() => site.remove())

test('accounts are listed by id with their newest terms', async () => {
  const open = await site.open()
  await Trader.provisioned(open, 'bob', { keys_max: 3 })
  await Trader.provisioned(open, 'alice')
  const terms = { version: 1, status: 'active', orders_live_max: 1000, keys_max: 100 } as const
  const expected = [
    { ...terms, account_id: 'alice' },
    { ...terms, account_id: 'bob', keys_max: 3 },
  ]
  expect(open.venue.listAccounts()).toEqual(expected)
  await open.venue.provision({
    ...terms,
    account_id: 'bob',
    version: 2,
    status: 'suspended',
    keys_max: 3,
  })
  expect(open.venue.listAccounts()[1]).toEqual({ ...expected[1]!, version: 2, status: 'suspended' })
})
