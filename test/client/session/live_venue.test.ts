/** The venue of a session: looked at once after a failed connection, verified again for a receipt of a later epoch. */
import { expect, test } from 'bun:test'
import { NODE_LATE_MS } from '../../../client/limits'
import { LiveVenue, OtherVenue, policyOf, type SessionVenue } from '../../../client/session/live_venue'
import { VerificationFailed } from '../../../client/verified_venue'
import { EvidenceUnavailable } from '../../../client/verify/collect/collect_evidence'
import type { EvidenceBundle } from '../../../client/verify/evidence_bundle'
import { parsePolicy } from '../../../client/verify/policy'
import { ReceiptRefused } from '../../../client/verify/verify_receipt'
import { encodeBase58 } from '../../../protocol/base58'
import { RECEIPT_BODY, STATEMENT_BODY } from '../../../protocol/bodies/statements'
import { toHex } from '../../../protocol/bytes'
import { receiptTree, treeLeaf } from '../../../protocol/rfc6962_tree'
import { publicKeyOf, sign } from '../../../protocol/sign'
import type { Receipt } from '../../../protocol/wire/trading'

const VENUE = new Uint8Array(32).fill(2)
const COMMAND = new Uint8Array(160).fill(10)
const seedOf = (epoch: number) => new Uint8Array(32).fill(100 + epoch)

/** A process of the venue; it answers while `up`. */
function processOf(epoch: number, venue = VENUE) {
  const calls: string[] = []
  let answered = epoch
  const statement_key = publicKeyOf(seedOf(epoch))
  const certificate = toHex(STATEMENT_BODY.encode({ venue, statement_key, epoch: BigInt(epoch) }))
  const info = { epoch, venue: toHex(venue), tee_pubkey: `key ${epoch}` }
  const shown = {
    base_url: 'https://venue.test',
    info,
    attestation: { binding: { certificate, statement_key: encodeBase58(statement_key) } },
    webSocket: () => new WebSocket('wss://venue.test'),
    fetch: async (path: string) => {
      calls.push(path)
      if (!one.up) throw new Error('the connection failed')
      if (one.silent) await new Promise(() => undefined)
      const { code } = one
      if (code !== undefined && path !== '/info') return Response.json({ code }, { status: 503 })
      return Response.json(path === '/info' ? { ...info, epoch: answered } : {})
    },
  }
  const one = {
    up: true,
    silent: false,
    code: undefined as string | undefined,
    calls,
    shown: shown as unknown as SessionVenue,
    moveTo: (later: number) => {
      answered = later
    },
  }
  return one
}
/** A session's venue over processes, each verified when the one before was left. */
async function liveOver(processes: ReturnType<typeof processOf>[], has_others = false) {
  let verified = 0
  const verify = async () => {
    // A verification takes longer than a turn of the event loop.
    await Bun.sleep(1)
    return processes[Math.min(verified++, processes.length - 1)]!.shown
  }
  const live = await LiveVenue.open(verify, undefined, has_others)
  return { live, verified: () => verified }
}
function receiptOf(epoch: number): Receipt {
  const { root, paths } = receiptTree([treeLeaf(COMMAND)])
  const head = new Uint8Array(32).fill(3)
  const body = RECEIPT_BODY.encode({ venue: VENUE, epoch: BigInt(epoch), seq: 1_000n, head, root })
  const signature = toHex(sign(seedOf(epoch), body))
  return { epoch, seq: 1_000, head: toHex(head), root: toHex(root), index: 0, path: paths[0]!, signature }
}

test('after a failed connection the venue is looked at once, and verified only where it is another process', async () => {
  const [first, second] = [processOf(7), processOf(8)]
  const { live, verified } = await liveOver([first, second])
  await live.fetch('/time')
  first.up = false
  expect(await live.fetch('/time').catch((error: Error) => error.message)).toBe('the connection failed')
  first.up = true
  await live.fetch('/time')
  await live.fetch('/time')
  expect(first.calls).toEqual(['/time', '/time', '/info', '/time', '/time'])
  expect([verified(), live.info.epoch]).toEqual([1, 7])

  first.up = false
  await live.fetch('/time').catch(() => undefined)
  await Promise.all([live.fetch('/time'), live.fetch('/time')])
  expect(second.calls).toEqual(['/time', '/time'])
  expect([verified(), live.info.epoch]).toEqual([2, 8])
})

