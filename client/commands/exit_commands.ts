/** `wallet exit request|status|escape`: out of the vault with the seed and public chain data, without the venue. */
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { escapeNote, requestExit } from '../chain/exit_note'
import { readExitRequest, readVaultState } from '../chain/read_vault'
import { nullifierOfNote } from '../exit/open_note'
import { ProofUnavailable } from '../exit/vault_proofs'
import { markSpent } from '../wallet/mark_spent'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import { CommandRefused } from './command_refused'
import { currentProofs } from './current_proofs'
import type { CommandOptions } from './options'
import { payoutAccount } from './payout_account'
import { syncWallet } from './recover_notes'

export function noteOf(options: CommandOptions, wallet: Wallet): WalletNote {
  const note = wallet.note(toHex(options.field('note')))
  if (note === undefined)
    throw new CommandRefused(
      "the wallet has no such note: 'notes' lists what it has, 'sync' finds what it lacks",
    )
  return note
}
const timeOf = (unix_s: number): string => new Date(unix_s * 1000).toISOString()

export async function exitRequest(options: CommandOptions): Promise<void> {
  const [wallet, chain, program_id] = [options.walletToChange(), await options.chain(), options.program()]
  const note = noteOf(options, wallet)
  const keep = (): void => saveWallet(options.text('wallet'), wallet)
  const proofs = await currentProofs(options, chain)
  if (markSpent(wallet, proofs.history).length > 0) keep()
  const destination = await payoutAccount(chain, options, note.mint)
  const terms = { program_id, destination, proofs, keep }
  const signature = await requestExit(chain, wallet, note, terms).finally(keep)
  const open = await readExitRequest(chain, program_id, nullifierOfNote(note))
  console.log(`requested    ${note.amount} of ${note.mint} to ${encodeBase58(destination)} in ${signature}`)
  console.log(`nullifier    ${toHex(nullifierOfNote(note))}`)
  if (open !== undefined)
    console.log(`deadline     ${timeOf(open.deadline_s)}: unserved by then, anyone may freeze the vault`)
}

export async function exitStatus(options: CommandOptions): Promise<void> {
  const [wallet, program_id, chain] = [options.walletToChange(), options.program(), options.reader()]
  const { history } = await currentProofs(options, chain)
  if (markSpent(wallet, history).length > 0) saveWallet(options.text('wallet'), wallet)
  const { config } = await readVaultState(chain, program_id, 'confirmed')
  const frozen = config.frozen ? `frozen since ${timeOf(config.frozen_at_s)}: escape` : 'not frozen'
  console.log(`vault        ${frozen}`)
  const unspent = wallet.state.notes.filter(({ state }) => state !== 'spent')
  for (const note of unspent) {
    const open = await readExitRequest(chain, program_id, nullifierOfNote(note))
    const exit = open === undefined ? 'no request' : `requested, deadline ${timeOf(open.deadline_s)}`
    console.log(`${note.commitment}  ${note.amount} of ${note.mint}: ${exit}`)
  }
  if (unspent.length === 0) console.log('no unspent note')
}

/**
 * One note, or every unspent note of the seed, also those the wallet file lacks; what turns out to be spent or never landed
 * is said and passed over.
 */
export async function exitEscape(options: CommandOptions): Promise<void> {
  const [wallet, chain, program_id] = [options.walletToChange(), await options.chain(), options.program()]
  const one = options.optional('note') !== undefined ? noteOf(options, wallet) : undefined
  const proofs = await currentProofs(options, chain)
  if (one === undefined) syncWallet(options, wallet, proofs)
  const notes = one === undefined ? wallet.state.notes.filter(({ state }) => state !== 'spent') : [one]
  let left = 0
  for (const note of notes) {
    try {
      const destination = await payoutAccount(chain, options, note.mint)
      const signature = await escapeNote(chain, wallet, note, { program_id, destination, proofs })
      console.log(`escaped      ${note.amount} of ${note.mint} in ${signature}`)
    } catch (error) {
      const passed = error instanceof ProofUnavailable || error instanceof CommandRefused
      if (one !== undefined || !passed) throw error
      if (error instanceof ProofUnavailable && error.reason === 'spent') note.state = 'spent'
      else left += 1
      console.log(`passed over  ${note.commitment}: ${error.message}`)
    }
    saveWallet(options.text('wallet'), wallet)
  }
  if (notes.length === 0) console.log('nothing to escape: the wallet has no unspent note')
  if (left > 0) throw new CommandRefused(`${left} notes did not escape, for the reasons above`)
}
