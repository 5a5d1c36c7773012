/** A transaction counts as expired only when its lifetime is over and, asked after that, no node knows it. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type ChainAccess, openChainAccess, payerKey } from '../../client/chain/chain_access'
import { sendInstructions, toInstruction } from '../../client/chain/send_instructions'
import { transferLamports } from '../../sandbox/chain/token_instructions'
import { CliSite, USDC } from './cli_site'
import { LyingNode } from './lying_node'

const UNKNOWN = { context: { slot: 1 }, value: [null] }

let site: CliSite
let node: LyingNode
beforeAll(async () => {
  site = await CliSite.open()
  node = new LyingNode(site.chain.url)
}, 30_000)
beforeEach(() => {
  site.chain.faults.landing_delay_slots = 0
  node.lies = {}
})
afterAll(async () => {
  await node.stop()
  await site.close()
})

async function access(urls: string): Promise<ChainAccess> {
  const chain = await openChainAccess(urls, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(chain.payer.address, USDC, '1')
  return chain
}
function send(chain: ChainAccess): Promise<string> {
  const transfer = transferLamports(payerKey(chain), payerKey(chain), 1n)
  return sendInstructions(chain, [toInstruction(transfer, [chain.payer])], 'confirmed')
}

test('one that lands while the height is read has landed', async () => {
  const chain = await access(node.url)
  site.chain.faults.landing_delay_slots = 100
  node.lies = {
    getBlockHeight: () => {
      site.chain.advance(120)
      return 2 ** 40
    },
  }
  expect(await send(chain)).toBeString()
}, 20_000)

test('one that another node still has in its lifetime is waited for', async () => {
  const chain = await access(`${node.url},${site.chain.url}`)
  let asked = 0
  node.lies = {
    getBlockHeight: () => 2 ** 40,
    getSignatureStatuses: (told) => (asked++ < 3 ? UNKNOWN : told),
  }
  site.chain.faults.landing_delay_slots = 100
  const sent = send(chain)
  while (asked < 3) await Bun.sleep(5)
  site.chain.advance(120)
  expect(await sent).toBeString()
}, 20_000)

test('one that no node knows after its lifetime will never land', async () => {
  const chain = await access(node.url)
  node.lies = {
    sendTransaction: () => 'dropped',
    getBlockHeight: () => 2 ** 40,
    getSignatureStatuses: () => UNKNOWN,
  }
  const error = await send(chain).catch(({ message }: Error) => message)
  expect(error).toContain('expired before it landed')
}, 20_000)
