/** Links between nodes: both sides prove machine and build, as the vault admits them, and frames count once. */

import { afterEach, beforeEach, expect, test } from 'bun:test'
import type { Enclave } from '../../enclave/contract'
import type { NodeVenue, Passed } from '../../engine/venue'
import { fromAnyHex, fromHex, toHex, utf8 } from '../../protocol/bytes'
import { Refusal, type RefusalCode } from '../../protocol/refusals'
import { sha256 } from '../../protocol/sha256'
import { LINK_SIDES, quotedNonce } from '../../protocol/tdx/quote'
import { ANNOUNCED_LISTS, type AnnouncedEntry, type AnnouncedList } from '../../protocol/vault/admin'
import type { Leader } from '../../protocol/wire/public'
import { openLog } from '../../server/edge/log'
import { leaderOf, type Shared } from '../../server/edge/shared_quotes'
import {
  LINK_OFFERS_MAX,
  LINK_QUESTIONS_MAX,
  LINK_RIGHT_MS,
  LINK_RIGHT_WAIT,
  LINK_STREAMS_MAX,
  LINK_WINDOW,
} from '../../server/limits'
import { LinkAnswers, type LinkParts } from '../../server/links/answer_links'
import { LeaderLink } from '../../server/links/leader_link'
import { evidenceOf, prove } from '../../server/links/link_proof'
import { PassedOn } from '../../server/links/passed_on'
import { answerOf, questionOf, responseOf } from '../../server/links/questions'
import { agreementHash, linkKey, SealedLink } from '../../server/links/sealed_link'
import { operatorApp } from '../../server/operator/operator'
import type { Upgrader } from '../../server/sockets/upgrade'
import { type Listener, listen } from '../../server/tls/listen'
import { type Machine, openMachine, openOn, VENUE } from '../enclave/machine'
import { only } from '../kit/server/harness'
import { ATTESTATION } from '../routes/answers'
import { HASH, KEY } from '../routes/bodies'
import { admitting, judging, LEAD } from './link_kit'

const INFO = {
  app_id: 'app',
  instance_id: '',
  compose_hash: HASH,
  tee_pubkey: KEY,
  tacit_version: '1.2.3',
  venue: HASH,
  config_account: KEY,
  program_id: KEY,
  genesis_hash: KEY,
  generation: 0,
  epoch: 7,
  exit_delay_s: 604_800,
}
let machine: Machine
let enclave: Enclave
let announced: AnnouncedEntry[]
let listener: Listener | undefined
let now_ms = 0
const clock = { unixMs: () => Date.now(), monotonicMs: () => now_ms }

beforeEach(async () => {
  machine = await openMachine()
  enclave = await openOn(machine.agent)
  announced = await admitting(enclave)
  now_ms = 0
})
afterEach(async () => {
  await listener?.stop(0)
  listener = undefined
  await enclave.close()
  await machine.close()
})
const judge: LinkParts['judge'] = (evidence) => judging(machine, announced)(evidence)
const partsOf = (more: Partial<LinkParts> = {}): LinkParts => ({
  enclave,
  clock,
  venue: VENUE,
  judge,
  ...more,
})

const leading = only<NodeVenue>('venue', { nodeBack: async () => [], nodeLost: () => undefined })

/** The leading node; `calls` counts its questions. */
function serve(answers: LinkAnswers, venue = leading): string {
  const calls: Record<string, (body: Uint8Array) => Promise<Response>> = {
    '/links/offer': async () => Response.json(answers.offer()),
    '/links/open': async (body) => Response.json(await answers.open(body)),
    '/links/frame': async (body) => new Response(new Uint8Array(await answers.frame(body))),
  }
  const passed_on = new PassedOn(answers, () => venue)
  const fetch = async (request: Request, server?: Upgrader) => {
    const { pathname } = new URL(request.url)
    if (pathname === '/links/stream') {
      server!.upgrade(request, { data: passed_on.socket(), headers: {} })
      return new Response(null)
    }
    return calls[pathname]!(await request.bytes()).catch(() => new Response('', { status: 401 }))
  }
  listener = listen({ fetch }, { hostname: '127.0.0.1', port: 0, tls: enclave.tls })
  return listener.url
}

/** One question of a node that follows; the event that it logs. */
async function asked(
  url: string,
  parts = partsOf(),
  goes_on = false,
  applied = { seq: 3, epoch: LEAD.epoch },
) {
  const lines = Promise.withResolvers<{ event: string; reason?: string }>()
  const log = openLog((line) => lines.resolve(JSON.parse(line)), Date.now)
  const link = new LeaderLink(
    { ...parts, log },
    () => url,
    () => applied,
  )
  const running = link.run()
  const line = await lines.promise
  if (!goes_on) link.stop()
  return { link, line, running }
}

