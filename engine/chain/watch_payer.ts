/** Watches what the settlement signer has left to pay fees with. */
import type { ChainClient } from './chain_client'
import { ChainUnavailable } from './rpc_pool'

const EVERY_MS = 30_000

/** Sets or clears `fee_payer_low` until the client closes. */
export async function watchPayer({ rpc, signer, health, fees }: ChainClient): Promise<void> {
  while (!rpc.closed) {
    try {
      const { value } = await rpc.read((endpoint, abortSignal) =>
        endpoint.getBalance(signer.address, { commitment: 'confirmed' }).send({ abortSignal }),
      )
      health.set('fee_payer_low', value < fees.balance_min_lamports)
    } catch (error) {
      if (!(error instanceof ChainUnavailable)) throw error
    }
    await rpc.sleep(EVERY_MS)
  }
}
