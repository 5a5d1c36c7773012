/** Requests the exit of a fresh deposit in a world without an engine, as its owner does. */

import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { decodeBase58 } from '../../../protocol/base58'
import { noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { exitRequestAddress } from '../../../protocol/vault/addresses'
import { requestExitInstruction } from '../../../protocol/vault/exits'
import { associatedTokenAddress } from '../../../sandbox/chain/token_instructions'
import { mintTo } from './chain_folder'
import { fundedWallet } from './transfer'
import { randomField, USDC, type VaultWorld } from './vault_world'

const mint = decodeBase58(USDC, 32)!

/**
 * A finalized deposit of `amount` whose owner asks for it back; resolves once the request landed. It is to be paid to the
 * owner's token account, or to the account that pays the bond.
 */
export async function requestExitOf(world: VaultWorld, amount: bigint, to: 'own' | 'bond_payer' = 'own') {
  const owner = await fundedWallet(world.chain)
  const key = decodeBase58(owner.address, 32)!
  const blinding = randomField()
  const { leaf_count: leaf_index } = await world.port.readConfig()
  await world.depositAs(() => noteInner(key, blinding), [amount])
  await world.sink.until(() => world.sink.told.length === leaf_index + 1)
  await mintTo(world.chain, USDC, owner.address, 1n)
  const proof = await world.hash.inclusion(leaf_index)
  const nullifier = nullifierOf(proof.leaf, blinding)
  const refund_inner = randomField()
  const own = decodeBase58(await associatedTokenAddress(owner.address, USDC), 32)!
  const destination = to === 'own' ? own : key
  const instruction = requestExitInstruction({
    program: world.program,
    owner: key,
    payer: key,
    mint,
    opening: { form: 'deposit', amount, blinding, leaf_index },
    nullifier,
    cited_leaf_count: proof.leaf_count,
    cited_root: proof.root,
    destination,
    refund_inner,
    path: proof.siblings,
  })
  const send = () => world.send(owner, toInstruction(instruction, [owner]))
  await send()
  const account = exitRequestAddress(world.program, nullifier)
  return { nullifier, destination, refund_inner, send, account, owner: key }
}
