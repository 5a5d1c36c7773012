/** The embedded chain answers unmodified @solana/kit clients as a cluster does. */
import { describe, expect, test } from 'bun:test'
import {
  decodeTransactionFromRpcResponse,
  generateKeyPairSigner,
  isSolanaError,
  lamports,
  SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE,
  walkInstructions,
} from '@solana/kit'
import { associatedTokenAddress, NATIVE_MINT } from '../../../sandbox/chain/faucet'
import { USDC } from '../../../sandbox/environment'
import {
  callRpc,
  clientsOf,
  fundedWallet,
  mintTo,
  signedTransfer,
  withChain,
} from '../../kit/chain/chain_folder'

async function refusal(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => undefined,
    (error: unknown) => error,
  )
}

describe('unmodified clients', () => {
  test('a v1 transfer confirms and finalizes, and is read with its instruction and fee', async () => {
    await withChain({}, async (chain) => {
      const { rpc } = clientsOf(chain)
      const [from, to] = [await fundedWallet(chain), await generateKeyPairSigner()]
      const { signature, wire } = await signedTransfer(chain, from, to.address, 1_000_000_000n)
      await rpc.sendTransaction(wire, { encoding: 'base64' }).send()
      chain.advance(9)
      const balance = await rpc.getBalance(to.address, { commitment: 'finalized' }).send()
      expect(balance.value).toBe(lamports(1_000_000_000n))
      const found = await rpc
        .getTransaction(signature, { encoding: 'base64', maxSupportedTransactionVersion: 1 })
        .send()
      const { compiledMessage } = decodeTransactionFromRpcResponse(found!)
      expect(walkInstructions({ compiledMessage, meta: found!.meta })).toHaveLength(1)
      expect(found!.meta!.fee).toBe(lamports(5_000n))
    })
  })

  test('a transaction that never lands has no status, and its blockhash expires', async () => {
    await withChain({ faults: { blockhash_life: 12 } }, async (chain) => {
      const { rpc } = clientsOf(chain)
      const from = await fundedWallet(chain)
      chain.faults.drop = () => true
      const { signature, wire, lifetime } = await signedTransfer(chain, from, from.address, 1n)
      await rpc.sendTransaction(wire, { encoding: 'base64' }).send()
      chain.advance(13)
      expect((await rpc.getSignatureStatuses([signature]).send()).value[0]).toBeNull()
      const height = await rpc.getBlockHeight({ commitment: 'processed' }).send()
      expect(height).toBeGreaterThan(lifetime.lastValidBlockHeight)
    })
  })
})