test('a process that opened its next epoch behind the same connection is verified again', async () => {
  const [before, after] = [processOf(7), processOf(8)]
  const { live, verified } = await liveOver([before, after])
  before.up = false
  await live.fetch('/time').catch(() => undefined)
  before.up = true
  before.moveTo(8)
  await live.fetch('/time')
  expect([verified(), live.info.epoch]).toEqual([2, 8])
  expect(after.calls).toEqual(['/time'])
})

test('another venue behind the address ends the session before anything is sent to it', async () => {
  const [first, other] = [processOf(7), processOf(8, new Uint8Array(32).fill(9))]
  const { live } = await liveOver([first, other])
  first.up = false
  await live.fetch('/time').catch(() => undefined)
  expect(await live.fetch('/orders').catch((error: unknown) => error)).toBeInstanceOf(OtherVenue)
  expect(other.calls).toEqual([])
})

test('a venue that cannot be judged is judged again, and one that is judged and rejected ends the session', async () => {
  const first = processOf(7)
  const failed = (missing: object) =>
    new VerificationFailed({ checks: [] } as never, { missing } as EvidenceBundle)
  const failures = [failed({ chain: 'it does not answer' }), failed({})]
  let verified = 0
  const live = await LiveVenue.open(async () => {
    if (verified++ > 0) throw failures[verified - 2]
    return first.shown
  })
  first.up = false
  const thrown = () => live.fetch('/time').catch((error: Error) => error)
  await thrown()
  expect(await thrown()).toMatchObject({ name: 'EvidenceUnavailable', cause: failures[0] })
  expect(await thrown()).toBe(failures[1]!)
})

test('of several nodes, one that is silent is left for the one that leads, and one that still leads is waited for', async () => {
  const [first, again, second] = [processOf(7), processOf(7), processOf(8)]
  const { live, verified } = await liveOver([first, again, second], true)
  first.silent = true
  expect(await live.fetch('/orders').catch((error: Error) => error.name)).toBe('NodeLeft')
  expect([verified(), live.info.epoch]).toEqual([3, 8])
  await live.fetch('/orders')
  expect(second.calls).toEqual(['/orders'])
})

/**
 * A node that follows, in front of the leading one of epoch `moves`. As the server it answers only by the word of the one that its
 * caller has judged, if it names one.
 */
function frontOf(epoch: number, key: string) {
  const one = processOf(epoch)
  const { info, attestation } = one.shown
  const sockets: EventTarget[] = []
  const asked: string[] = []
  const judged: (string | undefined)[] = []
  const front = {
    up: true,
    moves: epoch,
    sockets,
    asked,
    /** The arguments with which its sockets were opened. */
    judged,
    shown: {
      ...one.shown,
      evidence: { info: { ...info, epoch: 0, tee_pubkey: key }, leader: { info, attestation } },
      webSocket: (_: string, headers?: Record<string, string>) => {
        judged.push(headers?.['x-leader-epoch'])
        const socket = Object.assign(new EventTarget(), { close: () => undefined })
        sockets.push(socket)
        return socket
      },
      fetch: async (path: string, init?: RequestInit) => {
        const epoch = new Headers(init?.headers).get('x-leader-epoch')
        if (epoch !== null && epoch !== String(front.moves)) {
          asked.push('refused')
          return Response.json({ code: 'lease_lost' }, { status: 503 })
        }
        asked.push(path)
        if (!front.up) await new Promise((_, reject) => init?.signal?.addEventListener('abort', reject))
        return Response.json(path === '/attestation/leader' ? { info: { ...info, epoch: front.moves } } : {})
      },
    } as unknown as SessionVenue,
  }
  return front
}

