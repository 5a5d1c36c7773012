/** Opens temporary data folders and short-lived embedded chains. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSolanaRpc, type Signature } from '@solana/kit'
import type { EmbeddedChainOptions } from '../../../sandbox/chain/embedded_chain'
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
