/** The vault's admin, and senders that anyone may be. */
import { decodeBase58 } from '../../../protocol/base58'
import {
  authorizeRestoreInstruction,
  pauseInstruction,
  unpauseInstruction,
} from '../../../protocol/vault/admin'
import { platformOf, registerPlatformInstructions } from '../../../protocol/vault/epochs'
import { growQueueInstruction } from '../../../protocol/vault/settle'
import type { Random } from '../../kit/random'
import { DEPTH, type SimulatedChain } from './simulated_chain'

const adminOf = ({ program, admin }: SimulatedChain) => ({ program, admin: decodeBase58(admin.address, 32)! })

/** Pauses the vault, or any sender gives its payout queue more places; a pause that is lost or taken back is none. */
export function administer(chain: SimulatedChain, is_paused: boolean, random: Random, calm: boolean): void {
  const { program, admin, depositor } = chain
  const of = adminOf(chain)
  const dice = random.below(is_paused ? 12 : 60)
  if (is_paused && (calm || dice === 0)) void chain.send(unpauseInstruction(of), [], admin)
  if (is_paused || calm) return
  if (dice === 0) void chain.send(pauseInstruction(of), [], admin)
  if (dice === 1) void chain.send(growQueueInstruction(program, depositor), [])
}

/** The admin announces a restore, which is final then, and its delay is over. */
export async function announceRestore(chain: SimulatedChain, exit_delay_s: number): Promise<void> {
  const { admin } = chain
  const of = adminOf(chain)
  await chain.send(authorizeRestoreInstruction({ ...of, action: 'announce' }), [], admin)
  chain.advance()
  chain.machine.warpTime(Math.ceil(exit_delay_s / 4))
  chain.advance(DEPTH.finalized + 1)
}

/** Of a machine, which any sender may register. */
export const registrationOf = ({ program, depositor }: SimulatedChain, pck_chain: readonly Uint8Array[]) =>
  registerPlatformInstructions({ ...platformOf(pck_chain), program, payer: depositor })
