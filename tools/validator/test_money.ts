/** Money of a test cluster: lamports from its faucet, a mint of our own, wrapped SOL. */
import { type ChainAccess, openChainAccess } from '../../client/chain/chain_access'
import { sendInstructions } from '../../client/chain/send_instructions'
import { createAssociatedAccount, ownAccount, tokenBalance } from '../../client/chain/token_account'
import { toInstruction } from '../../client/chain/vault_instruction'
import type { MintName } from '../../client/demo/balances'
import type { Trader } from '../../client/demo/trader'
import { decodeBase58 } from '../../protocol/base58'
import { concatBytes, u64Le } from '../../protocol/bytes'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/programs'
import { callRpc } from './call_rpc'

/** Of an SPL Token mint account. */
const MINT_BYTES = 82
const WAIT_MS_MAX = 600_000
const POLL_MS = 250
/** For a trader's transactions, rent and bonds. */
const FEE_LAMPORTS = 2_000_000_000n

type Account = VaultInstruction['accounts'][number]
const account = (address: Uint8Array, writable: boolean, signer = false): Account => ({
  address,
  writable,
  signer,
})
const bytesOf = (text: string): Uint8Array => decodeBase58(text, 32)!

/** Resolves once the lamports are finalized. @throws Error when the cluster has no faucet */
export async function airdrop(rpc_url: string, address: string, lamports: bigint): Promise<void> {
  const config = { commitment: 'finalized' }
  const balance = async () =>
    BigInt((await callRpc<{ value: number }>(rpc_url, 'getBalance', [address, config])).value)
  const before = await balance()
  await callRpc(rpc_url, 'requestAirdrop', [address, Number(lamports)])
  const deadline = performance.now() + WAIT_MS_MAX
  while ((await balance()) < before + lamports) {
    if (performance.now() > deadline) throw new Error('the faucet did not pay')
    await Bun.sleep(POLL_MS)
  }
}

/** A new SPL Token mint whose authority is the payer of `chain`. */
export async function createMint(chain: ChainAccess, decimals: number): Promise<string> {
  const { payer: mint } = await openChainAccess(chain.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const rent = await chain.rpc.getMinimumBalanceForRentExemption(BigInt(MINT_BYTES)).send()
  const [authority, address] = [bytesOf(chain.payer.address), bytesOf(mint.address)]
  const create = {
    program: SYSTEM_PROGRAM,
    accounts: [account(authority, true, true), account(address, true, true)],
    data: concatBytes(new Uint8Array(4), u64Le(rent), u64Le(MINT_BYTES), TOKEN_PROGRAM),
  }
  // InitializeMint2: decimals, authority, no freeze authority.
  const initialize = {
    program: TOKEN_PROGRAM,
    accounts: [account(address, true)],
    data: concatBytes(Uint8Array.of(20, decimals), authority, Uint8Array.of(0)),
  }
  const instructions = [create, initialize].map((one) => toInstruction(one, [chain.payer, mint]))
  await sendInstructions(chain, instructions, 'finalized')
  return mint.address
}

/** Gives a trader SOL for fees and tokens: the native mint by wrapping, the other by its authority. */
export async function fundTrader(
  authority: ChainAccess,
  native_mint: string,
  trader: Trader,
  { mint, decimals }: MintName,
  amount: bigint,
): Promise<void> {
  const { chain } = trader
  const wrapped = mint === native_mint
  await airdrop(chain.rpc_url, chain.payer.address, FEE_LAMPORTS + (wrapped ? amount : 0n))
  const [owner, address] = [bytesOf(chain.payer.address), bytesOf(mint)]
  const own = ownAccount(chain, mint)
  const before = await tokenBalance(chain, own.bytes)
  await sendInstructions(chain, [createAssociatedAccount(chain, owner, address)], 'confirmed')
  if (wrapped) await wrap(chain, own.bytes, amount)
  else await mintTo(authority, address, own.bytes, amount, decimals)
  if ((await tokenBalance(chain, own.bytes)) !== before + amount) throw new Error('the tokens did not arrive')
}

async function wrap(chain: ChainAccess, own: Uint8Array, amount: bigint): Promise<void> {
  const owner = bytesOf(chain.payer.address)
  const transfer = {
    program: SYSTEM_PROGRAM,
    accounts: [account(owner, true, true), account(own, true)],
    data: concatBytes(Uint8Array.of(2, 0, 0, 0), u64Le(amount)),
  }
  const sync_native = { program: TOKEN_PROGRAM, accounts: [account(own, true)], data: Uint8Array.of(17) }
  const instructions = [transfer, sync_native].map((one) => toInstruction(one, [chain.payer]))
  await sendInstructions(chain, instructions, 'confirmed')
}

async function mintTo(
  authority: ChainAccess,
  mint: Uint8Array,
  to: Uint8Array,
  amount: bigint,
  decimals: number,
): Promise<void> {
  const mint_to_checked = {
    program: TOKEN_PROGRAM,
    accounts: [
      account(mint, true),
      account(to, true),
      account(bytesOf(authority.payer.address), false, true),
    ],
    data: concatBytes(Uint8Array.of(14), u64Le(amount), Uint8Array.of(decimals)),
  }
  await sendInstructions(authority, [toInstruction(mint_to_checked, [authority.payer])], 'confirmed')
}
