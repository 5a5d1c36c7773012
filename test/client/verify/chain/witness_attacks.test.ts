/** A lying venue, someone between it and the client, or a lying node that a policy names, is rejected by its check. */

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { VerificationFailed } from '../../../../client/verified_venue'
import { decodeBase64 } from '../../../../client/verify/json_document'
import type { ChainPolicy, VerificationPolicy } from '../../../../client/verify/policy'
import type { CheckName } from '../../../../client/verify/transcript'
import { generateTls } from '../../../../enclave/x509'
import { toInstruction } from '../../../../engine/chain/client/build_transaction'
import { decodeBase58 } from '../../../../protocol/base58'
import { toHex, utf8 } from '../../../../protocol/bytes'
import { sha256 } from '../../../../protocol/sha256'
import { CONFIG, decodeAnnouncement } from '../../../../protocol/vault/accounts'
import { announceInstruction } from '../../../../protocol/vault/admin'
import type { Attestation, Info } from '../../../../protocol/wire/public'
import { changedPolicy, landOn, openSite, type Site } from '../../../kit/verify/site'
import { LyingNode } from '../../lying_node'

let site: Site
let main: LyingNode
let witness: LyingNode
/** The policy of a client that names both nodes. */
let both: ChainPolicy
beforeAll(async () => {
  site = await openSite()
  const chain = site.policy.chain!
  main = new LyingNode(chain.rpc_url)
  witness = new LyingNode(chain.rpc_url, '127.0.0.2')
  both = { ...chain, rpc_url: main.url, witness_rpc_urls: [witness.url] }
})
afterEach(() => {
  for (const node of [main, witness]) Object.assign(node, { lies: {}, instead: undefined })
})
afterAll(async () => {
  await main.stop()
  await witness.stop()
  await site.close()
})

async function reasons(chain: ChainPolicy): Promise<string[]> {
  const failed = await site.connect({ chain }).then(
    () => undefined,
    (error: unknown) => error,
  )
  if (failed === undefined) return []
  if (!(failed instanceof VerificationFailed)) throw failed
  return failed.transcript.checks
    .filter(({ result }) => result === 'fail')
    .map(({ name, reason }) => `${name}: ${reason}`)
}

async function announce(id: Uint8Array, action: 'announce' | 'cancel' = 'announce') {
  const admin = await createKeyPairSignerFromPrivateKeyBytes(site.chain.admin_seed)
  const key = decodeBase58(admin.address, 32)!
  const fields = { program: site.chain.program_id!, admin: key, payer: key, list: 'build', id } as const
  await landOn(site.chain, admin, toInstruction(announceInstruction({ ...fields, action }), [admin]))
}

type Listed = { context: { slot: number }; value: { account: { data: [string] } }[] }
const hiding = (id: Uint8Array) => ({
  getProgramAccounts: (result: unknown) => {
    const { context, value } = result as Listed
    const isHidden = ({ account }: Listed['value'][number]) =>
      toHex(decodeAnnouncement(decodeBase64(account.data[0]))!.id) === toHex(id)
    return { context, value: value.filter((one) => !isHidden(one)) }
  },
})
/** Answers as the chain is now, from now on; a node that ignores `minContextSlot`. */
async function frozen(): Promise<LyingNode['lies']> {
  const kept = new Map<string, unknown>()
  const keep = (method: string) => (result: unknown) => {
    kept.set(method, result)
    return result
  }
  const methods = ['getMultipleAccounts', 'getProgramAccounts']
  witness.lies = Object.fromEntries(methods.map((method) => [method, keep(method)]))
  expect(await reasons({ ...both, pending_actions: ['build'] })).toEqual([])
  return Object.fromEntries(methods.map((method) => [method, () => kept.get(method)]))
}
const buildOf = (byte: number) => new Uint8Array(32).fill(byte)
const DIFFERENT = /the nodes that the policy names show different vaults or announcements/

