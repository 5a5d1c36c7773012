/** Follows the open exit requests: seen at confirmed, again at finalized, or gone with a fork. */
import type { Base58EncodedBytes, Commitment } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { ACCOUNT_BYTES, ACCOUNT_KIND, decodeExitRequest } from '../../protocol/vault/accounts'
import type { ChainSinkPort, ExitRequest } from '../ports'
import type { ChainClient } from './chain_client'

export class ExitWatch {
  readonly #told = new Map<string, ExitRequest>()

  constructor(
    readonly client: Pick<ChainClient, 'rpc' | 'address'>,
    readonly sink: ChainSinkPort,
  ) {}

  /** Reads both levels and tells what changed. @throws ChainUnavailable */
  async follow(): Promise<void> {
    const finalized = await this.#read('finalized')
    const confirmed = await this.#read('confirmed')
    for (const [account, request] of confirmed) {
      if (!this.#told.has(account)) await this.#tell(account, { ...request, stage: 'confirmed' })
    }
    for (const [account, request] of finalized) {
      if (this.#told.get(account)?.stage !== 'finalized')
        await this.#tell(account, { ...request, stage: 'finalized' })
    }
    for (const [account, request] of this.#told) {
      if (confirmed.has(account) || finalized.has(account)) continue
      // A finalized request disappears when it was served, refused or frozen: batches and events tell that.
      if (request.stage === 'confirmed') await this.sink.exitRequested({ ...request, stage: 'vanished' })
      this.#told.delete(account)
    }
  }

  async #tell(account: string, request: ExitRequest): Promise<void> {
    await this.sink.exitRequested(request)
    this.#told.set(account, request)
  }

  async #read(commitment: Commitment): Promise<Map<string, Omit<ExitRequest, 'stage'>>> {
    const kind = encodeBase58(Uint8Array.of(ACCOUNT_KIND.exit_request)) as Base58EncodedBytes
    const size = { dataSize: BigInt(ACCOUNT_BYTES.exit_request) }
    const first_byte = { memcmp: { offset: 0n, bytes: kind, encoding: 'base58' } } as const
    const config = { commitment, encoding: 'base64', filters: [size, first_byte] } as const
    const found = await this.client.rpc.read((endpoint, abortSignal) =>
      endpoint.getProgramAccounts(this.client.address.program, config).send({ abortSignal }),
    )
    const requests = new Map<string, Omit<ExitRequest, 'stage'>>()
    for (const { pubkey, account } of found) {
      const decoded = decodeExitRequest(new Uint8Array(Buffer.from(account.data[0], 'base64')))
      if (!decoded) continue
      const { nullifier, mint, amount, destination, deadline_s } = decoded
      const request_account = decodeBase58(pubkey, 32)!
      requests.set(pubkey, {
        nullifier,
        mint,
        amount,
        destination,
        deadline_unix_s: deadline_s,
        request_account,
      })
    }
    return requests
  }
}