test('through a node that follows the epoch is that of the leading one, and its sockets stay through the next', async () => {
  const [first, again] = [frontOf(7, 'front'), frontOf(8, 'front')]
  const nodes = [first, again]
  const live = await LiveVenue.open(async () => nodes.shift()!.shown, undefined, true)
  let closed = 0
  live.webSocket('/ws/trading').addEventListener('close', () => closed++)
  expect(await live.isInEpoch(7n)).toBe(true)
  first.moves = 8
  expect(await live.isInEpoch(7n)).toBe(false)
  expect([live.info.epoch, live.identity.epoch, closed]).toEqual([8, 8n, 0])
  expect(first.asked).toEqual(['/attestation/leader', '/attestation/leader'])
})

test('a node that follows is asked again while it has no leading one, and until it has reached the newest receipt', async () => {
  const front = frontOf(7, 'front')
  const live = await LiveVenue.open(async () => front.shown)
  const seen: (string | null)[] = []
  const { fetch } = front.shown
  let lost = 2
  front.shown.fetch = async (path, init) => {
    seen.push(new Headers(init?.headers).get('x-seen-seq'))
    if (path === '/orders' && lost-- > 0) return Response.json({ code: 'lease_lost' }, { status: 503 })
    return fetch(path, init)
  }
  const { signal } = new AbortController()
  expect((await live.fetch('/orders', { method: 'POST', signal })).status).toBe(200)
  expect(await live.hasVerified(receiptOf(7), COMMAND, { after_seq: 0, epoch: 7n })).toBe(true)
  await live.fetch('/orders', { signal })
  expect(seen).toEqual([null, null, null, '1000'])
})

test('a receipt of the next epoch through a node that follows is judged once the leading node can be', async () => {
  const [first, next] = [frontOf(7, 'front'), frontOf(8, 'front')]
  let waits = 0
  const verify = async () => {
    if (live === undefined) return first.shown
    if (waits++ < 2) throw new EvidenceUnavailable('no link to a leading node')
    // The node that follows has yet to learn who leads.
    return waits < 5 ? first.shown : next.shown
  }
  let live: LiveVenue | undefined
  live = await LiveVenue.open(verify)
  expect(await live.hasVerified(receiptOf(8), COMMAND, { after_seq: 0, epoch: 7n })).toBe(true)
  expect([waits, live.info.epoch]).toEqual([5, 8])
})

test('through a node that follows nothing is sent to a leading one, nor read by its word, that is not judged', async () => {
  const nodes = [frontOf(7, 'front'), frontOf(8, 'front')] as const
  const [first, next] = nodes
  let verified = 0
  const live = await LiveVenue.open(async () => nodes[verified++]!.shown)
  for (const method of ['POST', 'GET']) {
    await live.fetch('/orders', { method })
  }
  first.moves = 8
  const { signal } = new AbortController()
  expect((await live.fetch('/orders', { method: 'GET', signal })).status).toBe(200)
  expect([first.asked, next.asked]).toEqual([['/orders', '/orders', 'refused'], ['/orders']])
  next.moves = 9
  // Without a signal the caller asks again by itself.
  expect((await live.fetch('/orders', { method: 'POST' })).status).toBe(503)
  expect([verified, next.asked]).toEqual([2, ['/orders', 'refused']])
})

test('while the next leading node cannot be judged, only requests that end orders go to it', async () => {
  const first = frontOf(7, 'front')
  let verified = 0
  const live = await LiveVenue.open(async () => {
    if (verified++ === 0) return first.shown
    throw new EvidenceUnavailable('no quote: strangers took them')
  })
  first.moves = 8
  const send = (path: string, method: string) =>
    live.fetch(path, { method, signal: AbortSignal.timeout(500) }).then(({ status }) => status, String)
  expect(await send('/orders/1', 'DELETE')).toBe(200)
  expect(await send('/orders/cancel-all', 'POST')).toBe(200)
  expect(await send('/orders/dead-man', 'POST')).toBe(200)
  expect(await send('/orders', 'POST')).toContain('EvidenceUnavailable')
  expect(await send('/orders', 'GET')).toContain('EvidenceUnavailable')
  expect(first.asked).toEqual(['refused', '/orders/1', '/orders/cancel-all', '/orders/dead-man'])
})

