/** Joins what a client's command passes before it is executed: form, signatures, and the writer behind them. */
import { venueId } from '../../protocol/venue_id'
import type { EngineConfig } from '../config'
import { type Intake, intakeOf } from '../intake/intake'
import { SignatureThread } from '../intake/signature_thread'
import { SIGNATURES_INLINE } from '../intake/signatures'
import type { ChainPort } from '../ports'
import type { State } from '../state/state'
import { ReceiptCache } from './receipt_cache'
import { type WriteParts, Writes } from './writes'

/** @param generation of the vault; part of the venue id every signed body names */
export function openWrites(
  config: EngineConfig,
  state: State,
  { genesis_hash, program_id, config_account }: ChainPort,
  generation: number,
  fatal: (error: Error) => void,
  behind: Pick<WriteParts, 'sequencer' | 'availability' | 'grace'>,
) {
  const venue = venueId({ genesis_hash, program_id, config_account, generation })
  const intake: Intake = intakeOf(venue, config.instruments, state)
  const signatures = config.signature_thread === true ? new SignatureThread(fatal) : SIGNATURES_INLINE
  const writes = new Writes({ ...behind, intake, signatures, state, receipts: new ReceiptCache() })
  return { intake, signatures, writes }
}
