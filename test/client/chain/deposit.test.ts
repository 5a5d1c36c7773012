/** A deposit is final before each node serves its transaction: the wallet has its note all the same. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openChainAccess } from '../../../client/chain/chain_access'
import { deposit, searchDeposits } from '../../../client/chain/deposit'
import { Wallet } from '../../../client/wallet/wallet'
import { CliSite, USDC } from '../cli_site'
import { LyingNode } from '../lying_node'

let site: CliSite
let node: LyingNode
beforeAll(async () => {
  site = await CliSite.open()
  node = new LyingNode(site.chain.url)
}, 120_000)
afterAll(async () => {
  await node.stop()
  await site.close()
})

async function deposited(urls: string): Promise<Wallet> {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const chain = await openChainAccess(urls, seed)
  await site.fund(chain.payer.address, USDC, '5000000')
  const wallet = new Wallet(seed)
  const terms = { program_id: site.program_id, mint: USDC, amount: 5_000_000n, key_index: 0 }
  const { note } = await deposit(chain, wallet, terms)
  expect(wallet.freeNotes(USDC)).toEqual([note])
  return wallet
}

test('a node that serves the transaction late is asked again', async () => {
  let asked = 0
  node.lies = { getTransaction: (told) => (asked++ < 3 ? null : told) }
  expect((await deposited(node.url)).balance(USDC)).toBe(5_000_000n)
  expect(asked).toBe(4)
}, 120_000)

test('where one node never serves it, another is asked', async () => {
  node.lies = { getTransaction: () => null }
  expect((await deposited(`${node.url},${site.chain.url}`)).balance(USDC)).toBe(5_000_000n)
}, 120_000)

test('where none serves it, the refusal names the deposit, and the next takes a blinding of its own', async () => {
  node.lies = { getTransaction: () => null }
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const chain = await openChainAccess(node.url, seed)
  await site.fund(chain.payer.address, USDC, '5000000')
  const wallet = new Wallet(seed)
  const terms = { program_id: site.program_id, mint: USDC, amount: 5_000_000n, key_index: 0 }
  await expect(deposit(chain, wallet, terms)).rejects.toThrow(/^the deposit \w+ is final, but no node shows/)
  expect(wallet.counters(0).deposits).toBe(1)
  // As the next program does, which no longer knows the transaction.
  const look = searchDeposits(chain, wallet, site.program_id)
  await expect(look()).rejects.toThrow(/the node lists/)
  node.lies = {}
  expect(await look()).toEqual(wallet.freeNotes(USDC))
  expect([wallet.balance(USDC), await look()]).toEqual([5_000_000n, undefined])
  // Of a place that was taken, and a deposit that never landed.
  wallet.counters(0).deposits = 2
  expect(await searchDeposits(chain, wallet, site.program_id)()).toEqual([])
}, 120_000)
