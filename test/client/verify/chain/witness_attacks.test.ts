/** Attacks on the nodes that a policy names: a hiding one, one named twice, a stale or redirecting witness, honest gaps. */
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { VerificationFailed } from '../../../../client/verified_venue'
import { decodeBase64 } from '../../../../client/verify/json_document'
import type { ChainPolicy } from '../../../../client/verify/policy'
import { toInstruction } from '../../../../engine/chain/client/build_transaction'
import { decodeBase58 } from '../../../../protocol/base58'
import { toHex } from '../../../../protocol/bytes'
import { CONFIG, decodeAnnouncement } from '../../../../protocol/vault/accounts'
import { announceInstruction } from '../../../../protocol/vault/admin'
import { changedPolicy } from '../../../kit/verify/changed_policy'
import { landOn } from '../../../kit/verify/land_on'
import { openSite, type Site } from '../../../kit/verify/site'
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
