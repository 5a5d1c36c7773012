/** A front without a right passes nothing on; what it passes on of one account is bounded, and its armed sockets are armed. */
import { expect, test } from 'bun:test'
import { openAccounts } from '../../engine/accounts/open_accounts'
import type { Views } from '../../engine/boot/assemble'
import { Follower } from '../../engine/boot/follow'
import { LIMITS } from '../../engine/limits'
import { followingNode, type Replica } from '../../engine/methods/front'
import type { NodeVenue, Passed, Right } from '../../engine/venue'
import { venueId } from '../../protocol/bodies/venue_id'
import { Refusal } from '../../protocol/refusals'
import { CredentialRequest } from '../../protocol/wire/accounts'
import { parserOf } from '../../protocol/wire/parse'
import { TRADING_OPS } from '../../server/sockets/commands'
import { Connection } from '../../server/sockets/connection'
import { only, openHarness } from '../kit/server/harness'
import { accountId, testCredential } from '../kit/venue/test_login'
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
  const state = {
    applied: behind ? 49 : 50,
    epoch: 7,
    ends: new Set([50]),
    rights: [right],
    handing,
    ask: async () => right,
    /** How long the replica takes to read on. */
    reads_ms: undefined as number | undefined,
  }
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
    applied: () => state.applied as never,
    epoch: () => state.epoch,
    isAt: ({ seq }) => state.ends.has(seq),
    views: () => views as never,
    onViews: (opened) => opened(views as never),
    untilApplied: async () => {
      if (state.reads_ms === undefined) return
      await Bun.sleep(state.reads_ms)
      state.applied = 50
    },
    known: { state: {}, past: {} } as never,
  })
  const leader = {
    rights: () => state.rights,
    ask: () => state.ask(),
    handing: () => state.handing,
    arrived: () => {
      state.handing = undefined
    },
    watch: () => undefined,
    pass: async (one: Passed, epoch?: number) => {
      if (epoch !== undefined && epoch !== state.rights.at(-1)!.epoch) throw new Refusal('lease_lost')
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
  return { venue: node.front(leader as never) as NodeVenue, passed, waiting, views, right, state }
}
const SESSION = {
  account_id: ACCOUNT,
  token_id: 'cd'.repeat(32),
  expires_ms: 1e9,
  credential_id: 'ef'.repeat(32),
  access: 'trade',
} as const

/** An open socket there, what it was sent, and the codes with which it closed. */
function socketOf(venue: NodeVenue, judged?: number) {
  const services = {
    venue: Object.assign(venue, { time: () => ({ slot: 1, unix_ms: 1, slot_ms: 400 }) }),
    clock,
    node: '0011223344556677.',
    meters: { answered() {}, refused() {}, frameReceived() {}, framesSent() {} },
    log: { write() {} },
  }
  const contract = { name: 'trading', kinds: () => true, ops: TRADING_OPS, snapshot: false }
  const connection = new Connection(services as never, contract as never, SESSION, () => undefined, judged)
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
  return { connection, sent, closed }
}

test('a socket of a front without a right passes on no command of a token that may have been revoked', async () => {
  const { venue, passed } = frontOf(true)
  expect(() => venue.authenticate('x'.repeat(43))).toThrow(expect.objectContaining({ code: 'lease_lost' }))
  const { connection } = socketOf(venue)
  connection.message(JSON.stringify({ id: '1', op: 'cancel_on_disconnect', params: { armed: true } }))
  await Bun.sleep(20)
  expect(passed).toHaveLength(0)
})

test('at a front an account key signs credentials of the account of the token only', async () => {
  const { venue, passed } = frontOf(false)
  const id = new Uint8Array(32)
  const at = venueId({ genesis_hash: id, program_id: id, config_account: id, generation: 0 })
  const request = parserOf(CredentialRequest)(testCredential('alice', at).request)
  const codes = [ACCOUNT, accountId('alice'), undefined].map((one) => venue.setCredential(one, request))
  expect(await codesOf(codes)).toEqual(['account_unknown', 'ok', 'ok'])
  expect(passed).toHaveLength(2)
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
  const { connection, sent, closed } = socketOf(venue)
  await connection.arm(true)
  connection.tick(0)
  expect(closed).toEqual([])
  expect([...views.armed.keys()]).toEqual([connection.origin])
  views.armed.delete(connection.origin)
  connection.tick(0)
  expect(closed).toEqual([1012])
  expect(sent.at(-1)).toContain('"type":"bye","reason":"restart"')
})

test('of calls that arm and disarm a socket in one go the last one counts', async () => {
  const { venue, views } = frontOf(false)
  const { connection, closed } = socketOf(venue)
  await connection.arm(true)
  await Promise.all([connection.arm(false), connection.arm(true)])
  connection.tick(0)
  expect([closed, [...views.armed.keys()]]).toEqual([[], [connection.origin]])
  await Promise.all([connection.arm(true), connection.arm(false)])
  connection.tick(0)
  expect([closed, [...views.armed.keys()]]).toEqual([[], []])
})

test('arming waits for the next leading node as commands do, and what was not sent arms nothing', async () => {
  const handed = Promise.withResolvers<void>()
  const { venue, right, views, passed, state } = frontOf(false, false, handed.promise)
  right.until_ms = -1
  const { connection, closed } = socketOf(venue)
  const armed = connection.arm(true)
  await Bun.sleep(1)
  expect(passed).toHaveLength(0)
  // Revocations between this call and its turn end it there.
  state.applied = 60
  right.until_ms = 1_000
  handed.resolve()
  await armed
  expect([passed.map((one) => (one as { seq: number }).seq), ...views.armed.keys()]).toEqual([
    [50],
    connection.origin,
  ])
  right.until_ms = -1
  const other = socketOf(venue)
  expect(await codesOf([other.connection.arm(true)])).toEqual(['lease_lost'])
  other.connection.tick(0)
  expect([closed, other.closed, views.armed.size]).toEqual([[], [], 1])
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
  const handed = Promise.withResolvers<void>()
  const { venue, passed, right, state } = frontOf(false, false, handed.promise)
  right.until_ms = -1
  const code = (work: Promise<unknown>) => work.then(String, (error) => error.code)
  const waits = code(venue.cancelAll(ACCOUNT, []))
  state.handing = undefined
  handed.resolve()
  expect(await waits).toBe('outcome_unknown')
  const { venue: alone, right: ended } = frontOf(false)
  ended.until_ms = -1
  expect(alone.handedOver(undefined)).toBeUndefined()
  expect(await code(alone.cancelAll(ACCOUNT, []))).toBe('lease_lost')
  expect(passed).toHaveLength(0)
})

/** A front that waits for the next leading node, and knows the tokens of these callers. */
function handingFront(tokens: Readonly<Record<string, object>>) {
  const front = frontOf(false, false, new Promise(() => undefined))
  front.right.until_ms = -1
  const { accounts } = front.views
  accounts.authenticate = (token) => {
    if (tokens[token] === undefined) throw new Refusal('token_invalid')
    return tokens[token] as never
  }
  return front
}

test('a command that came while one node led is not for the next one, which its client may not have judged', async () => {
  const handed = Promise.withResolvers<void>()
  const { venue, right, state, passed } = frontOf(false, false, handed.promise)
  right.until_ms = -1
  const unbound = venue.cancelAll(ACCOUNT, [])
  await Bun.sleep(1)
  right.until_ms = 1_000
  const bound = venue.cancelAll(ACCOUNT, [])
  await Bun.sleep(1)
  Object.assign(state, { epoch: 8, rights: [right, { ...right, epoch: 8 }] })
  handed.resolve()
  expect(await codesOf([unbound, bound])).toEqual(['ok', 'outcome_unknown'])
  expect([passed.length, venue.epochLed()]).toEqual([1, 8])
  // The next one has answered, and the replica has yet to reach it.
  state.epoch = 7
  expect(venue.epochLed()).toBeUndefined()
})

test('a socket takes no commands for another leading node than its client has judged, and closes unless it is armed', async () => {
  const { venue, passed, right, state } = frontOf(false)
  const cancels = JSON.stringify({
    id: '1',
    op: 'cancel_on_disconnect',
    params: { armed: true },
  })
  const [one, armed, unbound] = [7, 7, undefined].map((judged) => socketOf(venue, judged))
  await armed!.connection.arm(true)
  Object.assign(state, { epoch: 8, rights: [{ ...right, epoch: 8 }] })
  for (const { connection } of [one!, armed!, unbound!]) connection.message(cancels)
  await Bun.sleep(1)
  for (const { connection } of [one!, armed!, unbound!]) connection.tick(0)
  expect([one!.closed, armed!.closed, unbound!.closed, passed.length]).toEqual([[1012], [], [], 2])
  expect(one!.sent.slice(-2).join()).toMatch(
    /outcome_unknown.*"type":"bye","reason":"restart","retry_after_ms":0/,
  )
})

test('a request is answered by the word of the leading node that its caller has judged alone', async () => {
  let epoch: number | undefined = 7
  const base = openHarness({
    venue: { authenticate: () => SESSION, epochLed: () => epoch, nonces: () => ({}) as never },
  })
  try {
    const codesOf = async (judged: string) => {
      const headers = { 'x-leader-epoch': judged }
      const answers = [
        await base.call('GET', `/nonces?trading_key=${KEY}`, { headers }),
        await base.call('POST', '/orders/cancel-all', { headers, json: {} }),
      ]
      return answers.map(({ json }) => (json as { code?: string }).code)
    }
    expect(await codesOf('7')).not.toContain('lease_lost')
    expect(await codesOf('seven')).toEqual(['field_invalid', 'field_invalid'])
    epoch = 8
    expect(await codesOf('7')).toEqual(['lease_lost', 'outcome_unknown'])
    epoch = undefined
    expect(await codesOf('7')).toEqual(['lease_lost', 'lease_lost'])
  } finally {
    await base.stop()
  }
})

test('no more waits at a node that follows than LIMITS.handover_waits_max', async () => {
  const lanes = LIMITS.handover_waits_max / LIMITS.passed_account_max
  const accounts = Array.from({ length: lanes + 1 }, (_, at) => ({ ...SESSION, account_id: `account ${at}` }))
  const { venue } = handingFront(Object.fromEntries(accounts.map((one) => [one.account_id, one])))
  for (const { account_id } of accounts.slice(1))
    for (let count = 0; count < LIMITS.passed_account_max; count++)
      expect(venue.handedOver(account_id)).toBeDefined()
  expect(venue.handedOver('account 0')).toBeUndefined()
})

test('neither strangers nor one account take the waits of a hand-over from others', async () => {
  const { venue } = handingFront({ one: SESSION, other: OTHER, reads: { ...SESSION, access: 'read' } })
  for (const token of ['garbage', 'one']) {
    for (let count = 0; count < LIMITS.passed_account_max; count++)
      expect(venue.handedOver(token)).toBeDefined()
    expect(venue.handedOver(token)).toBeUndefined()
  }
  expect(venue.handedOver(undefined)).toBeUndefined()
  for (const token of ['other', 'reads']) expect(venue.handedOver(token)).toBeDefined()
})

test('commands of one account take no waits of a hand-over from others', async () => {
  const { venue } = handingFront({})
  const many = Array.from({ length: LIMITS.handover_waits_max }, () => venue.cancelAll(ACCOUNT, []))
  const other = venue.cancelAll(OTHER.account_id, [])
  const refused = codesOf(many.slice(LIMITS.passed_account_max))
  expect(new Set(await refused)).toEqual(new Set(['matching_unavailable']))
  expect(await Promise.race([codesOf([other]), codesOf(many.slice(0, 1)), Bun.sleep(20)])).toBeUndefined()
})

test('what comes before the replica reaches the first answer of the next leading node waits, and after that nothing does', async () => {
  const handed = Promise.withResolvers<void>()
  const { venue, right, state, passed } = frontOf(true, false, handed.promise)
  right.until_ms = -1
  const first = venue.cancelAll(ACCOUNT, [])
  await Bun.sleep(1)
  state.reads_ms = 100
  right.until_ms = 1_000
  handed.resolve()
  await Bun.sleep(1)
  const edge = venue.handedOver(undefined)
  expect(edge).toBeDefined()
  expect(await codesOf([first, venue.cancelAll(OTHER.account_id, []), edge!])).toEqual(['ok', 'ok', 'ok'])
  expect(passed).toHaveLength(2)
  state.applied = 49
  expect(venue.handedOver(undefined)).toBeUndefined()
  expect(await codesOf([venue.cancelAll(ACCOUNT, [])])).toEqual(['lease_lost'])
})

test('a read waits at most LIMITS.right_ms for what the account was answered with, whoever leads', async () => {
  const { venue, state } = frontOf(false)
  state.ask = () => new Promise(() => undefined)
  const began_ms = performance.now()
  expect(await codesOf([venue.caughtUp(ACCOUNT, 60 as never)!])).toEqual(['lease_lost'])
  expect(performance.now() - began_ms).toBeLessThan(LIMITS.right_ms + 500)
})

test('logins and ends of tokens of a credential that only reads take nothing of the share of the trader', async () => {
  const { venue, views, waiting } = frontOf(false, true)
  const { submit } = views.record as unknown as Views['record']
  const ended = { kind: 'token_ended', account_id: ACCOUNT, token_id: 'ab'.repeat(32) } as const
  const ends = codesOf(Array.from({ length: LIMITS.passed_account_max + 1 }, () => submit(ended, 'read')))
  const cancels = codesOf([venue.cancelAll(ACCOUNT, [])])
  await answerAll(waiting)
  expect(await cancels).toEqual(['ok'])
  const codes = await ends
  expect(codes.filter((code) => code !== 'ok')).toEqual(['matching_unavailable'])
})

test('a replica of another log than that of the leading node has no right, neither by an older nor by the newest answer', () => {
  const { venue, right, state } = frontOf(false)
  const has_right = () => {
    try {
      venue.authenticate('x'.repeat(43))
      return true
    } catch (error) {
      return (error as Refusal).code !== 'lease_lost'
    }
  }
  expect(has_right()).toBe(true)
  // Both logs have 50; the replica went on in one that another node wrote.
  Object.assign(state, { applied: 55, epoch: 8 })
  expect(has_right()).toBe(false)
  // A later answer that the replica contradicts.
  Object.assign(state, { epoch: 7, rights: [right, { ...right, seq: 51 }] })
  expect(has_right()).toBe(false)
  state.ends.add(51)
  expect(has_right()).toBe(true)
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
