/** The transaction that settles one batch of a simulated venue, citing a state the chain knows. */
import type { KnownStates } from '../../engine/chain/watch/watch_leaves'
import { payloadOf } from '../../engine/machine/settlement/payload'
import { publicKeyOf } from '../../protocol/sign'
import { settleInstruction } from '../../protocol/vault/settle'
import type { SimChain } from './sim_chain'
import type { SimVenue } from './sim_venue'

type Signer = {
  chain: SimChain
  venue: SimVenue
  states: KnownStates
  epoch: number
  settlement_seed: Uint8Array
}

/** Undefined until the batch is hashed and a state that covers it is known. `salt` makes another signature. */
export async function signBatch(signer: Signer, batch_id: number, salt = 0): Promise<Uint8Array | undefined> {
  const { chain, venue, epoch, settlement_seed } = signer
  const payload = payloadOf(venue.state, batch_id)
  const state = payload && signer.states.cite([chain.vault()], payload.leaf_count_min)
  if (!payload || !state) return undefined
  const { nullifiers, outputs, payouts } = payload
  const instruction = settleInstruction({
    program: chain.program,
    settlement_signer: publicKeyOf(settlement_seed),
    epoch,
    batch: batch_id,
    cited_leaf_count: state.leaf_count,
    cited_root: state.root,
    journal_seq: venue.seq,
    journal_head: venue.head,
    nullifiers,
    outputs,
    payouts: payouts.map(({ refund_inner: inner, ...payout }) => ({ ...payout, inner })),
  })
  return chain.sign(instruction, [settlement_seed], salt)
}
