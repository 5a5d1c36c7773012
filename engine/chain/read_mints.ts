/** Registered mints with what the vault owes and holds, each pair read at one slot. */
import { type Address, type Base58EncodedBytes, getAddressDecoder } from '@solana/kit'
import { encodeBase58 } from '../../protocol/base58'
import { readU64Le } from '../../protocol/bytes'
import { ACCOUNT_BYTES, ACCOUNT_KIND, decodeMintRecord, type MintRecord } from '../../protocol/vault/accounts'
import type { VaultMint } from '../ports'
import type { ChainClient } from './chain_client'

/** Where an SPL token account keeps its amount (same in Token-2022). */
const TOKEN_AMOUNT_AT = 64
/** Accounts one getMultipleAccounts takes. */
const ACCOUNTS_MAX = 100

type Client = Pick<ChainClient, 'rpc' | 'address'>

/** Addresses and records of all registered mints, in order of registration. @throws ChainUnavailable */
export async function readMintRecords(client: Client): Promise<{ address: Address; record: MintRecord }[]> {
  const kind = encodeBase58(Uint8Array.of(ACCOUNT_KIND.mint_record)) as Base58EncodedBytes
  const filters = [
    { dataSize: BigInt(ACCOUNT_BYTES.mint_record) },
    { memcmp: { offset: 0n, bytes: kind, encoding: 'base58' } },
  ] as const
  const found = await client.rpc.read((endpoint, abortSignal) =>
    endpoint
      .getProgramAccounts(client.address.program, {
        commitment: 'finalized',
        encoding: 'base64',
        filters: [...filters],
      })
      .send({ abortSignal }),
  )
  return found
    .map(({ pubkey, account }) => ({ address: pubkey, record: recordOf(account.data[0]) }))
    .filter((entry): entry is { address: Address; record: MintRecord } => entry.record !== undefined)
    .sort((a, b) => a.record.mint_index - b.record.mint_index)
}

/** @throws ChainUnavailable */
export async function readMints(client: Client): Promise<VaultMint[]> {
  const mints = await readMintRecords(client)
  const read: VaultMint[] = []
  for (let at = 0; at < mints.length; at += ACCOUNTS_MAX / 2) {
    read.push(...(await readBalances(client, mints.slice(at, at + ACCOUNTS_MAX / 2))))
  }
  return read
}

async function readBalances(
  client: Client,
  mints: { address: Address; record: MintRecord }[],
): Promise<VaultMint[]> {
  const vaults = mints.map(({ record }) => getAddressDecoder().decode(record.vault_token))
  const addresses = [...mints.map((mint) => mint.address), ...vaults]
  const { context, value } = await client.rpc.read((endpoint, abortSignal) =>
    endpoint
      .getMultipleAccounts(addresses, { commitment: 'finalized', encoding: 'base64' })
      .send({ abortSignal }),
  )
  const data = value.map((account) => account && new Uint8Array(Buffer.from(account.data[0], 'base64')))
  return mints.flatMap((_, at): VaultMint[] => {
    const record = data[at] && decodeMintRecord(data[at])
    const vault = data[mints.length + at]
    if (!record || !vault) return []
    const { mint, vault_token, decimals, liabilities, freezable, min_deposit, min_exit } = record
    const balance = readU64Le(vault, TOKEN_AMOUNT_AT)
    const bounds = { freezable, min_deposit, min_exit }
    return [
      { mint, vault: vault_token, decimals, balance, liabilities, ...bounds, slot: Number(context.slot) },
    ]
  })
}

function recordOf(base64: string): MintRecord | undefined {
  return decodeMintRecord(new Uint8Array(Buffer.from(base64, 'base64')))
}
