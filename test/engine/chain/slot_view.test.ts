/** The slot view is monotone, wants two endpoints to agree, measures the pace and notices a stall. */
import { expect, test } from 'bun:test'
import { ChainHealth } from '../../../engine/chain/client/health'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'
import { SlotView } from '../../../engine/chain/client/slot_view'
import { withChain } from '../../kit/chain/chain_folder'

function viewOf(urls: string[], stall_ms = 5_000): { view: SlotView; rpc: RpcPool; health: ChainHealth } {
  const rpc = new RpcPool(urls, 1_000)
  const health = new ChainHealth()
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

/** An endpoint that claims a slot far ahead. */
function liar(slot: number): { url: string; stop(): void } {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: () => Response.json({ jsonrpc: '2.0', id: 1, result: slot }),
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => void server.stop(true) }
}

test('one endpoint that runs ahead does not move the slot', async () => {
  await withChain({ slot_ms: 20 }, async (chain) => {
    const ahead = liar(1_000_000)
    const { view, rpc } = viewOf([chain.url, ahead.url])
    const running = view.run()
    await reached(view, 5)
    expect(view.now().slot).toBeLessThanOrEqual(chain.slot())
    rpc.close()
    await running
    ahead.stop()
  })
})

test('an endpoint that goes back does not take the slot back', async () => {
  let answers = [50, 51, 7, 52]
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch() {
      const [slot = 52, ...rest] = answers
      answers = rest
      return Response.json({ jsonrpc: '2.0', id: 1, result: slot })
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

test('the slot time is measured, and a chain that stands still is stalled', async () => {
  await withChain({ slot_ms: 15 }, async (chain) => {
    const { view, rpc, health } = viewOf([chain.url], 60)
    const running = view.run()
    await reached(view, 25)
    expect(view.now().slot_ms).toBeGreaterThan(0)
    chain.stall(true)
    const stalled = Promise.withResolvers<void>()
    const set = health.set.bind(health)
    health.set = (reason, present) => {
      set(reason, present)
      if (reason === 'slot_stalled' && present) stalled.resolve()
    }
    await stalled.promise
    expect(view.isStalled()).toBe(true)
    expect(health.reasons()).toEqual(['slot_stalled'])
    chain.stall(false)
    await reached(view, view.now().slot + 2)
    expect(view.isStalled()).toBe(false)
    rpc.close()
    await running
  })
})