test('a node that follows has the right to answer for 1 s from when it asked', async () => {
  const url = serve(new LinkAnswers(partsOf(), () => LEAD))
  const { link, line, running } = await asked(url)
  expect(line.event).toBe('link_open')
  expect(link.current()).toMatchObject({ ...LEAD, until_ms: LINK_RIGHT_MS })
  now_ms = LINK_RIGHT_MS - 1
  expect(link.current()).toBeDefined()
  now_ms = LINK_RIGHT_MS
  expect(link.current()).toBeUndefined()
  await running
})

test('a connection belongs to the node by whose word it is used, also if that one refused the first question, and requests after its end wait', async () => {
  const took: string[] = []
  const nodeOf = (name: string, lead: () => object) => {
    const passed = async () => {
      took.push(name)
      return { value: {}, seq: 1, limits: null }
    }
    const venue = only<NodeVenue>('venue', {
      nodeBack: async () => [],
      nodeLost: () => undefined,
      passed: passed as never,
    })
    return { url: serve(new LinkAnswers(partsOf(), lead), venue), listener: listener! }
  }
  let serves = false
  const epoch = LEAD.epoch + 1
  const old = nodeOf('old', () => LEAD)
  const next = nodeOf('next', () => {
    if (!serves) throw new Refusal('lease_lost')
    return { ...LEAD, epoch }
  })
  let { url } = old
  const parts = { ...partsOf(), log: openLog(() => undefined, Date.now) }
  const link = new LeaderLink(
    parts,
    () => url,
    () => ({ seq: 3, epoch: LEAD.epoch }),
  )
  await link.ask()
  url = next.url
  await link.ask().catch(() => undefined)
  serves = true
  await link.ask()
  await link.pass({ kind: 'tree_root' }, epoch)
  link.arrived()
  expect([took, link.handing()]).toEqual([['next'], undefined])
  await next.listener.stop(0)
  while (link.handing() === undefined) await Bun.sleep(5)
  expect(link.current()?.epoch).toBe(epoch)
  link.stop()
  await old.listener.stop(0)
})

test('a right ends no later than that of the leading node that gave it', async () => {
  const { link, running } = await asked(serve(new LinkAnswers(partsOf(), () => ({ ...LEAD, right_ms: 300 }))))
  now_ms = 299
  expect(link.current()).toBeDefined()
  now_ms = 300
  expect(link.current()).toBeUndefined()
  await running
})

test('a revocation waits for a node that lacks it until that one shows it, or its right is over', async () => {
  const answers = new LinkAnswers(partsOf(), () => LEAD)
  const { running } = await asked(serve(answers))
  await running
  // It has shown 3 records.
  await answers.applied(3, LEAD.epoch)
  let ended = false
  const waits = answers.applied(4, LEAD.epoch).then(() => {
    ended = true
  })
  now_ms = LINK_RIGHT_WAIT * LINK_RIGHT_MS - 1
  await Bun.sleep(50)
  expect(ended).toBe(false)
  now_ms += 1
  await waits
  // Later it has no right.
  await answers.applied(5, LEAD.epoch)
})

test('a revocation waits for a node that has more of the log of another epoch, in which it may be missing', async () => {
  const answers = new LinkAnswers(partsOf(), () => LEAD)
  const { running } = await asked(serve(answers), partsOf(), false, { seq: 9, epoch: LEAD.epoch - 1 })
  await running
  let ended = false
  const waits = answers.applied(4, LEAD.epoch).then(() => {
    ended = true
  })
  await Bun.sleep(50)
  expect(ended).toBe(false)
  now_ms = LINK_RIGHT_WAIT * LINK_RIGHT_MS
  await waits
})

