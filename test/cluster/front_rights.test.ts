/** A front without a right passes nothing on; what it passes on of one account is bounded, and its armed sockets are armed. */
import { expect, test } from 'bun:test'
import { openAccounts } from '../../engine/accounts/open_accounts'
import { Follower } from '../../engine/boot/follow'
import { LIMITS } from '../../engine/limits'
import { followingNode, type Replica } from '../../engine/methods/front'
import type { NodeVenue, Passed, Right } from '../../engine/venue'
import { Refusal } from '../../protocol/refusals'
import { TRADING_OPS } from '../../server/sockets/commands'
import { Connection } from '../../server/sockets/connection'
import { only, openHarness } from '../kit/server/harness'
import { KEY } from '../routes/bodies'

const ACCOUNT = 'ab'.repeat(32)
const clock = { unixMs: () => Date.now(), monotonicMs: () => 0 }
/**
 * @param behind the replica has not read what the leading node answered with
 * @param handing what resolves when another node leads
 */
function frontOf(behind: boolean, is_slow = false, handing?: Promise<void>) {
  const passed: Passed[] = []
  const waiting: (() => void)[] = []
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
    handing: () => handing,
    watch: () => undefined,
    pass: async (one: Passed) => {
      passed.push(one)
      if (is_slow) await new Promise<void>((resolve) => waiting.push(resolve))
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
  return { venue: node.front(leader as never) as NodeVenue, passed, waiting, views, right }
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

const OTHER = { ...SESSION, account_id: 'ba'.repeat(32) }
const codesOf = (asked: readonly Promise<unknown>[]) =>
  Promise.all(
    asked.map((one) =>
      one.then(
        () => 'ok',
        ({ code }) => code,
      ),
    ),
  )
/** Lets the leading node answer one question after the other. */
async function answerAll(waiting: (() => void)[]): Promise<void> {
  for (;;) {
    await Bun.sleep(0)
    const next = waiting.shift()
    if (next === undefined) return
    next()
  }
}

test('long answers are asked for one at a time, of the accounts in turn, and an account has few that wait', async () => {
  const { venue, passed, waiting } = frontOf(false, true)
  const many = codesOf(Array.from({ length: 200 }, (_, from) => venue.treeLeaves(from, 10_000, SESSION)))
  const few = codesOf([1_000, 1_001].map((from) => venue.treeLeaves(from, 10_000, OTHER)))
  await Bun.sleep(0)
  expect(waiting).toHaveLength(1)
  const most: number[] = []
  const push = waiting.push.bind(waiting)
  waiting.push = (one) => {
    most.push(waiting.length + 1)
    return push(one)
  }
  await answerAll(waiting)
  expect(Math.max(...most)).toBe(1)
  const codes = await many
  expect(codes.filter((one) => one === 'ok')).toHaveLength(1 + LIMITS.pages_account_max)
  expect(new Set(codes)).toEqual(new Set(['ok', 'matching_unavailable']))
  expect(await few).toEqual(['ok', 'ok'])
  const order = passed.map((one) => (one as { from: number }).from)
  expect(order.slice(0, 5)).toEqual([0, 1, 1_000, 2, 1_001])
})

test('one account has a share of what waits for the leading node, and callers without a token one question', async () => {
  const { venue, waiting, passed } = frontOf(false, true)
  const proofs = codesOf(Array.from({ length: 1_000 }, (_, leaf) => venue.treeInclusion(leaf, SESSION)))
  const roots = Array.from({ length: 1_000 }, () => venue.treeRoot())
  const others = [venue.treeInclusion(1, OTHER), venue.treeInclusion(2, { ...SESSION, access: 'read' })]
  await answerAll(waiting)
  const codes = await proofs
  expect(codes.filter((one) => one === 'ok')).toHaveLength(LIMITS.passed_account_max)
  expect(new Set(codes)).toEqual(new Set(['ok', 'matching_unavailable']))
  expect(await codesOf([...others, ...(roots as Promise<unknown>[])])).toEqual(
    Array.from({ length: 1_002 }, () => 'ok'),
  )
  expect(passed.filter(({ kind }) => kind === 'tree_root')).toHaveLength(2)
})

test('a socket that is armed no more, as its node was lost, is closed', async () => {
  const { venue, views } = frontOf(false)
  const services = {
    venue: Object.assign(venue, { time: () => ({ slot: 1, unix_ms: 1, slot_ms: 400 }) }),
    clock,
    node: '0011223344556677.',
    meters: { answered() {}, refused() {}, frameReceived() {}, framesSent() {} },
    log: { write() {} },
  }
  const contract = { name: 'trading', kinds: () => true, ops: TRADING_OPS, snapshot: false }
  const connection = new Connection(services as never, contract as never, SESSION, () => undefined)
  const sent: string[] = []
  const closed: number[] = []
  const transport = {
    send: (text: string) => sent.push(text),
    getBufferedAmount: () => 0,
    cork: (send: () => void) => send(),
    close: (code: number) => closed.push(code),
    terminate: () => undefined,
  }
  const subscription = { seq_first: 1, seq_last: 0, seqNow: () => 0, close: () => undefined }
  connection.opened(transport as never, { subscription, after: undefined, snapshot: undefined } as never)
  await connection.arm(true)
  connection.tick(0)
  expect(closed).toEqual([])
  expect([...views.armed.keys()]).toEqual([connection.origin])
  views.armed.delete(connection.origin)
  connection.tick(0)
  expect(closed).toEqual([1012])
  expect(sent.at(-1)).toContain('"type":"bye","reason":"restart"')
})

test('a wait for a replica that stands still ends with its time, and nothing of it is kept', async () => {
  const id = new Uint8Array(32)
  const loaded = { verdict: { fault: 'rolled_back' }, journal: { head: () => ({ seq: 1, head: id }) } }
  const chain = { genesis_hash: id, program_id: id, config_account: id }
  const vault = { generation: 0 }
  const replica = new Follower(
    { hint: () => undefined } as never,
    loaded as never,
    {} as never,
    { chain } as never,
    vault as never,
  )
  const waits = Array.from({ length: 1_000 }, () => replica.untilApplied(2, 1))
  expect(new Set(await codesOf(waits))).toEqual(new Set(['lease_lost']))
  expect(replica['waiting'].size).toBe(0)
})

test('commands that come while the leading node gives its term away go to the next one, in their order', async () => {
  const handing = Promise.withResolvers<void>()
  const { venue, passed, right } = frontOf(false, false, handing.promise)
  right.until_ms = -1
  const done: number[] = []
  const first = venue.cancelAll(ACCOUNT, []).then(() => done.push(1))
  await Bun.sleep(1)
  right.until_ms = 1_000
  // The right is there again: a later command goes on behind the one that waits.
  const second = venue.cancelAll(ACCOUNT, []).then(() => done.push(2))
  await Bun.sleep(1)
  expect(passed).toHaveLength(0)
  handing.resolve()
  await Promise.all([first, second])
  expect([passed.length, ...done]).toEqual([2, 1, 2])
})

test('a command that waited for a node that does not come, or for this one, is for the node that leads by now', async () => {
  const { venue, passed, right } = frontOf(false, false, Promise.resolve())
  right.until_ms = -1
  const code = (work: Promise<unknown>) => work.then(String, (error) => error.code)
  expect(await code(venue.cancelAll(ACCOUNT, []))).toBe('outcome_unknown')
  const { venue: alone, right: ended } = frontOf(false)
  ended.until_ms = -1
  expect(alone.handedOver()).toBeUndefined()
  expect(await code(alone.cancelAll(ACCOUNT, []))).toBe('lease_lost')
  expect(passed).toHaveLength(0)
})

test('no more waits at a node that follows than LIMITS.handover_waits_max', async () => {
  const { venue, right } = frontOf(false, false, new Promise(() => undefined))
  right.until_ms = -1
  for (let count = 0; count < LIMITS.handover_waits_max; count++) expect(venue.handedOver()).toBeDefined()
  expect(venue.handedOver()).toBeUndefined()
})

test.each(['lease_lost', 'draining'] as const)(
  'a request that meets %s while the leading node gives its term away is answered once, by what leads then',
  async (code) => {
    let leads = false
    let handed = Promise.withResolvers<void>()
    const done: string[] = []
    const unlessLed = () => {
      if (!leads) throw new Refusal(code)
    }
    const base = openHarness({
      venue: {
        authenticate() {
          unlessLed()
          return SESSION
        },
        handedOver: () => (leads ? undefined : handed.promise),
        nonces() {
          done.push('read')
          return {} as never
        },
        revoke: async () => void done.push('revoked'),
        login: async () => {
          unlessLed()
          done.push('login')
          throw new Refusal('credentials_invalid')
        },
      },
    })
    try {
      const read = () => base.call('GET', `/nonces?trading_key=${KEY}`)
      const ask = [
        read(),
        base.call('POST', '/auth/token/revoke'),
        base.call('POST', '/auth/token', {
          token: null,
          json: { api_key: 'ab'.repeat(16), api_secret: 'cd'.repeat(32), passphrase: 'eight or more' },
        }),
      ]
      await Bun.sleep(50)
      expect(done).toEqual([])
      leads = true
      handed.resolve()
      await Promise.all(ask)
      expect(done.toSorted()).toEqual(['login', 'read', 'revoked'])
      // One that waits in vain is rejected once, and waits no second time.
      leads = false
      handed = Promise.withResolvers()
      handed.resolve()
      expect(await read()).toMatchObject({ status: 503, json: { code } })
    } finally {
      await base.stop()
    }
  },
)