test('one node that hides an announcement is contradicted by another that the policy names', async () => {
  const swapped = { ...both, rpc_url: witness.url, witness_rpc_urls: [main.url] }
  for (const change of [both, swapped]) expect(await reasons(change)).toEqual([])
  await announce(buildOf(0xcf))
  witness.lies = hiding(buildOf(0xcf))
  expect(await reasons({ ...site.policy.chain!, rpc_url: witness.url })).toEqual([])
  for (const change of [both, swapped])
    expect(await reasons(change)).toContainEqual(expect.stringMatching(DIFFERENT))
  witness.lies = {}
  const [seen] = await reasons(both)
  expect(seen).toMatch(/^announced: the administrator has announced another build/)
  await announce(buildOf(0xcf), 'cancel')
})

test('another epoch account on one of two nodes is refused', async () => {
  witness.lies = {
    getMultipleAccounts: (result) => {
      const [config] = (result as { value: { data: [string] }[] }).value
      const data = Buffer.from(config!.data[0], 'base64')
      data[CONFIG.offsetOf('settlement_signer')]! ^= 1
      config!.data[0] = data.toString('base64')
      return result
    },
  }
  expect(await reasons(both)).toContainEqual(expect.stringContaining('show different vaults'))
})

test('two addresses of one host, or of one operator by the policy itself, are no two nodes', () => {
  const rpc_url = 'https://rpc.example/key'
  const naming = (witness_rpc_urls: string[], change: object = {}) => {
    const chain = { ...site.policy.chain!, rpc_url, witness_rpc_urls }
    return () => changedPolicy(site.policy, { chain, ...change })
  }
  const same = ['https://rpc.example/key', 'https://rpc.example/other', 'https://rpc.example:8899/']
  same.push('http://rpc.example', 'https://RPC.example', 'https://rpc.example./', 'https://a:b@rpc.example/')
  for (const url of same) expect(naming([url])).toThrow(/names rpc.example for two nodes of the chain/)
  const twice = ['https://one.example/a', 'https://one.example/b']
  expect(naming(twice)).toThrow(/names one.example for two nodes/)
  expect(naming(['http://2130706433', 'http://127.0.0.1'])).toThrow(/names 127.0.0.1 for two nodes/)
  expect(naming(['https://one.example', 'https://two.example'])).not.toThrow()
  const operators = [{ name: 'Example', hosts: ['rpc.example:8443', 'one.example'] }]
  const rpc_operators = { operators, minimum: 1 }
  expect(naming(['https://one.example'], { rpc_operators })).toThrow(/names Example for two nodes/)
  expect(naming(['https://two.example'], { rpc_operators })).not.toThrow()
})

test('a hiding node and a witness from before the announcement are refused', async () => {
  const stale = await frozen()
  site.chain.advance(300)
  await announce(buildOf(0xd0))
  main.lies = hiding(buildOf(0xd0))
  witness.lies = stale
  const found = await reasons(both)
  expect(found).toContainEqual(
    expect.stringMatching(/could not be read: 127\.0\.0\.2:\d+ is \d{3,} slots behind 127\.0\.0\.1:\d+/),
  )
  // Nor is it the node that is asked first.
  const swapped = { ...both, rpc_url: witness.url, witness_rpc_urls: [main.url] }
  expect(await reasons(swapped)).toContainEqual(expect.stringMatching(/slots behind/))
  await announce(buildOf(0xd0), 'cancel')
})

test('the oldest slot of all nodes is the one that is judged', async () => {
  const { evidence } = await site.connect()
  const { slot } = evidence.chain!
  const showing = (stated: number) => {
    const at = (result: unknown) => ({ ...(result as Listed), context: { slot: stated } })
    return { getMultipleAccounts: at, getProgramAccounts: at }
  }
  main.lies = showing(slot)
  witness.lies = showing(slot - 100)
  site.stateSlot(slot + 60)
  try {
    expect(await reasons({ ...site.policy.chain!, rpc_url: main.url })).toEqual([])
    expect(await reasons(both)).toContainEqual(expect.stringMatching(/^settlement_signer: .* older slot/))
  } finally {
    site.stateSlot(5)
  }
})

test('a witness that sends its caller to the other node is refused', async () => {
  for (const status of [307, 308]) {
    witness.instead = () => new Response('', { status, headers: { location: main.url } })
    expect(await reasons(both)).toContainEqual(
      expect.stringMatching(/could not be read: .* answered HTTP 30\d/),
    )
  }
  witness.instead = () => Response.json({ jsonrpc: '2.0', id: 1, result: 'x' }, { status: 500 })
  expect(await reasons(both)).toContainEqual(expect.stringMatching(/could not be read: .* answered HTTP 500/))
})

