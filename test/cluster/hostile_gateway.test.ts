/** The client of etcd against a gateway that lies, floods, redirects or rejects. */

import { afterEach, expect, test } from 'bun:test'
import { Etcd, EtcdRejects, NoReply } from '../../engine/cluster/etcd'
import { LogRolledBack, ReplicatedLog } from '../../engine/cluster/replicated_log'
import { LIMITS } from '../../engine/limits'
import { failure } from '../engine/journal/folder'
import { entryOf, SEALING, START } from '../kit/etcd/log_entries'

const LIMIT_MS = 120_000
const NO_TLS = { ca: '', cert: '', key: '' }
const TERM = { number: 1, node: 1, nonce: new Uint8Array(16) }
const servers: Bun.Server<unknown>[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stop(true)
})

type Answer = (request: Request, count: number) => Response | Promise<Response>

function gateway(answer: Answer): { url: string; requests: () => number } {
  let count = 0
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: (request) => answer(request, ++count) })
  servers.push(server)
  return { url: `http://127.0.0.1:${server.port}`, requests: () => count }
}
const etcdAt = (...urls: string[]) => new Etcd({ endpoints: urls, tls: NO_TLS })
const logAt = (...urls: string[]) => new ReplicatedLog(etcdAt(...urls), SEALING)
const rejecting = (code: number, message: string) => () => Response.json({ code, message }, { status: 400 })
const pair = (key: string, value: string) => ({ key: btoa(key), value: btoa(value) })

test(
  'an append that a majority rejects ends, and is not repeated without end',
  async () => {
    const full = [0, 1, 2].map(() => gateway(rejecting(8, 'etcdserver: mvcc: database space exceeded')))
    const log = logAt(...full.map(({ url }) => url))
    expect(await failure(log.append(TERM, entryOf(START, 'a')))).toBeInstanceOf(EtcdRejects)
    expect(full.map(({ requests }) => requests())).toEqual([1, 1, 0])
  },
  LIMIT_MS,
)

test(
  'the codes of gRPC that a repetition does not change, and no others, are rejections',
  async () => {
    const rejected: number[] = []
    for (let code = 0; code <= 16; code++) {
      const { url } = gateway(rejecting(code, 'etcdserver: of this code'))
      const error = await failure(etcdAt(url).txn([], [{ get: 'a' }]))
      if (error instanceof EtcdRejects) rejected.push(code)
      else expect(error).toBeInstanceOf(NoReply)
    }
    expect(rejected).toEqual([3, 5, 7, 8, 9, 11, 12, 16])
  },
  LIMIT_MS,
)

test(
  'a member that names no size of its database uses none',
  async () => {
    const member = gateway(() => Response.json({ header: { revision: '7' } }))
    expect(await etcdAt(member.url).compact()).toBe(0)
  },
  LIMIT_MS,
)

test(
  'a member that rejects alone, or is busy, is passed over',
  async () => {
    const broken = gateway(rejecting(3, 'etcdserver: request is too large'))
    const busy = gateway(rejecting(8, 'etcdserver: too many requests'))
    const sound = gateway((_, count) =>
      count < 3
        ? Response.json({ code: 14, message: 'etcdserver: leader changed' }, { status: 503 })
        : Response.json({ succeeded: true, responses: [{}, {}] }),
    )
    await logAt(broken.url, busy.url, sound.url).append(TERM, entryOf(START, 'a'))
    expect(sound.requests()).toBe(3)
  },
  LIMIT_MS,
)

test(
  'an answer without end, or larger than any answer, is no reply and leaves no memory behind',
  async () => {
    let sent = 0
    const flood = gateway(
      () =>
        new Response(
          new ReadableStream({
            pull(controller) {
              sent += 1_000_000
              controller.enqueue(new Uint8Array(1_000_000).fill(32))
            },
          }),
        ),
    )
    expect(await failure(etcdAt(flood.url).txn([], [{ get: 'a' }]))).toBeInstanceOf(NoReply)
    // Bytes under way in buffers, and no more.
    expect(sent).toBeLessThan(8 * LIMITS.log_answer_bytes_max)
  },
  LIMIT_MS,
)

test(
  'a redirection is not followed',
  async () => {
    const other = gateway(() => Response.json({ succeeded: true, responses: [{}] }))
    const sending = gateway(() => Response.redirect(`${other.url}/v3/kv/txn`, 307))
    expect(await failure(etcdAt(sending.url).txn([], [{ get: 'a' }]))).toBeInstanceOf(NoReply)
    expect(other.requests()).toBe(0)
  },
  LIMIT_MS,
)

for (const [what, body] of Object.entries({
  'no JSON': 'x',
  'no object': 'null',
  'another number of answers': '{"succeeded":true,"responses":[{},{}]}',
  'answers that are no list': '{"succeeded":true,"responses":{"length":1}}',
  'pairs that are no list': '{"succeeded":true,"responses":[{"response_range":{"kvs":{"a":1}}}]}',
  'a key that is no text': '{"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":{}}]}}]}',
  'success that is no truth value': '{"succeeded":"yes","responses":[{}]}',
  'a comparison that failed where none was asked': '{}',
  'a value that is as long as it says':
    '{"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":"YQ==","value":{"length":5}}]}}]}',
  'a key that is as long as it says':
    '{"succeeded":true,"responses":[{"response_range":{"kvs":[{"key":{"length":5}}]}}]}',
  'more values than an answer has': `{"succeeded":true,"responses":[{}],"more":[${'{},'.repeat(9_999)}{}]}`,
  'more values than an answer has, in one list': `{"succeeded":true,"responses":[{}],"more":[${'1,'.repeat(LIMITS.log_answer_values_max)}1]}`,
  'lists in lists': `{"succeeded":true,"responses":[{}],"more":${'['.repeat(9_999)}${']'.repeat(9_999)}}`,
}))
  test(
    `${what}: no reply`,
    async () => {
      const lying = gateway(() => new Response(body))
      expect(await failure(etcdAt(lying.url).txn([], [{ get: 'a' }]))).toBeInstanceOf(NoReply)
    },
    LIMIT_MS,
  )

test(
  'a key that was not asked for is no answer; a head that no node wrote ends the leadership',
  async () => {
    const answering = (...found: object[]) =>
      gateway(() =>
        Response.json({ succeeded: true, responses: found.map((kvs) => ({ response_range: { kvs } })) }),
      )
    const foreign = answering([pair('another', 'x')])
    expect(await etcdAt(foreign.url).txn([], [{ get: 'asked' }])).toEqual({ succeeded: true, found: [[]] })
    const head = `tacit/${Buffer.from(SEALING.venue).toString('hex')}/head`
    const garbled = answering([pair(head, 'short')], [])
    expect(await failure(logAt(garbled.url).look())).toBeInstanceOf(LogRolledBack)
    // No term is behind this one.
    const last = Buffer.alloc(8 + 4 + 16)
    last.writeBigUInt64LE(BigInt(Number.MAX_SAFE_INTEGER))
    const term = { key: btoa(head.replace('head', 'term')), value: last.toString('base64') }
    expect(await failure(logAt(answering([], [term]).url).takeTerm(1, START))).toBeInstanceOf(LogRolledBack)
  },
  LIMIT_MS,
)