test('a socket through a node that follows names the leading one, and is opened again once the next one is judged', async () => {
  const nodes = [frontOf(7, 'front'), frontOf(8, 'front')] as const
  const [first, next] = nodes
  let verified = 0
  const live = await LiveVenue.open(async () => nodes[verified++]!.shown)
  live.webSocket('/ws/trading')
  await live.look()
  first.moves = 8
  first.sockets[0]!.dispatchEvent(new Event('close'))
  await live.look()
  live.webSocket('/ws/trading')
  expect([verified, first.judged, next.judged]).toEqual([2, ['7'], ['8']])
})

test('a receipt of an epoch that lost a fork keeps no answers of the next one from a session', async () => {
  const nodes = [frontOf(7, 'front'), frontOf(8, 'front')] as const
  const [first, next] = nodes
  let verified = 0
  const live = await LiveVenue.open(async () => nodes[verified++]!.shown)
  const isSeen = async () => {
    const seen: (string | null)[] = []
    const { fetch } = next.shown
    next.shown.fetch = (path, init) => {
      seen.push(new Headers(init?.headers).get('x-seen-seq'))
      return fetch(path, init)
    }
    await live.fetch('/orders')
    return seen
  }
  await live.hasVerified(receiptOf(7), COMMAND, { after_seq: 0, epoch: 7n })
  first.moves = 8
  expect(await live.isInEpoch(7n)).toBe(false)
  expect(await isSeen()).toEqual([null])
  // A resend has the receipt of the epoch that took the command.
  await live.hasVerified(receiptOf(7), COMMAND, { after_seq: 0, epoch: 7n })
  expect(await isSeen()).toEqual([null])
  await live.hasVerified(receiptOf(8), COMMAND, { after_seq: 0, epoch: 7n })
  expect((await isSeen())[0]).toBe('1000')
})

test('sockets of an abandoned node end at once, even if it hangs', async () => {
  const [first, second] = [frontOf(7, 'one'), frontOf(7, 'two')]
  const nodes = [first, second, second]
  const live = await LiveVenue.open(async () => nodes.shift()!.shown, undefined, true)
  let closed = 0
  live.webSocket('/ws/trading').addEventListener('close', () => closed++)
  first.up = false
  expect(await live.fetch('/orders').catch((error: Error) => error.name)).toBe('NodeLeft')
  expect(closed).toBe(1)
  await live.fetch('/orders')
  expect(second.asked).toEqual(['/orders'])
}, 20_000)

test('a node that is slow and answers is not left for another one of the epoch', async () => {
  const [first, second] = [frontOf(7, 'one'), frontOf(7, 'two')]
  const nodes = [first, second, second]
  const live = await LiveVenue.open(async () => nodes.shift()!.shown, undefined, true)
  const slow = Promise.withResolvers<Response>()
  const { fetch } = first.shown
  first.shown.fetch = (path, init) => (path === '/orders' ? slow.promise : fetch(path, init))
  const answer = live.fetch('/orders')
  await Bun.sleep(NODE_LATE_MS + 500)
  slow.resolve(Response.json({}))
  expect((await answer).status).toBe(200)
  expect(second.asked).toEqual([])
}, 20_000)

test('of several nodes, a read waits until one leads that answers, and ends with its signal', async () => {
  const [first, second] = [processOf(7), processOf(8)]
  let leads = false
  const verify = async () => {
    if (live !== undefined && !leads) throw new EvidenceUnavailable('no node answers')
    return live === undefined ? first.shown : second.shown
  }
  let live: LiveVenue | undefined
  live = await LiveVenue.open(verify, undefined, true)
  first.up = false
  const { signal } = new AbortController()
  const read = live.fetch('/time', { signal })
  const failure = (init: RequestInit) => live.fetch('/time', init).catch((error: Error) => error.message)
  expect(await failure({ method: 'POST', signal })).toBe('the connection failed')
  expect(await failure({ method: 'POST', signal })).toBe('no node answers')
  const ended = new AbortController()
  ended.abort()
  expect(await failure({ signal: ended.signal })).toBe('no node answers')
  leads = true
  expect((await read).status).toBe(200)
  expect(second.calls).toEqual(['/time'])
})

