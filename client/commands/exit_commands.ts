/** `wallet exit request|status|freeze|escape`: out of the vault with the seed and public chain data, without the venue. */
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { openChainReader } from '../chain/chain_access'
import { escapeNote, freezeVault, readProofs, requestExit } from '../chain/exit_note'
import { readExitRequest, readVaultState } from '../chain/read_vault'
import { nullifierOfNote } from '../exit/open_note'
import { ProofUnavailable } from '../exit/vault_proofs'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import { type CommandOptions, CommandRefused } from './options'
import { payoutAccount } from './payout_account'

function noteOf(options: CommandOptions, wallet: Wallet): WalletNote {
  const note = wallet.note(toHex(options.field('note')))
  if (note === undefined) throw new CommandRefused('the wallet has no such note')
  return note
}
const timeOf = (unix_s: number): string => new Date(unix_s * 1000).toISOString()

export async function exitRequest(options: CommandOptions): Promise<void> {
  const [wallet, chain, program_id] = [options.wallet(), await options.chain(), options.text('program')]
  const note = noteOf(options, wallet)
  const proofs = await readProofs(chain, program_id)
  const destination = await payoutAccount(chain, options, note.mint)
  const signature = await requestExit(chain, wallet, note, { program_id, destination, proofs })
  saveWallet(options.text('wallet'), wallet)
  const open = await readExitRequest(chain, program_id, nullifierOfNote(note))
  console.log(`requested    ${note.amount} of ${note.mint} to ${encodeBase58(destination)} in ${signature}`)
  console.log(`nullifier    ${toHex(nullifierOfNote(note))}`)
  if (open !== undefined)
    console.log(`deadline     ${timeOf(open.deadline_s)}: then anyone may freeze the vault`)
}

export async function exitStatus(options: CommandOptions): Promise<void> {
  const [wallet, program_id] = [options.wallet(), options.text('program')]
  const chain = openChainReader(options.text('rpc'))
  const { config } = await readVaultState(chain, program_id, 'confirmed')
  console.log(
    `vault        ${config.frozen ? `frozen since ${timeOf(config.frozen_at_s)}: escape` : 'not frozen'}`,
  )
  for (const note of wallet.state.notes) {
    if (note.state === 'spent') continue
    const open = await readExitRequest(chain, program_id, nullifierOfNote(note))
    const exit = open === undefined ? 'no request' : `requested, deadline ${timeOf(open.deadline_s)}`
    console.log(`${note.commitment}  ${note.amount} of ${note.mint}: ${exit}`)
  }
}

/** Needs no wallet: `--nullifier` names anybody's request. */
export async function exitFreeze(options: CommandOptions): Promise<void> {
  const named = options.optional('nullifier') !== undefined
  const nullifier = named ? options.field('nullifier') : nullifierOfNote(noteOf(options, options.wallet()))
  const signature = await freezeVault(await options.chain(), options.text('program'), nullifier)
  console.log(`frozen       in ${signature}: every owner may escape now`)
}

/** One note, or every unspent note of the wallet; what turns out to be spent or never landed is said and passed over. */
export async function exitEscape(options: CommandOptions): Promise<void> {
  const [wallet, chain, program_id] = [options.wallet(), await options.chain(), options.text('program')]
  const one = options.optional('note') !== undefined
  const notes = one ? [noteOf(options, wallet)] : wallet.state.notes.filter(({ state }) => state !== 'spent')
  const proofs = await readProofs(chain, program_id)
  for (const note of notes) {
    const destination = await payoutAccount(chain, options, note.mint)
    try {
      const signature = await escapeNote(chain, wallet, note, { program_id, destination, proofs })
      console.log(`escaped      ${note.amount} of ${note.mint} in ${signature}`)
    } catch (error) {
      if (one || !(error instanceof ProofUnavailable) || error.reason === 'history_differs') throw error
      if (error.reason === 'spent') note.state = 'spent'
      console.log(`passed over  ${note.commitment}: ${error.message}`)
    }
    saveWallet(options.text('wallet'), wallet)
  }
  if (notes.length === 0) console.log('nothing to escape: the wallet has no unspent note')
}