test('an announcement that lands or is cancelled between the readings of two nodes is no contradiction', async () => {
  for (const action of ['announce', 'cancel'] as const) {
    const before = await frozen()
    await announce(buildOf(0xd1), action)
    let once = 0
    witness.lies = {
      getMultipleAccounts: (result) => (once === 0 ? before['getMultipleAccounts']!(result, []) : result),
      getProgramAccounts: (result) => (once++ === 0 ? before['getProgramAccounts']!(result, []) : result),
    }
    expect(await reasons({ ...both, pending_actions: ['build'] })).toEqual([])
    expect(once).toBe(2)
  }
})

test('a node that has not reached the slot of the other one is asked again, and named when it stays behind', async () => {
  const before = await frozen()
  await announce(buildOf(0xd2))
  const behind = { jsonrpc: '2.0', id: 1, error: { code: -32016, message: 'Minimum context slot' } }
  let refusals = 0
  const held = (method: string) => (result: unknown, params: unknown[]) => {
    const { minContextSlot = 0 } = params[1] as { minContextSlot?: number }
    const shown = before[method]!(result, params) as Listed
    if (minContextSlot <= shown.context.slot) return shown
    refusals += 1
    if (refusals <= 2) throw new Error('behind')
    return result
  }
  witness.failure = () => Response.json(behind)
  witness.lies = Object.fromEntries(Object.keys(before).map((method) => [method, held(method)]))
  expect(await reasons({ ...both, pending_actions: ['build'] })).toEqual([])
  expect(refusals).toBeGreaterThan(2)
  refusals = Number.NEGATIVE_INFINITY
  expect(await reasons({ ...both, pending_actions: ['build'] })).toContainEqual(
    expect.stringMatching(/could not be read: 127\.0\.0\.2:\d+ has not reached slot \d+/),
  )
  await announce(buildOf(0xd2), 'cancel')
})

test('a node that claims a slot far ahead makes no honest one pass for it', async () => {
  main.lies = {
    getMultipleAccounts: (result) => ({ ...(result as object), context: { slot: 1_000_000_000 } }),
    getProgramAccounts: (result) => ({ ...(result as object), context: { slot: 1_000_000_001 } }),
  }
  expect(await reasons(both)).toContainEqual(expect.stringMatching(/could not be read/))
})

test('a node from before the epoch that the venue states is read again at the slot of its statement; one that stays there is refused', async () => {
  const single = { ...site.policy.chain!, rpc_url: main.url }
  const { slot } = (await site.connect()).evidence.chain!
  let reads = 0
  let is_late = false
  const earlier = (result: unknown, params: unknown[]) => {
    reads += 1
    const { minContextSlot = 0 } = params[1] as { minContextSlot?: number }
    if (minContextSlot > slot && !is_late) return result
    const [config] = (result as { value: { data: [string] }[] }).value
    const data = Buffer.from(config!.data[0], 'base64')
    data.fill(0, CONFIG.offsetOf('epoch'), CONFIG.offsetOf('epoch') + 8)
    config!.data[0] = data.toString('base64')
    return { ...(result as object), context: { slot } }
  }
  const listed = (result: unknown) => ({ ...(result as object), context: { slot: slot + 1_000_000 } })
  main.lies = { getMultipleAccounts: earlier, getProgramAccounts: listed }
  try {
    site.stateSlot(slot + 5)
    expect(await reasons(single)).toEqual([])
    expect(reads).toBe(2)
    is_late = true
    expect(await reasons(single)).toContain('settlement_signer: the vault is in another epoch')
    // A slot that no honest node has reached is not waited for.
    reads = 0
    site.stateSlot(1_000_000_000)
    expect(await reasons(single)).toContainEqual(expect.stringMatching(/^settlement_signer: .* older slot/))
    expect(reads).toBe(1)
  } finally {
    site.stateSlot(5)
  }
})

let venueSite: Site
beforeAll(async () => {
  venueSite = await openSite()
})
afterEach(() => venueSite.restore())
afterAll(() => venueSite.close())

async function failures(change: Partial<VerificationPolicy> = {}): Promise<CheckName[]> {
  try {
    await venueSite.connect(change)
    return []
  } catch (error) {
    if (!(error instanceof VerificationFailed)) throw error
    return error.transcript.checks.filter((check) => check.result === 'fail').map((check) => check.name)
  }
}

