/** While the leading node gives its term away requests at a front wait for the next one, which its clients have judged. */
import { expect, test } from 'bun:test'
import { leadViews, type Views } from '../../engine/boot/assemble'
import { LIMITS } from '../../engine/limits'
import { Refusal } from '../../protocol/refusals'
import { openHarness } from '../kit/server/harness'
import { KEY } from '../routes/bodies'
import { ACCOUNT, answerAll, codesOf, frontOf, OTHER, SESSION, socketOf } from './front_kit'

const frameOf = (id: string, armed: boolean) =>
  JSON.stringify({ id, op: 'cancel_on_disconnect', params: { armed } })
const codesIn = (sent: readonly string[]) =>
  sent.map((text) => JSON.parse(text)).map(({ type, id, code }) => `${id ?? type} ${code ?? 'ok'}`)

test('arming waits for the next leading node as commands do, and an unsent request arms nothing', async () => {
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
  Object.assign(state, { handing: undefined, now_ms: right.until_ms + LIMITS.handover_ms })
  const other = socketOf(venue)
  expect(await codesOf([other.connection.arm(true)])).toEqual(['lease_lost'])
  other.connection.tick(0)
  expect([closed, other.closed, views.armed.size]).toEqual([[], [], 1])
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

test('a socket that opens when another node leads than its client has judged is sent nothing of the account', () => {
  const { venue } = frontOf(false)
  const { sent, closed } = socketOf(venue, 6)
  expect([sent, closed[0]]).toEqual([['{"type":"bye","reason":"restart","retry_after_ms":0}'], 1012])
})

test('a node that followed and leads pushes nothing before its sockets know whose word it is', async () => {
  const { venue, views } = frontOf(false)
  const right = views.right as Views['right']
  let resumed = 0
  Object.assign(views.hub, { resume: () => resumed++ })
  leadViews(views as never, undefined as never, undefined as never)
  expect(right.mayPush()).toBe(false)
  resumed = 0
  await venue.close()
  expect([right.mayPush(), resumed]).toEqual([true, 1])
})

test('the end of an armed socket comes behind its commands that wait', async () => {
  const handed = Promise.withResolvers<void>()
  const { venue, passed, right } = frontOf(false, false, handed.promise)
  right.until_ms = -1
  const waits = codesOf([venue.cancelAll(ACCOUNT, [])])
  await Bun.sleep(1)
  right.until_ms = 1_000
  const closed = venue.disconnected(ACCOUNT, 'own')
  await Bun.sleep(1)
  expect(passed).toHaveLength(0)
  handed.resolve()
  await closed
  expect([await waits, passed.map(({ kind }) => kind)]).toEqual([['ok'], ['command', 'record']])
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

test('a page whose turn comes when another node leads is not asked for there', async () => {
  const { venue, right, state, waiting, passed } = frontOf(false, true)
  const pages = codesOf([0, 1].map((from) => venue.treeLeaves(from, 10, SESSION)))
  await Bun.sleep(0)
  Object.assign(state, { epoch: 8, rights: [{ ...right, epoch: 8 }] })
  await answerAll(waiting)
  expect([await pages, passed.length]).toEqual([['ok', 'lease_lost'], 1])
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

test('an armed socket whose client has judged another leading node gets no events of this one, and can be left with its orders', async () => {
  const { venue, passed, right, state, views } = frontOf(false)
  const { connection, sent, closed } = socketOf(venue, 7)
  const arms = (id: string, armed: boolean) => connection.message(frameOf(id, armed))
  arms('1', true)
  await Bun.sleep(1)
  Object.assign(state, { epoch: 8, rights: [{ ...right, epoch: 8 }] })
  sent.length = 0
  connection.sink.events([{ event: { seq: 1, kind: 'order.filled' }, text: '{"seq":1}' }] as never)
  connection.gap(1, 2)
  connection.status({ ready: true, reasons: [] } as never)
  arms('2', true)
  for (const now_ms of [1_000, 5_000, 6_000, 10_000]) connection.tick(now_ms)
  await Bun.sleep(1)
  const [rearmed, ...pushed] = sent.splice(0).map((text) => JSON.parse(text))
  expect(rearmed).toMatchObject({ type: 'error', id: '2', code: 'outcome_unknown' })
  expect(pushed).toEqual(
    [5_000, 10_000].map((now_ms) => ({
      type: 'warning',
      reason: 'leader_changed',
      expires_in_ms: SESSION.expires_ms - now_ms,
    })),
  )
  arms('3', false)
  await Bun.sleep(1)
  expect([sent.splice(0), closed, views.armed.size]).toEqual([
    ['{"type":"reply","id":"3","result":{"armed":false}}'],
    [],
    0,
  ])
  connection.tick(11_000)
  expect([sent, closed]).toEqual([['{"type":"bye","reason":"restart","retry_after_ms":0}'], [1012]])
  connection.closed()
  await Bun.sleep(1)
  expect(passed.map(({ kind }) => kind)).toEqual(['record', 'record'])
})

test('commands of a socket wait in their order for the leading node that its client has judged, and are not sent to another one', async () => {
  const handing = Promise.withResolvers<void>()
  const { venue, passed, right, state } = frontOf(false, false, handing.promise)
  right.until_ms = -1
  const [judged, other, gone, unbound] = [7, 6, 7, undefined].map((one) => socketOf(venue, one))
  for (const { connection } of [judged!, other!, gone!, unbound!]) connection.message(frameOf('1', true))
  await Bun.sleep(1)
  right.until_ms = 1_000
  // The right is there again: new frames are behind waiting ones.
  judged!.connection.message(frameOf('2', false))
  gone!.connection.closed()
  await Bun.sleep(1)
  expect([passed.length, judged!.sent.length]).toEqual([0, 1])
  handing.resolve()
  await Bun.sleep(5)
  expect([judged!, other!, gone!, unbound!].map(({ sent }) => codesIn(sent.slice(1)))).toEqual([
    ['1 ok', '2 ok'],
    ['1 outcome_unknown'],
    [],
    ['1 ok'],
  ])
  // Nothing of the one that has closed: it would be armed for good.
  expect(passed).toHaveLength(3)
  Object.assign(state, { handing: undefined, now_ms: right.until_ms + LIMITS.handover_ms })
  judged!.connection.message(frameOf('3', true))
  await Bun.sleep(1)
  expect(codesIn(judged!.sent.slice(-1))).toEqual(['3 lease_lost'])
})

test('frames that come when the leading node is heard again go behind those sent while it was silent', async () => {
  const { venue, passed, right, state, views } = frontOf(false)
  const [first, second] = [socketOf(venue), socketOf(venue)]
  venue.epochLed()
  state.now_ms = right.until_ms
  first!.connection.message(frameOf('1', true))
  await Bun.sleep(5)
  right.until_ms = state.now_ms + 1_000
  second!.connection.message(frameOf('2', true))
  await Bun.sleep(100)
  expect(passed.map(({ kind }) => kind)).toEqual(['record', 'record'])
  expect([...views.armed.keys()]).toEqual([first!.connection.origin, second!.connection.origin])
})

test('each frame that waits takes a place of its account, beyond which frames are rejected', async () => {
  const { venue, right, state } = frontOf(false)
  const sockets = [socketOf(venue), socketOf(venue), socketOf(venue, undefined, OTHER.account_id)]
  venue.epochLed()
  state.now_ms = right.until_ms
  for (let count = 0; count < LIMITS.passed_account_max; count++)
    sockets[count % 2]!.connection.message(frameOf(`${count}`, true))
  const codes = () => sockets.map(({ sent }) => codesIn(sent.slice(1)))
  for (const { connection } of sockets) connection.message(frameOf('more', true))
  // Replies keep the order of the frames, so the rejections come behind waiting ones.
  expect(codes()).toEqual([[], [], []])
  right.until_ms = state.now_ms + 1_000
  await Bun.sleep(100)
  expect(codes().map((all) => [all.length, all.at(-1)])).toEqual([
    [LIMITS.passed_account_max / 2 + 1, 'more lease_lost'],
    [LIMITS.passed_account_max / 2 + 1, 'more lease_lost'],
    [1, 'more ok'],
  ])
})

test('a request is answered by the word of the leading node that its caller has judged alone', async () => {
  let epoch: number | undefined = 7
  let takes = (): void => undefined
  const base = openHarness({
    venue: {
      authenticate: () => SESSION,
      epochLed: () => epoch,
      caughtUp: async () => takes(),
      nonces: () => ({}) as never,
    },
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
    // The next one led when the read had waited for the replica.
    epoch = 7
    takes = () => {
      epoch = 8
    }
    expect((await codesOf('7'))[0]).toBe('lease_lost')
  } finally {
    await base.stop()
  }
})

test('at most LIMITS.handover_waits_max requests wait at a node that follows', async () => {
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

test('requests wait until the replica reaches the first answer of the next leading node', async () => {
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
  expect(venue.handedOver(undefined)).toBeUndefined()
})

test('while the leading node is silent, or the replica behind it, requests wait at most 10 s, and nothing is read meanwhile', async () => {
  const { venue, right, state, passed } = frontOf(false)
  const isRead = () => codesOf([Promise.resolve().then(() => venue.authenticate('x'.repeat(43)))])
  expect([venue.epochLed(), await isRead()]).toEqual([7, ['token_invalid']])
  const lost: (() => void)[] = [
    () => (state.now_ms = right.until_ms),
    () => (state.applied = 49),
    () => (state.epoch = 6),
  ]
  for (const lose of lost) {
    lose()
    const waits = codesOf([venue.handedOver('any')!, venue.cancelAll(ACCOUNT, [])])
    await Bun.sleep(100)
    expect([passed.length, await isRead()]).toEqual([0, ['lease_lost']])
    right.until_ms = state.now_ms + 1_000
    Object.assign(state, { applied: 50, epoch: 7 })
    expect(await waits).toEqual(['ok', 'ok'])
    passed.length = 0
  }
  state.now_ms = right.until_ms
  const [waits, commands] = [venue.handedOver('any')!, codesOf([venue.cancelAll(ACCOUNT, [])])]
  state.now_ms += LIMITS.handover_ms
  await waits
  expect([await commands, venue.handedOver('any')]).toEqual([['outcome_unknown'], undefined])
  expect(await codesOf([venue.cancelAll(ACCOUNT, [])])).toEqual(['lease_lost'])
  // It leads by now: nothing waits here.
  state.now_ms = right.until_ms
  state.rights = []
  expect([venue.handedOver('any'), passed]).toEqual([undefined, []])
})

test('the end of a token that is rejected behind the end here is not tried again, which would call it ended', async () => {
  let ended = false
  const base = openHarness({
    venue: {
      authenticate: () => {
        if (ended) throw new Refusal('token_revoked')
        return SESSION
      },
      handedOver: async () => undefined,
      revoke: async () => {
        ended = true
        throw new Refusal('draining')
      },
    },
  })
  try {
    const answer = await base.call('POST', '/auth/token/revoke')
    expect(answer).toMatchObject({ status: 503, json: { code: 'draining' } })
  } finally {
    await base.stop()
  }
})

test('a read waits for a silent leading node, also one that asks there by its route or for an id unknown here', async () => {
  let silent = true
  const back = Promise.withResolvers<void>()
  const unlessSilent = () => {
    if (silent) throw new Refusal('lease_lost')
  }
  let asked = 0
  const base = openHarness({
    venue: {
      authenticate: (token) => {
        if (token === 'new' && asked++ === 0) throw new Refusal('token_invalid')
        return SESSION
      },
      handedOver: () => (silent ? back.promise : undefined),
      caughtUp: () => unlessSilent() as undefined,
      nonces: () => ({}) as never,
      treeRoot: (async () => {
        unlessSilent()
        throw new Refusal('settlement_unavailable')
      }) as never,
    },
  })
  try {
    const answers = [
      base.call('GET', `/nonces?trading_key=${KEY}`),
      base.call('GET', `/nonces?trading_key=${KEY}`, { token: 'new' }),
      base.call('GET', '/tree/root'),
    ]
    expect(await Promise.race([...answers, Bun.sleep(50)])).toBeUndefined()
    silent = false
    back.resolve()
    const codes = (await Promise.all(answers)).map(({ json }) => (json as { code?: string }).code)
    expect(codes).not.toContain('lease_lost')
    expect(codes[2]).toBe('settlement_unavailable')
  } finally {
    await base.stop()
  }
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
