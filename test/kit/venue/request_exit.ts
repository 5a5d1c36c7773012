/** Asks for a note on chain as its owner does: with the opening, from public data, without the venue. */

import { createKeyPairSignerFromPrivateKeyBytes, type KeyPairSigner } from '@solana/kit'
import {
  buildTransaction,
  COMPUTE_UNITS_MAX,
  toInstruction,
} from '../../../engine/chain/client/build_transaction'
import type { HashPort } from '../../../engine/ports'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { fromHex } from '../../../protocol/bytes'
import { nullifierOf } from '../../../protocol/notes/notes'
import { exitRequestAddress } from '../../../protocol/vault/addresses'
import { requestExitInstruction } from '../../../protocol/vault/exits'
import type { OpenedChain } from '../../../sandbox/chain/open_embedded_chain'
import { decodeTransaction } from '../../../sandbox/chain/transaction_meta'
import { clientsOf } from '../chain/chain_folder'
import { fundedWallet } from '../chain/transfer'
import { type Deposit, element, type Trader } from './trader'

/** Resolves with nullifier and request account once the request landed. @throws Error with what the chain rejected */
export async function requestExit(
  { chain, hash }: { chain: OpenedChain; hash: Pick<HashPort, 'inclusion' | 'leaves' | 'root'> },
  trader: Pick<Trader, 'seed' | 'key'>,
  { commitment, opening }: Deposit,
  destination: Uint8Array,
  /** Payer of the bond, by default a fresh wallet; `sending` gets the signature first. */
  options: { payer?: KeyPairSigner; sending?: (signature: string) => void } = {},
): Promise<{ nullifier: Uint8Array; account: Uint8Array }> {
  const program = chain.program_id!
  const owner = await createKeyPairSignerFromPrivateKeyBytes(trader.seed)
  const payer = options.payer ?? (await fundedWallet(chain))
  const blinding = fromHex(opening.blinding, 32)!
  const nullifier = nullifierOf(fromHex(commitment, 32)!, blinding)
  const leaf_index = opening.leaf_index ?? (await placeOf(hash, commitment))
  const proof = await hash.inclusion(leaf_index)
  const form = opening.leaf_index === undefined ? 'settlement' : 'deposit'
  const instruction = requestExitInstruction({
    program,
    owner: trader.key,
    payer: decodeBase58(payer.address, 32)!,
    mint: decodeBase58(opening.mint, 32)!,
    opening: { form, amount: BigInt(opening.amount), blinding, leaf_index },
    nullifier,
    cited_leaf_count: proof.leaf_count,
    cited_root: proof.root,
    destination,
    refund_inner: element(),
    path: proof.siblings,
  })
  const { value: lifetime } = await clientsOf(chain)
    .rpc.getLatestBlockhash({ commitment: 'processed' })
    .send()
  const { wire, signature } = await buildTransaction({
    payer,
    instructions: [toInstruction(instruction, [owner, payer])],
    lifetime,
    compute_units: COMPUTE_UNITS_MAX,
    priority_fee_lamports: 0n,
  })
  options.sending?.(encodeBase58(signature))
  chain.machine.enqueue(decodeTransaction(wire))
  chain.advance(1)
  const landed = chain.machine.store.transaction(encodeBase58(signature))
  if (landed?.error !== 'null') throw new Error(`the request did not land: ${landed?.error}`)
  return { nullifier, account: exitRequestAddress(program, nullifier) }
}

async function placeOf(hash: Pick<HashPort, 'leaves' | 'root'>, commitment: string): Promise<number> {
  const leaves = await hash.leaves(0, hash.root().leaf_count)
  return leaves.findIndex((leaf) => leaf.toHex() === commitment)
}
