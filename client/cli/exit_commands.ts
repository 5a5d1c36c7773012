/** Runs `wallet exit request|status|pay|close|freeze|refuse`: leaves the vault without the venue. */
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import type { ConfigAccount, EscapeClaim } from '../../protocol/vault/accounts'
import { type ChainAccess, payerKey } from '../chain/chain_access'
import { claimDueS, readClaim } from '../chain/claims'
import { closeExit, freezeVault, payPayout, refuseExit, requestExit } from '../chain/exit_note'
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
import { Refused } from '../verify/transcript'
import { markSpent } from '../wallet/absorb_recovered'
import type { VaultExit } from '../wallet/vault_history'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import { timeOf } from './command'
import type { CommandOptions } from './options'
import { readHistory } from './recover_notes'

/**
 * The token account that an exit pays: `--destination`, or the payer's own, created when absent.
 * @throws Refused for a destination that the vault cannot pay: the tokens would return as another note
 */
export async function payoutAccount(
  chain: ChainAccess,
  options: CommandOptions,
  mint: string,
): Promise<Uint8Array> {
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

export function noteOf(options: CommandOptions, wallet: Wallet): WalletNote {
  const note = wallet.note(toHex(options.hex32('note')))
  if (note === undefined)
    throw new Refused("the wallet has no such note: 'notes' lists what it has, 'sync' finds what it lacks")
  return note
}

export async function exitRequest(options: CommandOptions): Promise<void> {
  const [wallet, chain, program_id] = [options.walletToChange(), await options.chain(), options.program()]
  const note = noteOf(options, wallet)
  const keep = (): void => saveWallet(options.text('wallet'), wallet)
  const { proofs } = await readHistory(options, chain)
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

/** The vault with its queue, whose payouts anyone may pay, then every note that is unspent or has an exit. */
export async function exitStatus(options: CommandOptions): Promise<void> {
  const [wallet, program_id, chain] = [options.walletToChange(), options.program(), options.reader()]
  const { history } = (await readHistory(options, chain)).proofs
  if (markSpent(wallet, history).length > 0) saveWallet(options.text('wallet'), wallet)
  const { config, queue } = await readVaultState(chain, program_id, 'confirmed')
  console.log(`vault        ${config.frozen ? `frozen since ${timeOf(config.frozen_at_s)}` : 'not frozen'}`)
  if (config.frozen) for (const line of FROZEN) console.log(`             ${line}`)
  console.log(`queue        ${queue.entries.length} payouts wait, ${queue.capacity} places`)
  for (const { number, amount, mint, destination } of queue.entries)
    console.log(`  ${number}: ${amount} of ${encodeBase58(mint)} to ${encodeBase58(destination)}`)
  let shown = 0
  for (const note of wallet.state.notes) {
    const nullifier = nullifierOfNote(note)
    const exit = history.exits.get(toHex(nullifier))
    if (note.state === 'spent' && exit === undefined) continue
    const claim = config.frozen ? await readClaim(chain, program_id, nullifier) : undefined
    if (claim !== undefined) console.log(`${note.commitment}  ${claimStage(claim, config)}`)
    const request = await readExitRequest(chain, program_id, nullifier)
    const stage = stageOf(exit, request?.deadline_s, queue.entries)
    const ended = request !== undefined && (request.served || config.frozen)
    const rest = ended ? "; 'exit close' returns the bond" : ''
    console.log(`${note.commitment}  ${note.amount} of ${note.mint}: ${stage}${rest}`)
    shown += 1
  }
  if (shown === 0) console.log('no unspent note and no exit')
}

const FROZEN = [
  'deposits, settlement and exit requests have ended for good',
  "queued payouts are still paid: 'exit pay'; bonds return: 'exit close'",
  "'exit claim' claims every unspent note, and run again later collects the payment",
]

function stageOf(
  exit: VaultExit | undefined,
  deadline_s: number | undefined,
  queued: readonly { number: number }[],
): string {
  if (exit === undefined || exit.stage === 'requested')
    return deadline_s === undefined ? 'no request' : `requested, deadline ${timeOf(deadline_s)}`
  if (exit.stage === 'refused') return 'refused: the note is spent'
  const payout = `payout ${exit.payout}`
  if (exit.stage === 'paid') return `paid, ${payout}`
  if (exit.stage === 'refunded')
    return `refunded, ${payout}: ${exit.outcome}; the note is among the wallet's after 'sync'`
  const waits = queued.some(({ number }) => number === exit.payout)
  return waits ? `served, ${payout} waits in the queue` : `served, ${payout} has just left the queue`
}

/** How far a claim came. */
export function claimStage(claim: EscapeClaim, config: ConfigAccount): string {
  if (claim.state === 'cancelled') return 'claim cancelled: a batch spent the note'
  if (claim.state === 'paid') return `claim paid: ${claim.paid} of ${claim.amount}`
  return `claimed (${claim.rank}), payable from ${timeOf(claimDueS(config, claim))}`
}

/** Any payer may. `--number` names a payout of a withdrawal, or one without a wallet. */
export async function exitPay(options: CommandOptions): Promise<void> {
  const chain = await options.chain()
  const number =
    options.optional('number') !== undefined ? options.count('number', 0) : await payoutOf(options, chain)
  const of = { program_id: options.program(), number, refund: options.flag('refund') }
  const signature = await payPayout(chain, of)
  console.log(`closed       payout ${number} in ${signature}: 'exit status' tells whether it was paid`)
}

async function payoutOf(options: CommandOptions, chain: ChainAccess): Promise<number> {
  const note = noteOf(options, options.wallet())
  const { history } = (await readHistory(options, chain)).proofs
  const payout = history.exits.get(toHex(nullifierOfNote(note)))?.payout
  if (payout === undefined)
    throw new Refused("no batch has served this note yet: 'exit status' tells its stage")
  return payout
}

/** Any payer may; rent and bond return to the key that paid them. */
export async function exitClose(options: CommandOptions): Promise<void> {
  const signature = await closeExit(await options.chain(), options.program(), namedNullifier(options))
  console.log(`closed       in ${signature}: rent and bond are back`)
}

/** Any payer may freeze. */
export async function exitFreeze(options: CommandOptions): Promise<void> {
  const signature = await freezeVault(await options.chain(), options.program(), namedNullifier(options))
  console.log(`frozen       in ${signature}:`)
  for (const line of FROZEN) console.log(`             ${line}`)
}

/** `--nullifier` names a request without a wallet. */
function namedNullifier(options: CommandOptions): Uint8Array {
  return options.optional('nullifier') !== undefined
    ? options.hex32('nullifier')
    : nullifierOfNote(noteOf(options, options.wallet()))
}

/** Any payer may close a request for a spent note and gets its bond. `--wallet` names the place of the kept history. */
export async function exitRefuse(options: CommandOptions): Promise<void> {
  const nullifier = options.hex32('nullifier')
  const chain = await options.chain()
  const { proofs } = await readHistory(options, chain)
  const signature = await refuseExit(chain, { program_id: options.program(), nullifier, proofs })
  console.log(`refused      in ${signature}: the bond is the payer's`)
}
