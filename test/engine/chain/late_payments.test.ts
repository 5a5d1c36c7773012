/** A payment that lies about the queue put outside of the slots of its search is found by the running process once they end. */
import { expect, test } from 'bun:test'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { chainAddresses } from '../../../engine/chain/client/chain_client'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import { payInstruction } from '../../../protocol/vault/queue'
import { associatedTokenAddress } from '../../../sandbox/chain/token_instructions'
import { mintTo } from '../../kit/chain/chain_folder'
import { bendAccounts, type Lie, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { fundedWallet } from '../../kit/chain/transfer'
import { USDC, VaultWorld } from '../../kit/chain/vault_world'
import { decodePay } from '../../kit/vault/open_vault'

/** First byte of the queue account, and its bytes before the entries (protocol/vault/accounts.ts). */
const QUEUE_KIND = 7
const QUEUE_HEADER_BYTES = 160
const mint = decodeBase58(USDC, 32)!

/** Swallows the venue's payments: a stranger closes the entry. */
const swallowed: Lie = (_, { params }) => {
  const { data } = transactionInstructions(Buffer.from((params as [string])[0], 'base64')).at(-1)!
  return decodePay(data) ? encodeBase58(new Uint8Array(64).fill(1)) : undefined
}

/** One entry of the queue, and a lying quorum of one provider. */
async function queued() {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.deposit(1_000_000n)
  endpoint.lies = { sendTransaction: swallowed }
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const { address } = await fundedWallet(world.chain)
  await mintTo(world.chain, USDC, address, 1n)
  const destination = decodeBase58(await associatedTokenAddress(address, USDC), 32)!
  world.outbox.add(world.nextPayload([world.payout({ mint, destination, amount: 400n })]))
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'submitted')
  const { program } = world
  const queue = encodeBase58(chainAddresses(program).vault.queue)
  const stranger = await fundedWallet(world.chain)
  const named = { place: 0, number: 1, mint, destination, token_program: TOKEN_PROGRAM }
  const instruction = toInstruction(payInstruction({ program, refund: false, entries: [named] }), [])
  return {
    world,
    endpoint,
    open: world.chain.machine.bank.newest(queue)!.data.slice(),
    pay: () => world.send(stranger, instruction),
    /** Lies that show the queue as `change` makes it, in the newest slot, and serve no transaction. */
    lie: (change: (data: Buffer) => void) => {
      endpoint.lies = {
        sendTransaction: swallowed,
        getTransaction: () => null,
        getMultipleAccounts: (result) => bendAccounts(result, QUEUE_KIND, change),
      }
    },
    passSlots: async (slots: number) => {
      const { slot } = world.port.view()
      while (world.port.view().slot < slot + slots) await Bun.sleep(1)
    },
    /** The truth, and what comes of it. */
    async outcome() {
      endpoint.lies = {}
      await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'finalized')
      const { outcome } = world.outbox.payoutOf(1)!
      await world.close()
      await endpoint.stop()
      return outcome
    },
  }
}

test('an entry is shown open long after it was paid', async () => {
  const { open, pay, lie, passSlots, outcome } = await queued()
  lie((data) => data.set(open))
  await pay()
  await passSlots(40)
  expect(await outcome()).toBe('paid')
}, 120_000)

test('an entry is shown closed long before it was paid', async () => {
  const { pay, lie, passSlots, outcome } = await queued()
  lie((data) => data.fill(0, QUEUE_HEADER_BYTES))
  await passSlots(40)
  await pay()
  await passSlots(3)
  expect(await outcome()).toBe('paid')
}, 120_000)
