/** Opens temporary data folders and short-lived embedded chains, and signs the smallest useful transaction for them. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  address,
  appendTransactionMessageInstruction,
  type Blockhash,
  createSolanaRpc,
  createTransactionMessage,
  generateKeyPairSigner,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  type KeyPairSigner,
  lamports,
  pipe,
  type Signature,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { concatBytes, u64Le } from '../../../protocol/bytes'
import type { EmbeddedChainOptions } from '../../../sandbox/chain/machine'
import { type OpenedChain, openEmbeddedChain } from '../../../sandbox/chain/open_embedded_chain'

export function chainFolder(): { dir: string; remove(): void } {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-chain-'))
  return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) }
}

/** Runs `use` on a fresh chain, which is closed and removed afterwards. */
export async function withChain(
  options: Partial<EmbeddedChainOptions>,
  use: (chain: OpenedChain) => Promise<void>,
): Promise<void> {
  const folder = chainFolder()
  const chain = await openEmbeddedChain({ slot_ms: 0, ...options, data_dir: folder.dir })
  try {
    await use(chain)
  } finally {
    await chain.close()
    folder.remove()
  }
}

/** Unmodified clients of @solana/kit. */
export function clientsOf(chain: { url: string }) {
  return { rpc: createSolanaRpc(chain.url) }
}

/** Calls a method that only the embedded chain has. */
export async function callRpc<T>(chain: { url: string }, method: string, params: unknown[]): Promise<T> {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const reply = await fetch(chain.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  const { result, error } = (await reply.json()) as { result: T; error?: { message: string } }
  if (error) throw new Error(error.message)
  return result
}

/** Gives tokens through the faucet and lands them at once; needs a chain without a timer or a slot soon. */
export async function mintTo(
  chain: OpenedChain,
  mint: string,
  owner: string,
  amount: bigint,
): Promise<Signature> {
  const signature = await callRpc<Signature>(chain, 'tacit_mintTo', [
    { mint, owner, amount: amount.toString() },
  ])
  chain.advance(1)
  return signature
}

/** A wallet with `sol` SOL, funded at once. */
export async function fundedWallet(chain: OpenedChain, sol = 10): Promise<KeyPairSigner> {
  const wallet = await generateKeyPairSigner()
  await clientsOf(chain)
    .rpc.requestAirdrop(wallet.address, lamports(BigInt(sol) * 1_000_000_000n))
    .send()
  chain.advance(1)
  return wallet
}

export async function signedTransfer(
  chain: { url: string },
  from: KeyPairSigner,
  to: string,
  amount: bigint,
  given?: { blockhash: Blockhash; lastValidBlockHeight: bigint },
) {
  const { rpc } = clientsOf(chain)
  const lifetime = given ?? (await rpc.getLatestBlockhash({ commitment: 'processed' }).send()).value
  const transfer = {
    programAddress: address('11111111111111111111111111111111'),
    accounts: [
      { address: from.address, role: 3 as const, signer: from },
      { address: address(to), role: 1 as const },
    ],
    data: concatBytes(Uint8Array.of(2, 0, 0, 0), u64Le(amount)),
  }
  const message = pipe(
    createTransactionMessage({ version: 1 }),
    (m) => setTransactionMessageFeePayerSigner(from, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(10_000, m),
    (m) => setTransactionMessageLoadedAccountsDataSizeLimit(100_000, m),
    (m) => appendTransactionMessageInstruction(transfer, m),
  )
  const transaction = await signTransactionMessageWithSigners(message)
  const signature = getSignatureFromTransaction(transaction)
  return { transaction, signature, wire: getBase64EncodedWireTransaction(transaction), lifetime }
}
