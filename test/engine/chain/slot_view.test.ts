/** The slot view is monotone, wants two endpoints to agree, measures the pace and notices a stall. */

import { afterEach, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { ChainHealth } from '../../../engine/chain/client/health'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'
import { SlotView } from '../../../engine/chain/client/slot_view'
import { LIMITS } from '../../../engine/limits'
import { withChain } from '../../kit/chain/chain_folder'
import { advancedHead, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { COMPOSE_HASH, VaultWorld } from '../../kit/chain/vault_world'

function viewOf(urls: string[], stall_ms = 5_000): { view: SlotView; rpc: RpcPool; health: ChainHealth } {
  const rpc = new RpcPool(urls, 1_000)
  const health = new ChainHealth(rpc, () => performance.now(), 20)
  const view = new SlotView(rpc, health, { monotonicMs: () => performance.now(), slot_ms: 20, stall_ms })
  return { view, rpc, health }
}

const reached = (view: SlotView, slot: number): Promise<void> =>
  new Promise((resolve) => {
    const stop = view.onSlot((now) => {
      if (now < slot) return
      stop()
      resolve()
    })
  })

const soon = () => new Promise((resolve) => setImmediate(resolve))
const epochInfo = (slot: number) => ({ absoluteSlot: slot, blockHeight: slot })

/** An endpoint that claims a slot far ahead. */
function liar(slot: number): { url: string; stop(): void } {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => Response.json({ jsonrpc: '2.0', id: 1, result: epochInfo(slot) }),
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => void server.stop(true) }
}

test('one endpoint that runs ahead does not move the slot', async () => {
  await withChain({ slot_ms: 20 }, async (chain) => {
    const ahead = liar(1_000_000)
    const { view, rpc } = viewOf([chain.url, ahead.url])
    let ended = false
    const running = view.run().then(() => {
      ended = true
    })
    await reached(view, 5)
    expect(view.now().slot).toBeLessThanOrEqual(chain.slot())
    expect(ended).toBe(false)
    rpc.close()
    await running
    ahead.stop()
  })
})

/** Providers whose answers a test sets, NaN for a failure, and the view of them; time passes only by hand. */
async function playedView(providers: number) {
  const shown: number[] = new Array(providers).fill(100)
  const servers = shown.map((_, at) =>
    Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: () => {
        if (Number.isNaN(shown[at]!)) return new Response('', { status: 503 })
        return Response.json({ jsonrpc: '2.0', id: 1, result: epochInfo(shown[at]!) })
      },
    }),
  )
  const rpc = new RpcPool(
    servers.map(({ port }) => `http://127.0.0.1:${port}/secret-key`),
    1_000,
  )
  const time = { ms: 0 }
  const monotonicMs = () => time.ms
  const health = new ChainHealth(rpc, monotonicMs, 20)
  const view = new SlotView(rpc, health, { monotonicMs, slot_ms: 20, stall_ms: 5_000 })
  const running = view.run()
  const stop = async () => {
    rpc.close()
    await running
    for (const server of servers) await server.stop(true)
  }
  await reached(view, 100)
  return { shown, view, health, time, stop, hosts: rpc.hosts }
}

test('an absurd slot of all providers is never taken; it is said, and the truth goes on', async () => {
  for (const absurd of [2 ** 52, 100 + LIMITS.slot_jump_max + 1]) {
    const { shown, view, health, stop } = await playedView(2)
    shown.fill(absurd)
    while (!health.reasons().includes('slot_absurd')) await soon()
    expect(view.now().slot).toBe(100)
    shown.fill(101)
    await reached(view, 101)
    expect(health.reasons()).not.toContain('slot_absurd')
    await stop()
  }
})

test('a machine that was suspended takes the slots that passed meanwhile', async () => {
  const { shown, view, time, stop } = await playedView(2)
  const slots = LIMITS.slot_jump_max + 1_000
  time.ms = 1_000 * LIMITS.slot_ms_min
  shown.fill(100 + slots)
  await reached(view, 100 + slots)
  await stop()
})

test.each([
  [1, 1],
  [2, 2],
  [3, 2],
  [4, 3],
  [5, 3],
])('of %d providers %d must show a slot', async (providers, quorum) => {
  const { shown, view, stop } = await playedView(providers)
  shown.fill(120, 0, quorum - 1)
  if (quorum > 1) await Bun.sleep(100)
  expect(view.now().slot).toBe(100)
  shown.fill(120, 0, quorum)
  await reached(view, 120)
  await stop()
})

