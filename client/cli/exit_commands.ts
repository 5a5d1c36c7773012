/** Runs `wallet exit request|status|escape|freeze|refuse`: leaves the vault without the venue. */
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import { type ChainAccess, payerKey } from '../chain/chain_access'
import { escapeNote, freezeVault, refuseExit, requestExit } from '../chain/exit_note'
import { readExitRequest, readMintRecord, readVaultState } from '../chain/read_vault'
import { requireLamports, sendInstructions } from '../chain/send_instructions'
import {
  accountExists,
  createAssociatedAccount,
  ownAccount,
  readTokenAccount,
  TOKEN_ACCOUNT_BYTES,
} from '../chain/token_account'
import { nullifierOfNote } from '../exit/prepare_exit'
import { ProofUnavailable } from '../exit/vault_proofs'
import { Refused } from '../verify/transcript'
import { markSpent } from '../wallet/absorb_recovered'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import type { CommandOptions } from './options'
import { currentProofs, syncWallet } from './recover_notes'

/**
 * The token account that an exit pays: `--destination`, or the payer's own, created when absent.
 * @throws Refused for a destination that the vault cannot pay: the tokens would return as another note
 */
async function payoutAccount(chain: ChainAccess, options: CommandOptions, mint: string): Promise<Uint8Array> {
  const { token_program } = await readMintRecord(chain, options.program(), mint)
  if (options.optional('destination') !== undefined) {
    const named = options.address('destination')
    const account = await readTokenAccount(chain, named, token_program)
    const whose = `--destination ${encodeBase58(named)}`
    const instead = "name one, or leave --destination out for the payer's own"
    if (account === undefined) throw new Refused(`${whose} is not a token account of ${mint}: ${instead}`)
    if (!equalBytes(account.mint, decodeBase58(mint, 32)!))
      throw new Refused(`${whose} holds ${encodeBase58(account.mint)}, not ${mint}: ${instead}`)
    if (account.frozen) throw new Refused(`${whose} is frozen by the mint's authority: ${instead}`)
    return named
  }
  const { bytes } = ownAccount(chain, mint, token_program)
  if (!(await accountExists(chain, bytes))) {
    await requireLamports(chain, [TOKEN_ACCOUNT_BYTES])
    const owner = payerKey(chain)
    const create = createAssociatedAccount(chain, owner, decodeBase58(mint, 32)!, token_program)
    await sendInstructions(chain, [create], 'confirmed')
  }
  return bytes
}

function noteOf(options: CommandOptions, wallet: Wallet): WalletNote {
  const note = wallet.note(toHex(options.hex32('note')))
  if (note === undefined)
    throw new Refused("the wallet has no such note: 'notes' lists what it has, 'sync' finds what it lacks")
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
 * One note, or every unspent note of the seed, including notes that the wallet file lacks. Notes that are spent or never
 * landed are reported and skipped.
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
      const passed = error instanceof ProofUnavailable || error instanceof Refused
      if (one !== undefined || !passed) throw error
      if (error instanceof ProofUnavailable && error.reason === 'spent') note.state = 'spent'
      else left += 1
      console.log(`passed over  ${note.commitment}: ${error.message}`)
    }
    saveWallet(options.text('wallet'), wallet)
  }
  if (notes.length === 0) console.log('nothing to escape: the wallet has no unspent note')
  if (left > 0) throw new Refused(`${left} notes did not escape, for the reasons above`)
}

/** Any payer may freeze; `--nullifier` names a request without a wallet. */
export async function exitFreeze(options: CommandOptions): Promise<void> {
  const named = options.optional('nullifier') !== undefined
  const nullifier = named ? options.hex32('nullifier') : nullifierOfNote(noteOf(options, options.wallet()))
  const signature = await freezeVault(await options.chain(), options.program(), nullifier)
  console.log(`frozen       in ${signature}: every owner may escape now`)
}

/** Any payer may close a request for a spent note and gets its bond. `--wallet` names the place of the kept history. */
export async function exitRefuse(options: CommandOptions): Promise<void> {
  const nullifier = options.hex32('nullifier')
  const chain = await options.chain()
  const proofs = await currentProofs(options, chain)
  const signature = await refuseExit(chain, { program_id: options.program(), nullifier, proofs })
  console.log(`refused      in ${signature}: the bond is the payer's`)
}