type Answer = (nonce: string | undefined) => Promise<string> | string
function alter(path: string, change: (honest: Answer) => Answer): void {
  venueSite.answers.set(path, change(venueSite.answers.get(path)!))
}
const alterAttestation = (change: (attestation: Attestation) => void) =>
  alter('/attestation', (honest) => async (nonce) => {
    const attestation = JSON.parse(await honest(nonce)) as Attestation
    change(attestation)
    return JSON.stringify(attestation)
  })
const alterInfo = (change: Partial<Info>) =>
  alter(
    '/info',
    (honest) => async () => JSON.stringify({ ...JSON.parse(await honest(undefined)), ...change }),
  )

describe('the machine behind the venue', () => {
  test('another manifest than the pinned one is refused', async () => {
    expect(await failures({ compose_hashes: ['00'.repeat(32)] })).toEqual(['compose_hash'])
    venueSite.machine.agent.knobs.wrong_compose_hash = true
    expect(await failures()).toContain('compose_hash')
    venueSite.machine.agent.knobs.wrong_compose_hash = false
  })
  test('a machine under debug, an outdated one, a revoked one and expired collateral are refused', async () => {
    const { knobs } = venueSite.machine.agent
    for (const [knob, check] of [
      ['debug', 'machine'],
      ['out_of_date', 'platform'],
      ['revoked_pck', 'quote'],
      ['expired_collateral', 'collateral'],
    ] as const) {
      knobs[knob] = true
      expect(await failures()).toContain(check)
      knobs[knob] = false
    }
    expect(await failures()).toEqual([])
  })
  test('registers of another operating system are refused', async () => {
    const zero = '00'.repeat(48)
    expect(await failures({ registers: [{ mrtd: zero, rtmr0: zero, rtmr1: zero, rtmr2: zero }] })).toEqual([
      'os_image',
    ])
  })
})

describe('the event log', () => {
  const alterLog = (change: (events: Record<string, unknown>[]) => void) =>
    alterAttestation((attestation) => {
      const events = JSON.parse(attestation.event_log)
      change(events)
      attestation.event_log = JSON.stringify(events)
    })
  const at = (events: Record<string, unknown>[], name: string) =>
    events.findIndex((event) => event['event'] === name)
  const changes: Record<string, (events: Record<string, unknown>[]) => void> = {
    'an event left out': (events) => events.splice(0, 1),
    'an event twice': (events) => events.push(events.at(-1)!),
    'a second manifest behind the first': (events) =>
      events.splice(at(events, 'compose-hash') + 1, 0, {
        ...events[at(events, 'compose-hash')],
        event_payload: '00'.repeat(32),
      }),
    'another manifest in its place': (events) =>
      Object.assign(events[at(events, 'compose-hash')]!, { event_payload: '00'.repeat(32) }),
    'another order': (events) => events.reverse(),
    'another digest': (events) => Object.assign(events[0]!, { digest: '00'.repeat(48) }),
    'no events': (events) => events.splice(0),
    'an event of no register': (events) => Object.assign(events[0]!, { imr: 4 }),
  }
  for (const [name, change] of Object.entries(changes))
    test(`${name} is refused`, async () => {
      alterLog(change)
      expect(await failures()).toContain('registers')
    })
})