describe('transactions', () => {
  test('commitment follows depth and an expired blockhash is refused before landing', async () => {
    await withChain({ faults: { blockhash_life: 10 } }, async (chain) => {
      const { rpc } = clientsOf(chain)
      const from = await fundedWallet(chain)
      const late = await signedTransfer(chain, from, USDC, 7n)
      const { signature, wire } = await signedTransfer(chain, from, USDC, 1n)
      await rpc.sendTransaction(wire, { encoding: 'base64' }).send()
      const level = async () => {
        const { value } = await rpc.getSignatureStatuses([signature]).send()
        return value[0]?.confirmationStatus
      }
      expect(await level()).toBeUndefined()
      chain.advance(1)
      expect(await level()).toBe('processed')
      chain.advance(1)
      expect(await level()).toBe('confirmed')
      chain.advance(7)
      expect(await level()).toBe('finalized')
      chain.advance(2)
      const error = await refusal(rpc.sendTransaction(late.wire, { encoding: 'base64' }).send())
      expect(
        isSolanaError(error, SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE),
      ).toBe(true)
      await rpc.sendTransaction(late.wire, { encoding: 'base64', skipPreflight: true }).send()
      chain.advance(1)
      expect((await rpc.getSignatureStatuses([late.signature]).send()).value[0]).toBeNull()
    })
  })

  test('the same bytes sent many times land once', async () => {
    await withChain({ faults: { rpc: () => ({ twice: true }) } }, async (chain) => {
      chain.faults.rpc = undefined
      const { rpc } = clientsOf(chain)
      const from = await fundedWallet(chain)
      const { wire } = await signedTransfer(chain, from, USDC, 1_000n)
      chain.faults.rpc = () => ({ twice: true })
      const before = (await rpc.getBalance(USDC as typeof from.address, { commitment: 'processed' }).send())
        .value
      for (let round = 0; round < 4; round++) {
        await rpc.sendTransaction(wire, { encoding: 'base64', skipPreflight: true }).send()
        chain.advance(1)
      }
      const after = (await rpc.getBalance(USDC as typeof from.address, { commitment: 'processed' }).send())
        .value
      expect(after - before).toBe(1_000n)
    })
  })

  test('a failed transaction lands with its error and pays its fee', async () => {
    await withChain({}, async (chain) => {
      const { rpc } = clientsOf(chain)
      const from = await fundedWallet(chain, 1)
      const { wire, signature } = await signedTransfer(chain, from, USDC, 5_000_000_000n)
      await rpc.sendTransaction(wire, { encoding: 'base64', skipPreflight: true }).send()
      chain.advance(1)
      const { value } = await rpc.getSignatureStatuses([signature]).send()
      expect(value[0]?.err as unknown).toEqual({ InstructionError: [0n, { Custom: 1n }] })
      const balance = await rpc.getBalance(from.address, { commitment: 'processed' }).send()
      expect(balance.value).toBe(lamports(999_995_000n))
    })
  })

  test('a fork takes back transactions, balances and blockhashes, never finalized ones', async () => {
    await withChain({}, async (chain) => {
      const { rpc } = clientsOf(chain)
      const from = await fundedWallet(chain)
      chain.advance(9)
      const { wire, signature, lifetime } = await signedTransfer(chain, from, USDC, 1n)
      await rpc.sendTransaction(wire, { encoding: 'base64' }).send()
      chain.advance(3)
      expect((await rpc.getSignatureStatuses([signature]).send()).value[0]?.confirmationStatus).toBe(
        'confirmed',
      )
      const slot = chain.slot()
      chain.fork(4)
      expect((await rpc.getSignatureStatuses([signature]).send()).value[0]).toBeNull()
      const balance = await rpc.getBalance(from.address, { commitment: 'processed' }).send()
      expect(balance.value).toBe(lamports(10_000_000_000n))
      expect(chain.slot()).toBe(slot)
      const valid = await rpc.isBlockhashValid(lifetime.blockhash, { commitment: 'processed' }).send()
      expect(valid.value).toBe(false)
      expect(() => chain.fork(20)).toThrow(RangeError)
    })
  })

  test('accounts are read as they stood at the commitment asked for', async () => {
    await withChain({}, async (chain) => {
      const { rpc } = clientsOf(chain)
      const from = await fundedWallet(chain)
      const read = async (commitment: 'processed' | 'confirmed' | 'finalized') =>
        (await rpc.getBalance(from.address, { commitment }).send()).value as bigint
      expect([await read('processed'), await read('confirmed'), await read('finalized')]).toEqual([
        10_000_000_000n,
        0n,
        0n,
      ])
      chain.advance(1)
      expect([await read('confirmed'), await read('finalized')]).toEqual([10_000_000_000n, 0n])
      chain.advance(7)
      expect(await read('finalized')).toBe(10_000_000_000n)
    })
  })
})

describe('faucet', () => {
  test('tokens reach the associated account, the native mint by wrapping', async () => {
    await withChain({}, async (chain) => {
      const { rpc } = clientsOf(chain)
      const { address } = await generateKeyPairSigner()
      await mintTo(chain, USDC, address, 1_500_000n)
      await mintTo(chain, USDC, address, 1_500_000n)
      await mintTo(chain, NATIVE_MINT, address, 2_000_000_000n)
      chain.advance(8)
      const amounts: string[] = []
      for (const mint of [USDC, NATIVE_MINT]) {
        const account = associatedTokenAddress(address, mint) as typeof address
        amounts.push((await rpc.getTokenAccountBalance(account).send()).value.uiAmountString)
      }
      expect(amounts).toEqual(['3', '2'])
    })
  })

  test('a foreign host, a browser form and an unknown method get nothing', async () => {
    await withChain({}, async (chain) => {
      const body = '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'
      const json = { 'content-type': 'application/json' }
      const status = async (headers: Record<string, string>) =>
        (await fetch(chain.url, { method: 'POST', headers, body })).status
      expect(await status({ ...json, host: 'rebound.example' })).toBe(421)
      expect(await status({ 'content-type': 'text/plain' })).toBe(415)
      expect(await status(json)).toBe(200)
      expect(refusal(callRpc(chain, 'constructor', []))).resolves.toMatchObject({
        message: 'Method not found',
      })
    })
  })
})