test.each(['lease_lost', 'draining'])(
  'of several nodes, one that answers %s is left for the one that leads',
  async (code) => {
    const [first, second] = [processOf(7), processOf(8)]
    const { live, verified } = await liveOver([first, second], true)
    first.code = code
    expect((await live.fetch('/orders')).status).toBe(503)
    expect((await live.fetch('/orders')).status).toBe(200)
    expect([verified(), live.info.epoch, first.calls]).toEqual([2, 8, ['/orders']])

    const only = processOf(7)
    const alone = await liveOver([only, processOf(8)])
    only.code = code
    for (let count = 0; count < 2; count++) expect((await alone.live.fetch('/orders')).status).toBe(503)
    expect(alone.verified()).toBe(1)
  },
)

test.each(['lease_lost', 'draining', 'outcome_unknown'])(
  'of several nodes, a command that one answers with %s is for the one that leads: it sends again what the first did not execute',
  async (code) => {
    const [first, second] = [processOf(7), processOf(8)]
    const { live } = await liveOver([first, second], true)
    first.code = code
    const command = { method: 'POST', signal: AbortSignal.timeout(5_000) }
    const is_open = code === 'outcome_unknown'
    expect((await live.fetch('/orders', command)).status).toBe(is_open ? 503 : 200)
    expect([first.calls, second.calls]).toEqual([['/orders'], is_open ? [] : ['/orders']])
    expect((await live.fetch('/time')).status).toBe(200)
    expect(live.info.epoch).toBe(8)
  },
)

test('of several nodes, neither one of an earlier epoch nor the refusal of one whose epoch passed ends the session', async () => {
  const [first, earlier, second] = [processOf(7), processOf(6), processOf(8)]
  const passed = (epoch: number) =>
    new VerificationFailed({ checks: [] } as never, { missing: {}, info: { epoch } } as never)
  const answers = [first.shown, earlier.shown, passed(7), second.shown, passed(9)]
  const verify = async () => {
    const answer = answers.shift()!
    if (answer instanceof Error) throw answer
    return answer
  }
  const live = await LiveVenue.open(verify, undefined, true)
  first.up = false
  const failure = () => live.fetch('/time').catch((error: Error) => error.name)
  const names = [await failure(), await failure(), await failure(), (await live.fetch('/time')) as Response]
  expect(names.slice(0, 3)).toEqual(['Error', 'EvidenceUnavailable', 'EvidenceUnavailable'])
  expect(live.info.epoch).toBe(8)
  second.up = false
  expect([await failure(), await failure()]).toEqual(['Error', 'VerificationFailed'])
})

test('a policy is text, a parsed policy, or the result of a function', () => {
  const text = '{"permitted_skips": ["keys_without_kms"]}'
  const policy = parsePolicy(text)
  for (const source of [text, policy, () => text, () => policy]) expect(policyOf(source)).toEqual(policy)
  expect(policyOf(undefined)).toBeUndefined()
})

test('a receipt of a later epoch is judged by the process that is verified then', async () => {
  const { live, verified } = await liveOver([processOf(7), processOf(8)])
  const sent = { after_seq: 0, epoch: 7n }
  expect(await live.hasVerified(receiptOf(7), COMMAND, sent)).toBe(true)
  expect(verified()).toBe(1)
  expect(await live.hasVerified(receiptOf(8), COMMAND, sent)).toBe(true)
  expect(verified()).toBe(2)
  // The receipt of the epoch before proves a resend; one of an unseen epoch proves nothing.
  expect(await live.hasVerified(receiptOf(7), COMMAND, sent)).toBe(true)
  const reason = (receipt: Receipt, epoch = 7n) =>
    live.hasVerified(receipt, COMMAND, { after_seq: 0, epoch }).catch((error: unknown) => error)
  expect(await reason(receiptOf(9))).toBeInstanceOf(ReceiptRefused)
  expect(await reason(receiptOf(7), 8n)).toBeInstanceOf(ReceiptRefused)
  expect(await reason({ ...receiptOf(8), signature: receiptOf(7).signature })).toBeInstanceOf(ReceiptRefused)
  expect(await live.hasVerified(receiptOf(6), COMMAND, { after_seq: 0, epoch: 6n })).toBe(false)
})
