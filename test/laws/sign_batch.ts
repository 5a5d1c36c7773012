/** The transaction that settles one batch of a simulated venue, citing a state the chain knows. */
import type { KnownStates } from '../../engine/chain/watch/watch_leaves'
import { payloadOf } from '../../engine/machine/settlement/payload'
import type { SettlementPayload } from '../../engine/ports'
import { publicKeyOf } from '../../protocol/sign'
import { decodeExitRequest } from '../../protocol/vault/accounts'
import { exitRequestAddress, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
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
  const { nullifiers, outputs, spent_root } = payload
  const payouts = payload.payouts.map((payout) => payoutOf(chain, payout))
  if (payouts.includes(undefined)) return undefined
  const instruction = settleInstruction({
    program: chain.program,
    settlement_signer: publicKeyOf(settlement_seed),
    epoch,
    batch: batch_id,
    cited_leaf_count: state.leaf_count,
    cited_root: state.root,
    spent_root,
    journal_seq: venue.seq,
    journal_head: venue.head,
    nullifiers,
    outputs,
    payouts: payouts as NonNullable<(typeof payouts)[number]>[],
  })
  return chain.sign(instruction, [settlement_seed], salt)
}

/** Undefined for an exit whose request the chain does not show. */
function payoutOf(
  chain: SimChain,
  { nullifier, refund_inner: inner, ...payout }: SettlementPayload['payouts'][number],
) {
  const fields = { ...payout, inner, token_program: TOKEN_PROGRAM }
  if (nullifier === undefined) return fields
  const account = chain.data(exitRequestAddress(chain.program, nullifier))
  const request = account && decodeExitRequest(account)
  return request && { ...fields, exit: { nullifier, bond_payer: request.bond_payer } }
}
