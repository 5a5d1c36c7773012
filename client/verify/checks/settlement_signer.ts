/** Check 6.1: the vault at the pinned program accepts this settlement key, in this epoch and generation. */
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { equalBytes, toHex } from '../../../protocol/bytes'
import { decodeConfig } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { venueId } from '../../../protocol/venue_id'
import { decodeBase64 } from '../base64'
import type { ChainRecord } from '../evidence_bundle'
import type { ChainPolicy } from '../policy'
import { Refused, requireThat } from '../refused'
import { established, type RunCheck, Skipped, type VerificationCase } from './verification_case'

export const checkSettlementSigner: RunCheck = (verification) => {
  const { chain, policy } = chainOf(verification)
  const { info } = verification.bundle
  const binding = established(verification, 'binding')
  const program_id = requireBase58(policy.program_id, 'the pinned program id')
  const genesis_hash = requireBase58(chain.genesis_hash, 'the genesis hash')
  const config_account = vaultAddresses(program_id).config
  requireThat(
    policy.genesis_hash === undefined || policy.genesis_hash === chain.genesis_hash,
    'the chain is another cluster than the pinned one',
  )
  requireThat(info.genesis_hash === chain.genesis_hash, 'the venue settles on another cluster')
  requireThat(info.program_id === policy.program_id, 'the venue settles with another program')
  requireThat(info.config_account === encodeBase58(config_account), 'the venue settles in another vault')
  requireThat(chain.config.owner === policy.program_id, 'the vault is not owned by the pinned program')
  const config = decodeConfig(decodeBase64(chain.config.data))
  if (config === undefined) throw new Refused('the vault account is malformed')
  const { generation, epoch, settlement_signer } = config
  const signer = encodeBase58(settlement_signer)
  requireThat(signer === info.tee_pubkey, 'the vault accepts another settlement key')
  requireThat(BigInt(epoch) === binding.epoch, 'the vault is in another epoch')
  requireThat(generation === info.generation, 'the vault is in another generation')
  const venue = venueId({ genesis_hash, program_id, config_account, generation })
  requireThat(equalBytes(venue, binding.venue), 'the venue id is of another vault')
  const measured = established(verification, 'claims').compose_hash
  requireThat(equalBytes(config.compose_hash, measured), 'the epoch was opened by another build')
  verification.established.config = config
  return {
    config_account: info.config_account,
    settlement_signer: signer,
    epoch: String(epoch),
    generation: String(generation),
    compose_hash: toHex(config.compose_hash),
    read_at_slot: String(chain.slot),
  }
}

/** @throws Skipped when the policy names no chain; Refused when it does and the chain was not read. */
export function chainOf({ bundle, policy }: VerificationCase): { chain: ChainRecord; policy: ChainPolicy } {
  if (policy.chain === undefined) throw new Skipped('the policy names no chain')
  if (bundle.chain === null)
    throw new Refused(`the chain could not be read: ${bundle.missing.chain ?? 'nothing was recorded'}`)
  return { chain: bundle.chain, policy: policy.chain }
}

function requireBase58(text: string, part: string): Uint8Array {
  const bytes = decodeBase58(text, 32)
  if (bytes === undefined) throw new Refused(`${part} is malformed`)
  return bytes
}
