/** A front without a right passes nothing on; requests of one account are bounded, and its armed sockets are armed. */
import { expect, test } from 'bun:test'
import type { Views } from '../../engine/boot/assemble'
import { Follower } from '../../engine/boot/follow'
import { LIMITS } from '../../engine/limits'
import { Turns } from '../../engine/methods/turns'
import { venueId } from '../../protocol/bodies/statements'
import { Refusal } from '../../protocol/refusals'
import { CredentialRequest } from '../../protocol/wire/accounts'
import { parserOf } from '../../protocol/wire/values'
import { endNode } from '../../server/links/open_node'
import { openHarness } from '../kit/server/harness'
import { refusalOf } from '../kit/venue/refusal_of'
import { accountId, testCredential } from '../kit/venue/test_login'
import { CANCEL, DEAD_MAN, KEY } from '../routes/bodies'
import { ACCOUNT, answerAll, codesOf, frontOf, OTHER, SESSION, socketOf } from './front_kit'

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

test('one account has a share of the queue to the leading node, and callers without a token one question', async () => {
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

test('a wait for a replica that hangs times out, and nothing of it is kept', async () => {
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

test("a read waits at most LIMITS.right_ms for the account's earlier answers, whichever node leads", async () => {
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

test('a node that ends as planned has its sockets disarmed behind all that it passed on, answers that, says bye, and sends nothing new', async () => {
  const { venue, passed, views, waiting } = frontOf(false, true)
  const done: string[] = []
  Object.assign(views.hub, { bye: () => void done.push('bye') })
  const under_way = venue.cancelAll(ACCOUNT, []).then(() => done.push('answered'))
  await Bun.sleep(1)
  const slow = waiting.pop()!
  const drained = venue.drain()
  let told = 0
  const late = refusalOf(venue.cancelAll(ACCOUNT, [])).finally(() => told++)
  const late_arm = refusalOf(venue.armDisconnect(ACCOUNT, 'late', true))
  await Bun.sleep(50)
  // However slow that command is.
  expect(passed.map(({ kind }) => kind)).toEqual(['command', 'leaves'])
  waiting.pop()!()
  await Bun.sleep(50)
  expect([done, told]).toEqual([[], 0])
  slow()
  await under_way
  await drained
  expect([passed.length, ...done]).toEqual([2, 'answered', 'bye'])
  for (const one of [late, late_arm]) expect((await one).code).toBe('outcome_unknown')
})

test('a node that ends says so until the leading one has answered, and of each socket that closed before', async () => {
  const { venue, passed, views, leader } = frontOf(false)
  const done: string[] = []
  Object.assign(views.hub, { bye: () => void done.push('bye') })
  const { pass } = leader
  leader.pass = () => Promise.reject(new Refusal('lease_lost'))
  const closed = venue.disconnected(ACCOUNT, 'own')
  await Bun.sleep(1)
  const drained = venue.drain()
  await Bun.sleep(50)
  leader.pass = pass
  await Promise.all([closed, drained])
  expect(passed.map(({ kind }) => kind)).toEqual(['record', 'leaves'])
  expect(done).toEqual(['bye'])
})

test('a node that has a term and does not come to serve, as its chain hangs, ends all the same, and one that serves gives its term away', async () => {
  const done: string[] = []
  const own = { stop: async (_: number, is_planned?: boolean) => void done.push(`front ${is_planned}`) }
  const serving = { stop: async () => void done.push('venue') }
  const hangs = new Promise<never>(() => undefined)
  const end = (has_term: boolean, led: Promise<typeof serving>) =>
    endNode({ leave: () => !has_term }, own, led, 20)
  await end(true, hangs)
  await end(
    true,
    Bun.sleep(5).then(() => serving),
  )
  await end(false, hangs)
  expect(done).toEqual(['front true', 'venue', 'front true'])
})

test('a login or the end of a token that was executed is not called rejected where the replica reads it late', async () => {
  const { views, state } = frontOf(false)
  Object.defineProperty(state, 'reads_ms', {
    get() {
      throw new Refusal('lease_lost')
    },
  })
  const { submit } = views.record as { submit(command: object, access: string): Promise<void> }
  const command = { kind: 'token_ended', account_id: ACCOUNT, token_id: 'ab'.repeat(32) }
  expect(await refusalOf(submit(command, 'trade'))).toMatchObject({
    code: 'outcome_unknown',
    applied: 'unknown',
  })
})

test('requests that wait for a silent leading node go on waiting when that one gives its term away', async () => {
  const { venue, right, state, leader } = frontOf(false)
  venue.epochLed()
  state.now_ms = right.until_ms + LIMITS.handover_ms - 500
  const waits = venue.handedOver('any')!
  const handed = Promise.withResolvers<void>()
  state.handing = handed.promise
  state.now_ms += 600
  expect(await Promise.race([waits.then(() => 'over'), Bun.sleep(150)])).toBeUndefined()
  leader.arrived()
  handed.resolve()
  expect(await waits).toBeUndefined()
})

test('of requests on several connections waiting ones go before new ones when a silent leading node is heard again', async () => {
  const { venue, state, right, passed } = frontOf(false)
  const order: string[] = []
  const refusedBy = (work: () => unknown): Refusal => {
    try {
      work()
    } catch (error) {
      return error as Refusal
    }
    throw new Error('it was not rejected')
  }
  const send = (name: string) => async () => {
    await venue.cancelAll(ACCOUNT, [])
    order.push(name)
    return {} as never
  }
  const { call, stop } = openHarness({
    venue: {
      authenticate(token) {
        const { code } = refusedBy(() => venue.authenticate(token))
        if (code === 'lease_lost') throw new Refusal(code)
        return SESSION
      },
      handedOver: (of) => venue.handedOver(of),
      takeLimit: () => ({ capacity: 100, refill_per_s: 50, remaining: 99, retry_after_ms: 0 }),
      cancelAll: send('held'),
      deadMan: send('later'),
    },
  })
  try {
    venue.epochLed()
    state.now_ms = right.until_ms
    const held = call('POST', '/orders/cancel-all', { json: CANCEL })
    await Bun.sleep(60)
    right.until_ms = state.now_ms + 1_000
    await Promise.all([held, call('POST', '/orders/dead-man', { json: DEAD_MAN })])
    expect([order, passed.length]).toEqual([['held', 'later'], 2])
  } finally {
    await stop()
  }
})

test("requests at a node that has just started wait until its replica has reached the leading node's answer, at most 10 s", async () => {
  const { venue, right, state, passed } = frontOf(true)
  expect(venue.epochLed()).toBeUndefined()
  const waits = codesOf([
    venue.handedOver('any') ?? Promise.reject(new Refusal('lease_lost')),
    venue.cancelAll(ACCOUNT, []),
  ])
  await Bun.sleep(100)
  expect(passed).toHaveLength(0)
  state.applied = 50
  expect([await waits, passed.length]).toEqual([['ok', 'ok'], 1])

  const { venue: late, right: newer, state: behind } = frontOf(true)
  const given_up = late.handedOver('any')!
  newer.until_ms = behind.now_ms = right.until_ms + LIMITS.handover_ms
  newer.until_ms += 1_000
  await given_up
  expect(late.handedOver('any')).toBeUndefined()
  expect(await codesOf([late.cancelAll(ACCOUNT, [])])).toEqual(['lease_lost'])
})

/** A front whose leading node answers commands with these seqs. */
function givenFront(...seqs: number[]) {
  const front = frontOf(false)
  front.leader.pass = async () => ({ value: {}, seq: seqs.shift()!, limits: null })
  const give = () => front.venue.cancelAll(ACCOUNT, [])
  /** The leading node's newest seq, as it answers the question of a read. */
  const answers = (seq: number) => ({ ...front.right, seq }) as typeof front.right
  return { ...front, give, answers }
}

test('a read behind a seq that the leading node does not have is rejected', async () => {
  const { venue } = frontOf(false)
  expect(await codesOf([venue.caughtUp(ACCOUNT, 51 as never)!])).toEqual(['lease_lost'])
})

test('a read whose right ends while the replica catches up is rejected', async () => {
  const { venue, state, right } = frontOf(false)
  state.ask = async () => {
    state.now_ms = right.until_ms
    return { ...right, seq: 51 as never }
  }
  expect(await codesOf([venue.caughtUp(ACCOUNT, 51 as never)!])).toEqual(['lease_lost'])
})

test('an older answer that comes late does not lower the seq that reads of the account wait for', async () => {
  const { venue, state, give, answers } = givenFront(60, 55)
  await give()
  await give()
  state.ask = async () => answers(55)
  expect(await codesOf([venue.caughtUp(ACCOUNT)!])).toEqual(['lease_lost'])
})

test('an answer that comes while a read waits is not forgotten with the one before', async () => {
  const { venue, state, give, answers } = givenFront(60, 70)
  await give()
  const { promise, resolve } = Promise.withResolvers<(typeof state.rights)[0]>()
  state.ask = () => promise
  const read = venue.caughtUp(ACCOUNT)
  await give()
  resolve(answers(70))
  await read
  const next = venue.caughtUp(ACCOUNT)
  expect(next).toBeDefined()
  await next
  expect(venue.caughtUp(ACCOUNT)).toBeUndefined()
})

test('after a rejection reads of the account wait for the newest seq of the leading node', async () => {
  const { venue, state, give, leader } = givenFront()
  leader.pass = async () => {
    throw new Refusal('order_unknown')
  }
  expect(await codesOf([give()])).toEqual(['order_unknown'])
  let asked = 0
  state.ask = async () => {
    asked += 1
    return state.rights[0]!
  }
  await venue.caughtUp(ACCOUNT)
  expect(asked).toBe(1)
})

test('a command goes behind the newest one that waits, also when an earlier one has gone', async () => {
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const handed: (Promise<void> | undefined)[] = [first.promise, second.promise, undefined]
  const turns = new Turns({} as never, {
    current: () => ({}),
    caughtUp: () => undefined,
    handedOver: () => handed.shift(),
  })
  const done: number[] = []
  const run = (number: number) => turns.run(ACCOUNT, [], async () => done.push(number))
  const running = [run(1), run(2)]
  first.resolve()
  await running[0]
  running.push(run(3))
  second.resolve()
  await Promise.all(running)
  expect(done).toEqual([1, 2, 3])
})

test('a read that is repeated behind a hand-over is by a token that still counts', async () => {
  const handed = Promise.withResolvers<void>()
  let [asked, is_ended] = [0, false]
  const base = openHarness({
    venue: {
      authenticate() {
        if (is_ended) throw new Refusal('token_invalid')
        return SESSION
      },
      handedOver: () => handed.promise,
      caughtUp: () => undefined,
      nonces: (async () => {
        asked += 1
        throw new Refusal('lease_lost')
      }) as never,
    },
  })
  try {
    const answer = base.call('GET', `/nonces?trading_key=${KEY}`)
    while (asked === 0) await Bun.sleep(1)
    is_ended = true
    handed.resolve()
    expect([(await answer).json, asked]).toMatchObject([{ code: 'token_invalid' }, 1])
  } finally {
    await base.stop()
  }
})
