/** A front without a right passes nothing on, and its clients' commands cost what they cost at the leading node. */
import { expect, test } from 'bun:test'
import { openAccounts } from '../../engine/accounts/open_accounts'
import { followingNode, type Replica } from '../../engine/methods/front'
import type { NodeVenue, Passed, Right } from '../../engine/venue'
import { TRADING_OPS } from '../../server/sockets/commands'
import { Connection } from '../../server/sockets/connection'
import { only } from '../kit/server/harness'

const ACCOUNT = 'ab'.repeat(32)
const clock = { unixMs: () => Date.now(), monotonicMs: () => 0 }
/** @param behind the replica has not read what the leading node answered with */
function frontOf(behind: boolean) {
  const passed: Passed[] = []
  const right = { seq: 50, head: '00'.repeat(32), until_ms: 1_000, nodes: 1, epoch: 7 } as Right
  const book = {
    limits: () => ({ rate_capacity: 10, rate_refill_per_s: 1 }),
    tokens: () => [],
    unixMs: () => Date.now(),
  }
  const accounts = openAccounts({
    credential_key: new Uint8Array(32),
    clock,
    token_ttl_s: 3_600,
    book: book as never,
  })
  const views = { accounts, armed: new Map(), right: {}, record: {}, hub: { resume: () => undefined } }
  const replica = only<Replica>('replica', {
    applied: () => (behind ? 49 : 50) as never,
    isAt: () => true,
    views: () => views as never,
    onViews: (opened) => opened(views as never),
    untilApplied: async () => undefined,
    known: { state: {}, past: {} } as never,
  })
  const leader = {
    rights: () => [right],
    ask: async () => right,
    watch: () => undefined,
    pass: async (one: Passed) => {
      passed.push(one)
      return { value: {}, seq: 50, limits: null }
    },
  }
  const id = new Uint8Array(32)
  const chain = {
    genesis_hash: id,
    program_id: id,
    config_account: id,
    view: () => ({ slot: 1, unix_ms: 0, slot_ms: 400 }),
  }
  const vault = { generation: 0, exit_delay_s: 1 }
  const node = followingNode(
    { leader_url: '' } as never,
    replica,
    { instruments: [] } as never,
    { chain: chain as never, clock },
    [vault as never, []],
  )
  return { venue: node.front(leader as never) as NodeVenue, passed }
}
const SESSION = {
  account_id: ACCOUNT,
  token_id: 'cd'.repeat(32),
  expires_ms: 1e9,
  credential_id: 'ef'.repeat(32),
  access: 'trade',
} as const

test('a socket of a front without a right passes on no command of a token that may have been revoked', async () => {
  const { venue, passed } = frontOf(true)
  expect(() => venue.authenticate('x'.repeat(43))).toThrow(expect.objectContaining({ code: 'lease_lost' }))
  const services = {
    venue,
    clock,
    node: '0011223344556677.',
    meters: { answered() {}, refused() {}, frameReceived() {}, frameSent() {} },
    log: { write() {} },
  }
  const contract = { name: 'trading', kinds: () => true, ops: TRADING_OPS, snapshot: false }
  const connection = new Connection(services as never, contract as never, SESSION, () => undefined)
  connection.message(JSON.stringify({ id: '1', op: 'cancel_on_disconnect', params: { armed: true } }))
  await Bun.sleep(20)
  expect(passed).toHaveLength(0)
})

test('commands with wrong signatures on a front take tokens of the account', () => {
  const { venue } = frontOf(false)
  let free = 0
  try {
    for (; free < 100_000; free++) venue.takeLimit(SESSION, 1, 'command')
  } catch {}
  expect(free).toBeLessThanOrEqual(20)
})