test('who is far ahead, or behind for longer than allowed, is named by host, without its path', async () => {
  const { shown, view, health, time, stop, hosts } = await playedView(3)
  const snapshot = (at: number, slot: number) => ({ at, value: { slot } })
  shown[0] = 100 + LIMITS.chain_ahead_slots_max + 1
  const answers = (behind: number) => [snapshot(0, shown[0]!), snapshot(1, 100), snapshot(2, 100 - behind)]
  const { chain_lag_slots_max: lag } = LIMITS
  expect(hosts.join()).not.toContain('secret-key')
  expect(view.fresh('confirmed', answers(lag)).map(({ at }) => at)).toEqual([0, 1, 2])
  expect(view.fresh('confirmed', answers(lag + 1)).map(({ at }) => at)).toEqual([0, 1])
  time.ms = lag * 20 - 1
  view.fresh('confirmed', answers(lag + 1))
  expect(health.reasons()).toEqual([])
  time.ms = lag * 20
  view.fresh('confirmed', answers(lag + 1))
  while (health.reasons().length < 2) await soon()
  expect(health.reasons()).toEqual([`provider_ahead: ${hosts[0]}`, `provider_behind: ${hosts[2]}`])
  // Two are left of three, which is the quorum; with one more silent there is none.
  health.judge('slot', 1, false, 'provider_silent')
  time.ms += lag * 20
  health.judge('slot', 1, false, 'provider_silent')
  expect(health.report()).toMatchObject({ overdue: true })
  expect(health.reasons()[0]).toBe('no_quorum')
  health.judge('slot', 1, true, 'provider_silent')
  expect(health.report()).toMatchObject({ overdue: false })
  expect(health.reasons()).not.toContain('no_quorum')
  // Older than the same provider's answer to the same reader.
  const seen: number[] = []
  expect(view.fresh('confirmed', [snapshot(1, 100)], seen)).toHaveLength(1)
  expect(view.fresh('confirmed', [snapshot(1, 99)], seen)).toHaveLength(0)
  // A slot far ahead counts as the agreed one: later answers of the same provider count again.
  expect(view.fresh('confirmed', [snapshot(1, 1_000_000)], seen)).toHaveLength(1)
  expect(view.fresh('confirmed', [snapshot(1, view.now().slot)], seen)).toHaveLength(1)
  await stop()
})

test('a provider that fails for longer than allowed is named until it answers', async () => {
  const { shown, health, time, stop, hosts } = await playedView(3)
  shown[1] = Number.NaN
  while (health.reasons().length === 0) {
    time.ms += 20
    await Bun.sleep(1)
  }
  expect(health.reasons()).toEqual([`provider_silent: ${hosts[1]}`])
  shown[1] = 100
  while (health.reasons().length > 0) await soon()
  await stop()
})

test('the slot time is the mean over all samples, so the newest pace counts too', async () => {
  const { shown, view, time, stop } = await playedView(1)
  const { slot_samples_min: count } = LIMITS
  for (let slot = 101; slot < 100 + count; slot++) {
    time.ms += slot === 99 + count ? 1_000 : 10
    shown[0] = slot
    await reached(view, slot)
  }
  expect(view.slotMs()).toBe((10 * (count - 2) + 1_000) / (count - 1))
  await stop()
})

test('an endpoint that goes back does not take the slot back', async () => {
  let answers = [50, 51, 7, 52]
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch() {
      const [slot = 52, ...rest] = answers
      answers = rest
      return Response.json({ jsonrpc: '2.0', id: 1, result: epochInfo(slot) })
    },
  })
  const { view, rpc } = viewOf([`http://127.0.0.1:${server.port}`])
  const seen: number[] = []
  view.onSlot((slot) => seen.push(slot))
  const running = view.run()
  await reached(view, 52)
  expect(seen).toEqual([50, 51, 52])
  rpc.close()
  await running
  await server.stop(true)
})