test('passed-on requests are answered over the stream, and a connection that ends takes its link with it', async () => {
  const taken: Passed[] = []
  Object.assign(leading, {
    passed: async (passed: Passed) => {
      taken.push(passed)
      if (passed.kind === 'tree_root') throw new Refusal('rate_limited', { retry_after_ms: 7 })
      return { value: { of: passed.kind }, seq: 41, limits: null }
    },
  })
  const { link } = await asked(serve(new LinkAnswers(partsOf(), () => LEAD)), partsOf(), true)
  const places = [1, 2, 3].map((nonce) => ({
    kind: 'record' as const,
    seq: nonce,
    access: 'trade' as const,
    command: Uint8Array.of(nonce),
  }))
  const answers = await Promise.all(places.map((one) => link.pass(one)))
  expect(answers).toEqual(places.map(() => ({ value: { of: 'record' }, seq: 41, limits: null })))
  expect(taken).toEqual(places)
  // The connection is to the leading node of another epoch.
  expect(await link.pass(places[0]!, LEAD.epoch + 1).catch((error) => error.code)).toBe('lease_lost')
  expect(await link.pass(places[0]!, LEAD.epoch)).toMatchObject({ seq: 41 })
  expect(taken.splice(places.length)).toHaveLength(1)
  const refused = await link.pass({ kind: 'tree_root' }).catch((error) => error)
  expect([refused.code, refused.facts]).toEqual(['rate_limited', { retry_after_ms: 7 }])
  await listener!.stop(0)
  expect(await link.pass(places[0]!).catch((error) => error.code)).toMatch(/^(outcome_unknown|lease_lost)$/)
  link.stop()
})

test('a node that may acknowledge nothing gives no right', async () => {
  const answers = new LinkAnswers(partsOf(), () => {
    throw new Refusal('unanchored')
  })
  const { link, line, running } = await asked(serve(answers))
  expect(line).toMatchObject({ event: 'link_lost', reason: 'unanchored' })
  expect(link.current()).toBeUndefined()
  await running
})

test('while the leading node gives its term away requests can wait for the next one, or for this one to lead', async () => {
  let code: RefusalCode | undefined = 'draining'
  const answers = new LinkAnswers(partsOf(), () => {
    if (code !== undefined) throw new Refusal(code)
    return LEAD
  })
  const { link, line, running } = await asked(serve(answers), partsOf(), true)
  expect(line).toMatchObject({ event: 'link_lost', reason: 'draining' })
  // It is the other node that drains.
  expect(await link.ask().catch((error) => error.code)).toBe('lease_lost')
  const handed = link.handing()
  expect(handed).toBeDefined()
  link.arrived()
  code = undefined
  await handed
  // Until the answer of the next one is reached here.
  expect([link.current()?.epoch, link.handing()]).toEqual([LEAD.epoch, handed])
  link.arrived()
  expect(link.handing()).toBeUndefined()
  code = 'unanchored'
  await link.ask().catch(() => undefined)
  expect(link.handing()).toBeUndefined()
  code = 'draining'
  await link.ask().catch(() => undefined)
  const led = link.handing()!
  link.stop()
  await led
  expect(link.handing()).toBeUndefined()
  await running
})

test('calls that are passed on are answered in any order, beyond a number at once they are refused, and without a right none is sent', async () => {
  const held = Promise.withResolvers<void>()
  const answers = new LinkAnswers(partsOf(), async ({ call }) => {
    if (call === undefined) return LEAD
    if (call.target === '/held') await held.promise
    return answerOf(new Response(call.target + Buffer.from(call.body, 'base64'), { status: 202 }))
  })
  const { link, running } = await asked(serve(answers))
  await running
  const pass = async (path: string) => {
    const request = new Request(`https://node${path}`, { method: 'POST' })
    return responseOf(await link.call(questionOf(request, utf8('!'))))
  }
  const first = pass('/held')
  const second = await pass('/now?a=1')
  expect([second.status, await second.text()]).toEqual([202, '/now?a=1!'])
  const others = Array.from({ length: LINK_QUESTIONS_MAX }, () => pass('/held').catch((error) => error.code))
  expect(await others.at(-1)).toBe('matching_unavailable')
  // One place is reserved for the question for the right.
  expect(await link.ask()).toMatchObject({ epoch: LEAD.epoch })
  held.resolve()
  expect(await (await first).text()).toBe('/held!')
  expect((await Promise.all(others)).filter((one) => one === 'matching_unavailable')).toHaveLength(2)
  // The call was sent, and no answer says whether it was applied.
  await listener!.stop(0)
  expect(await pass('/now').catch((error) => error.code)).toBe('outcome_unknown')
  now_ms = LINK_RIGHT_MS
  expect(await pass('/now').catch((error) => error.code)).toBe('lease_lost')
})

/** Of the lists that a link needs an entry of, as an opening does. */
const LISTS = Object.keys(ANNOUNCED_LISTS) as AnnouncedList[]