describe('the answer for this caller', () => {
  test('an old answer is refused: its nonce is another', async () => {
    const old = await venueSite.answers.get('/attestation')!('11'.repeat(32))
    venueSite.answers.set('/attestation', () => old)
    expect(await failures()).toEqual(expect.arrayContaining(['report_data', 'binding']))
  })
  test('the answer that was made for no nonce is refused', async () => {
    const plain = await venueSite.answers.get('/attestation')!(undefined)
    venueSite.answers.set('/attestation', () => plain)
    expect(await failures()).toContain('report_data')
  })
  test('the quote of another venue is refused, though it is genuine', async () => {
    const other = await openSite()
    try {
      venueSite.answers.set('/attestation', other.answers.get('/attestation')!)
      const roots_pem = venueSite.machine.agent.root_pem + other.machine.agent.root_pem
      expect((await failures({ roots_pem })).length).toBeGreaterThan(0)
    } finally {
      await other.close()
    }
  })
  const bindings: Record<string, (attestation: Attestation) => void> = {
    'a binding signature of another body': ({ binding }) => {
      binding.body = binding.body.slice(0, -2) + (binding.body.endsWith('00') ? '01' : '00')
    },
    'a certificate of another key': ({ binding }) => {
      binding.certificate = binding.certificate.replace(/.{2}$/, (last) => (last === '00' ? '01' : '00'))
    },
    'a statement key nobody certified': (attestation) => {
      attestation.binding.statement_key = attestation.tee_pubkey
    },
    'a malformed binding': ({ binding }) => {
      binding.signature = ''
    },
  }
  for (const [name, change] of Object.entries(bindings))
    test(`${name} is refused`, async () => {
      alterAttestation(change)
      expect(await failures()).toContain('binding')
    })
  test('another settlement key than the quoted one is refused', async () => {
    const other = 'So11111111111111111111111111111111111111112'
    alterAttestation((attestation) => {
      attestation.tee_pubkey = other
    })
    alterInfo({ tee_pubkey: other })
    expect(await failures()).toEqual(['report_data', 'binding'])
  })
  for (const [field, value, check] of [
    ['app_id', '00'.repeat(20), 'claims'],
    ['instance_id', '00'.repeat(20), 'claims'],
    ['compose_hash', '00'.repeat(32), 'compose_hash'],
    ['venue', '00'.repeat(32), 'binding'],
    ['epoch', 2, 'binding'],
    ['generation', 1, 'settlement_signer'],
    ['program_id', 'So11111111111111111111111111111111111111112', 'settlement_signer'],
    ['config_account', 'So11111111111111111111111111111111111111112', 'settlement_signer'],
    ['genesis_hash', 'So11111111111111111111111111111111111111112', 'settlement_signer'],
  ] as const)
    test(`a false ${field} is refused`, async () => {
      alterInfo({ [field]: value })
      expect(await failures()).toContain(check)
    })
})

describe('the TLS key', () => {
  test('someone in between, who passes every answer on, is refused', async () => {
    venueSite.swapTls(generateTls([], Date.now()))
    expect(await failures()).toEqual(['tls_key'])
  })
  test('someone in between who serves his own certificate as evidence is refused', async () => {
    const own = generateTls([], Date.now())
    venueSite.swapTls(own)
    venueSite.answers.set('/evidences/cert.pem', () => own.cert_pem)
    expect(await failures()).toEqual(['tls_key', 'evidence'])
    venueSite.answers.set('/evidences/sha256sum.txt', () => checksumsOf(own.cert_pem))
    expect(await failures()).toEqual(['tls_key', 'evidence'])
  })
  test('a nonce that imitates evidence is refused by the second half of report_data', async () => {
    const own = generateTls([], Date.now())
    const checksums = checksumsOf(own.cert_pem)
    // The attacker asks for a genuine quote whose nonce is the hash that an evidence quote would carry.
    const imitation = await venueSite.answers.get('/attestation')!(toHex(sha256(utf8(checksums))))
    venueSite.swapTls(own)
    venueSite.answers.set('/evidences/cert.pem', () => own.cert_pem)
    venueSite.answers.set('/evidences/sha256sum.txt', () => checksums)
    venueSite.answers.set('/evidences/quote.json', () => imitation)
    expect(await failures()).toEqual(['tls_key', 'evidence'])
  })
  test('evidence without a quote, with a false list or of another machine is refused', async () => {
    const honest = await venueSite.answers.get('/evidences/sha256sum.txt')!(undefined)
    for (const list of ['', honest.trimEnd(), `${honest}${honest}`, honest.replace('cert', 'other')]) {
      venueSite.answers.set('/evidences/sha256sum.txt', () => list)
      expect(await failures()).toEqual(['evidence'])
    }
    venueSite.answers.set('/evidences/sha256sum.txt', () => honest)
    for (const quote of ['', '{}', '{"quote":"00"}']) {
      venueSite.answers.set('/evidences/quote.json', () => quote)
      expect(await failures()).toEqual(['evidence'])
    }
  })
})

const checksumsOf = (cert_pem: string): string => `${toHex(sha256(utf8(cert_pem)))}  cert.pem\n`
