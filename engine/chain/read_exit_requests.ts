/** The open exit requests of the vault at one commitment level. */
import type { Base58EncodedBytes, Commitment } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { ACCOUNT_BYTES, ACCOUNT_KIND, decodeExitRequest } from '../../protocol/vault/accounts'
import type { ExitRequest } from '../ports'
import type { ChainClient } from './chain_client'

export type OpenExit = Omit<ExitRequest, 'stage'>

/** By request account, earliest deadline first. @throws ChainUnavailable */
export async function readExitRequests(
  client: Pick<ChainClient, 'rpc' | 'address'>,
  commitment: Commitment,
): Promise<Map<string, OpenExit>> {
  const kind = encodeBase58(Uint8Array.of(ACCOUNT_KIND.exit_request)) as Base58EncodedBytes
  const size = { dataSize: BigInt(ACCOUNT_BYTES.exit_request) }
  const first_byte = { memcmp: { offset: 0n, bytes: kind, encoding: 'base58' } } as const
  const config = { commitment, encoding: 'base64', filters: [size, first_byte] } as const
  const found = await client.rpc.read((endpoint, abortSignal) =>
    endpoint.getProgramAccounts(client.address.program, config).send({ abortSignal }),
  )
  const requests: [string, OpenExit][] = []
  for (const { pubkey, account } of found) {
    const decoded = decodeExitRequest(new Uint8Array(Buffer.from(account.data[0], 'base64')))
    if (!decoded) continue
    const { deadline_s: deadline_unix_s, bond_payer: _, requested_slot: __, ...fields } = decoded
    requests.push([pubkey, { ...fields, deadline_unix_s, request_account: decodeBase58(pubkey, 32)! }])
  }
  return new Map(requests.sort(([, a], [, b]) => a.deadline_unix_s - b.deadline_unix_s))
}