test.each(LISTS)('a machine whose %s is not announced is rejected by each side', async (list) => {
  const revoked: LinkParts['judge'] = (evidence) => {
    const entries = announced.filter((one) => one.list !== list)
    return judging(machine, entries)(evidence)
  }
  const url = serve(new LinkAnswers(partsOf({ judge: revoked }), () => LEAD))
  const refused = await asked(url)
  expect(refused.line).toMatchObject({ event: 'link_lost', reason: 'Error: open answered 401' })
  await refused.running
  await listener!.stop(0)
  const other = await asked(serve(new LinkAnswers(partsOf(), () => LEAD)), partsOf({ judge: revoked }))
  expect(other.line.reason).toMatch(/^PeerRejected: /)
  expect(other.link.current()).toBeUndefined()
  await other.running
})

test('identity and attestation of the leading node come over the link, and nothing that has another form', async () => {
  // A machine's event log is longer than most answers.
  const leader = { info: INFO, attestation: { ...ATTESTATION, event_log: 'e'.repeat(200_000) } }
  let given: object = leader
  const nonces: (string | undefined)[] = []
  const answers = new LinkAnswers(partsOf(), ({ attest }) => {
    if (attest === undefined) return LEAD
    nonces.push(attest)
    return given
  })
  const { link, running } = await asked(serve(answers))
  const shared = { ...leader, attestation: { ...leader.attestation, nonce_path: [] } }
  expect(leaderOf(await link.attested('ab'.repeat(32)))).toEqual(shared)
  // Strangers without a nonce share one question.
  expect(await Promise.all([link.attested(), link.attested()])).toEqual([leader, leader])
  expect(nonces).toEqual(['ab'.repeat(32), ''])
  given = { info: leader.info }
  expect(await link.attested().catch((error) => error.code)).toBe('lease_lost')
  await listener!.stop(0)
  expect(await link.attested().catch((error) => error.code)).toBe('lease_lost')
  now_ms = LINK_RIGHT_MS
  expect(await link.attested().catch((error) => error.code)).toBe('lease_lost')
  await running
})

test('callers of a node that follows share questions, whose paths join, and a leading node that is silent holds up none', async () => {
  const silent = Promise.withResolvers<void>()
  const nonces: string[] = []
  const answers = new LinkAnswers(partsOf(), async ({ attest }) => {
    if (attest === undefined) return LEAD
    nonces.push(attest)
    if (nonces.length === 1) await silent.promise
    return { info: INFO, attestation: { ...ATTESTATION, nonce_path: ['99'.repeat(32)] } }
  })
  const { link, running } = await asked(serve(answers))
  /** As its text has it. */
  const shown = async (nonce: string): Promise<Leader> => {
    const answer = (await link.attested(nonce)) as Shared<Leader>
    const read = JSON.parse(answer.textIn(JSON.stringify(answer.answer)))
    expect(read).toEqual(leaderOf(answer))
    return read
  }
  const first = shown('00'.repeat(32))
  const own = Array.from({ length: 500 }, (_, at) => at.toString(16).padStart(64, '1'))
  while (nonces.length === 0) await Bun.sleep(1)
  const answered = await Promise.all(own.map(shown))
  expect(nonces).toHaveLength(2)
  answered.forEach(({ attestation }, at) => {
    const path = attestation.nonce_path!.map((one) => fromHex(one, 32)!)
    expect(attestation.nonce_path!.at(-1)).toBe('99'.repeat(32))
    expect(toHex(quotedNonce(fromHex(own[at]!, 32)!, path.slice(0, -1)))).toBe(nonces[1]!)
  })
  silent.resolve()
  expect((await first).attestation.nonce_path).toEqual(['99'.repeat(32)])
  await running
})

test('only a quote for this venue, these keys and this side proves a node', async () => {
  const [mine, theirs] = [linkKey().public_key, linkKey().public_key]
  const agreed = agreementHash(VENUE, mine, theirs)
  const proof = await prove(enclave, 'asks', agreed)
  await judge(evidenceOf(proof, 'asks', agreed))
  const others = [
    evidenceOf(proof, 'answers', agreed),
    evidenceOf(proof, 'asks', agreementHash(VENUE, theirs, mine)),
    evidenceOf(proof, 'asks', agreementHash(sha256(VENUE), mine, theirs)),
  ]
  for (const evidence of others)
    expect(await judge(evidence).catch(String)).toMatch(/report_data is not this nonce/)
  // Anyone's answer from /attestation, under a chosen nonce.
  await enclave.bind({ venue: VENUE, epoch: 1, slot: () => 1 })
  const { tee_pubkey: _key, binding: _binding, ...attestation } = await enclave.attestation(toHex(agreed))
  for (const side of ['asks', 'answers'] as const)
    expect(await judge(evidenceOf({ ...proof, attestation }, side, agreed)).catch(String)).toMatch(
      /report_data/,
    )
})

