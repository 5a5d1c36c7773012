/** `wallet exit freeze|refuse`: what anyone may do about an exit request, with any key that pays. */
import { freezeVault, refuseExit } from '../chain/exit_note'
import { nullifierOfNote } from '../exit/open_note'
import { currentProofs } from './current_proofs'
import { noteOf } from './exit_commands'
import type { CommandOptions } from './options'

/** Needs no wallet: `--nullifier` names anybody's request. */
export async function exitFreeze(options: CommandOptions): Promise<void> {
  const named = options.optional('nullifier') !== undefined
  const nullifier = named ? options.field('nullifier') : nullifierOfNote(noteOf(options, options.wallet()))
  const signature = await freezeVault(await options.chain(), options.program(), nullifier)
  console.log(`frozen       in ${signature}: every owner may escape now`)
}

/** The bond of a request for a spent note goes to the payer. `--wallet` names where the history is kept. */
export async function exitRefuse(options: CommandOptions): Promise<void> {
  const nullifier = options.field('nullifier')
  const chain = await options.chain()
  const proofs = await currentProofs(options, chain)
  const signature = await refuseExit(chain, { program_id: options.program(), nullifier, proofs })
  console.log(`refused      in ${signature}: the bond is the payer's`)
}