test('the slot time is measured, and a chain without new slots is stalled', async () => {
  await withChain({ slot_ms: 15 }, async (chain) => {
    const { view, rpc, health } = viewOf([chain.url], 60)
    const running = view.run()
    await reached(view, 25)
    expect(view.now().slot_ms).toBeGreaterThan(0)
    chain.stall(true)
    while (!view.isStalled()) await soon()
    expect(health.reasons()).toEqual(['slot_stalled'])
    chain.stall(false)
    await reached(view, view.now().slot + 2)
    expect(view.isStalled()).toBe(false)
    rpc.close()
    await running
  })
})

setDefaultTimeout(180_000)

let world: VaultWorld
let endpoints: LyingEndpoint[]
beforeEach(async () => {
  world = await VaultWorld.open()
  endpoints = [1, 2, 3].map(() => new LyingEndpoint(world.chain.url))
  await world.boot({ connect: { rpc_urls: endpoints.map(({ url }) => url) } })
})
afterEach(async () => {
  await world.close()
  await Promise.all(endpoints.map((endpoint) => endpoint.stop()))
})
const age = () => world.port.lease().age_ms
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await Bun.sleep(5)
}

test('one silent provider of three ages no view, two do until they answer again', async () => {
  await until(() => age() < 2_000)
  endpoints[0]!.silent = true
  await Bun.sleep(2_500)
  await until(() => age() < 2_000)
  endpoints[1]!.silent = true
  await until(() => age() > 3_000)
  for (const endpoint of endpoints) endpoint.silent = false
  await until(() => age() < 2_000)
})

test('the epoch of another instance leaves no right at once, however young the view', async () => {
  await until(() => Number.isFinite(age()))
  const other = await world.connect()
  await other.openEpoch(await nextEpoch(), async () => {})
  await until(() => age() === Number.POSITIVE_INFINITY)
  await other.close()
})
async function nextEpoch() {
  const { epoch, spent_root } = await world.port.readConfig()
  const terms = { epoch: epoch + 1, boot_nonce: new Uint8Array(16).fill(9), compose_hash: COMPOSE_HASH }
  const passes = async () => true
  return { ...terms, ...world.outbox.head(), restore: false, passes, spentRoot: async () => spent_root }
}

test('nothing that was shown before counts for the right of a new epoch', async () => {
  await until(() => Number.isFinite(age()))
  const opening = world.port.openEpoch(await nextEpoch(), async () => {})
  expect(age()).toBe(Number.POSITIVE_INFINITY)
  // A settlement key is of one epoch.
  expect(await opening.catch(String)).toContain('key_not_fresh')
})

test('the age of a view counts from the question, however late its answer comes', async () => {
  const LATE_MS = 1_000
  const answers = endpoints.map(() => 0)
  // Slots too: no answer is behind the others.
  const late = async () => void (await Bun.sleep(LATE_MS))
  for (const [at, endpoint] of endpoints.entries())
    endpoint.lies = {
      getEpochInfo: late,
      getProgramAccounts: late,
      async getMultipleAccounts(_, { params }) {
        await late()
        // The lease asks for config and clock.
        if ((params[0] as string[]).length === 2) answers[at]! += 1
      },
    }
  await until(() => answers.every((count) => count > 1))
  const ages: number[] = []
  await until(() => ages.push(age()) > 0 && answers.every((count) => count > 3))
  expect(Math.min(...ages)).toBeGreaterThanOrEqual(LATE_MS)
})

test('a position far ahead covers nothing, by any provider, and an anchor that landed covers', async () => {
  for (const endpoint of endpoints) endpoint.lies = advancedHead()
  await until(() => endpoints.every(({ lied }) => lied > 3))
  // The opening covered its own position before the lies.
  await until(() => world.port.lease().covered_seq === 0)
  for (let looks = 0; looks < 50; looks++) {
    expect(world.port.lease().covered_seq).toBe(0)
    await Bun.sleep(5)
  }
  for (const endpoint of endpoints) endpoint.lies = {}
  const { seq, head } = world.outbox.head()
  await world.port.anchor(seq, { seq, head })
  await until(() => world.port.lease().covered_seq === seq)
})

test("the time is the chain's, and goes on while the chain has no new slot", async () => {
  const before = world.port.view().unix_ms
  world.chain.warpTime(86_400)
  await until(() => world.port.view().unix_ms > before + 86_000_000)
  world.chain.stall(true)
  const stalled = world.port.view().unix_ms
  await until(() => world.port.view().unix_ms > stalled + 500)
})