test('the sides of a link are the keys of no venue', () => {
  const sides = Object.values(LINK_SIDES).map(toHex)
  expect(new Set(sides).size).toBe(2)
  expect(sides).toEqual([
    toHex(sha256(utf8('tacit/link/v1/asks'))),
    toHex(sha256(utf8('tacit/link/v1/answers'))),
  ])
})

test('an offered key opens one link, and only the newest ones are kept', async () => {
  const answers = new LinkAnswers(partsOf(), () => ({}))
  const opening = async (offered: string) => {
    const own = linkKey()
    const agreed = agreementHash(VENUE, own.public_key, fromAnyHex(offered)!)
    const proof = await prove(enclave, 'asks', agreed)
    return utf8(JSON.stringify({ offered, key: toHex(own.public_key), proof }))
  }
  const { offered } = answers.offer()
  const body = await opening(offered)
  expect(await answers.open(body)).toMatchObject({ proof: { info: { app_id: expect.any(String) } } })
  expect(await answers.open(body).catch((error) => error.code)).toBe('frame_invalid')
  const { offered: old } = answers.offer()
  const late = await opening(old)
  for (let one = 0; one < LINK_OFFERS_MAX; one++) answers.offer()
  expect(await answers.open(late).catch((error) => error.code)).toBe('frame_invalid')
})

test('a frame counts once, unchanged, on its link and from its side', async () => {
  const [asking, answering] = [linkKey(), linkKey()]
  const agreed = agreementHash(VENUE, asking.public_key, answering.public_key)
  const mine = new SealedLink(asking, answering.public_key, agreed)
  const theirs = new SealedLink(answering, asking.public_key, agreed)
  expect(toHex(mine.id)).toBe(toHex(theirs.id))
  const frame = mine.seal('asks', mine.next(), utf8('one'))
  for (let at = 0; at < frame.length; at++) {
    const changed = frame.slice()
    changed[at]! ^= 1
    expect(theirs.take('asks', changed)).toBeUndefined()
  }
  for (const length of [0, 1, frame.length - 1])
    expect(theirs.take('asks', frame.slice(0, length))).toBeUndefined()
  expect(theirs.take('answers', frame)).toBeUndefined()
  const later = mine.seal('asks', 3, utf8('three'))
  expect(theirs.take('asks', later)?.content).toEqual(utf8('three'))
  // One that was overtaken counts, once, unless it is late by more than the window.
  expect(theirs.take('asks', frame)?.content).toEqual(utf8('one'))
  for (const again of [later, frame]) expect(theirs.take('asks', again)).toBeUndefined()
  const late = mine.seal('asks', 4, utf8('four'))
  expect(theirs.take('asks', mine.seal('asks', 4 + LINK_WINDOW, utf8('far')))).toBeDefined()
  for (const old of [late, later, frame]) expect(theirs.take('asks', old)).toBeUndefined()
  const other = new SealedLink(linkKey(), answering.public_key, agreed)
  expect(theirs.take('asks', other.seal('asks', 9, utf8('nine')))).toBeUndefined()
  const answers = new LinkAnswers(partsOf(), () => ({}))
  for (const bytes of [frame, new Uint8Array(0), new Uint8Array(64)])
    expect(await answers.frame(bytes).catch((error) => error.code)).toBe('token_invalid')
})

test('requests that are no upgrade use up no streams', async () => {
  const passed_on = new PassedOn(new LinkAnswers(partsOf(), () => LEAD), () => leading)
  const app = operatorApp({
    documents: { html: '', json: '', css: '' },
    clock,
    log: openLog(() => undefined, Date.now),
    stream: () => passed_on.socket(),
    node: new Map(),
    app: { meters: { read: () => [] } },
  } as never)
  listener = listen(app, { hostname: '127.0.0.1', port: 0, tls: enclave.tls })
  const get = () => fetch(`${listener!.url}/links/stream`, { tls: { rejectUnauthorized: false } } as never)
  const statuses: number[] = []
  for (let one = 0; one < LINK_STREAMS_MAX; one++) statuses.push((await get()).status)
  await Bun.sleep(6_000)
  const { promise, resolve } = Promise.withResolvers<string>()
  const socket = new WebSocket(`${listener.url.replace('http', 'ws')}/links/stream`, {
    tls: { rejectUnauthorized: false },
  } as never)
  socket.onopen = () => resolve('open')
  socket.onerror = () => resolve('refused')
  socket.onclose = () => resolve('refused')
  const got = await promise
  socket.close()
  expect(got).toBe('open')
}, 20_000)
