/** `tacit exit request|status|pay|close|freeze|refuse`: leaves the vault without the venue. */
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import type { ConfigAccount, EscapeClaim } from '../../protocol/vault/accounts'
import { type ChainAccess, payerKey } from '../chain/chain_access'
import { claimDueS, readClaim } from '../chain/claims'
import { closeExit, freezeVault, payPayout, refuseExit, requestExit } from '../chain/exit_note'
import { readExitRequest, readMintRecord, readVaultState } from '../chain/read_vault'
import { NotSent, requireLamports, sendInstructions } from '../chain/send_instructions'
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
import type { Call, Verb } from './call'
import { timeOf } from './command'
import { ARCHIVED, readHistory } from './recover_notes'

/**
 * The token account that an exit pays: `--destination`, or the payer's own, created when absent.
 * @throws Refused for a destination that the vault cannot pay: the tokens would return as another note
 */
export async function payoutAccount(chain: ChainAccess, call: Call, mint: string): Promise<Uint8Array> {
  const { token_program } = await readMintRecord(chain, call.program(), mint)
  if (call.optional('destination') !== undefined) {
    const named = call.address('destination')
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
  // What a dry run pays to need not be there yet.
  if (!call.flag('dry-run') && !(await accountExists(chain, bytes))) {
    await requireLamports(chain, [TOKEN_ACCOUNT_BYTES])
    const owner = payerKey(chain)
    const create = createAssociatedAccount(chain, owner, decodeBase58(mint, 32)!, token_program)
    await sendInstructions(chain, [create], 'confirmed')
  }
  return bytes
}

export function noteOf(call: Call, wallet: Wallet): WalletNote {
  const note = wallet.note(toHex(call.hex32('note')))
  if (note === undefined)
    throw new Refused("the wallet has no such note: 'notes' lists what it has, 'sync' finds what it lacks")
  return note
}

async function exitRequest(call: Call): Promise<void> {
  const [wallet, chain, program_id] = [call.walletToChange(), await call.chain(), call.program()]
  const note = noteOf(call, wallet)
  const keep = (): void => call.keep(wallet)
  const { proofs } = await readHistory(call, chain)
  markSpent(wallet, proofs.history)
  const destination = await payoutAccount(chain, call, note.mint)
  const terms = { program_id, destination, proofs, keep }
  const signature = await requestExit(chain, wallet, note, terms).finally(keep)
  const open = await readExitRequest(chain, program_id, nullifierOfNote(note))
  const to = encodeBase58(destination)
  const asked = { amount: note.amount, mint: note.mint, destination: to, signature }
  call.say('requested', asked, `${note.amount} of ${note.mint} to ${to} in ${signature}`)
  call.say('nullifier', toHex(nullifierOfNote(note)))
  if (open === undefined) return
  const deadline = timeOf(open.deadline_s)
  call.say('deadline', deadline, `${deadline}: unserved by then, anyone may freeze the vault`)
}

/** The vault with its queue, whose payouts anyone may pay, then every note that is unspent or has an exit. */
async function exitStatus(call: Call): Promise<void> {
  const [wallet, program_id, chain] = [call.walletToChange(), call.program(), call.reader()]
  const { history } = (await readHistory(call, chain)).proofs
  if (markSpent(wallet, history).length > 0) saveWallet(call.text('wallet'), wallet)
  const { config, queue } = await readVaultState(chain, program_id, 'confirmed')
  call.say('vault', config.frozen ? `frozen since ${timeOf(config.frozen_at_s)}` : 'not frozen')
  if (config.frozen) for (const line of FROZEN) call.hint(`             ${line}`)
  const { length } = queue.entries
  call.say('queue', { length, capacity: queue.capacity }, `${length} payouts wait, ${queue.capacity} places`)
  const payouts = queue.entries.map(({ number, amount, mint, destination }) => {
    return { number, amount, mint: encodeBase58(mint), destination: encodeBase58(destination) }
  })
  call.list(
    'payouts',
    payouts,
    (one) => `  ${one.number}: ${one.amount} of ${one.mint} to ${one.destination}`,
  )
  const shown: { note: string; amount: string; mint: string; stage: string; claim?: string }[] = []
  for (const note of wallet.state.notes) {
    const nullifier = nullifierOfNote(note)
    const exit = history.exits.get(toHex(nullifier))
    if (note.state === 'spent' && exit === undefined) continue
    const claim = config.frozen ? await readClaim(chain, program_id, nullifier) : undefined
    const request = await readExitRequest(chain, program_id, nullifier)
    const stage = stageOf(exit, request?.deadline_s, queue.entries)
    const ended = request !== undefined && (request.served || config.frozen)
    const rest = ended ? "; 'exit close' returns the bond" : ''
    const { commitment, amount, mint } = note
    const claimed = claim === undefined ? {} : { claim: claimStage(claim, config) }
    shown.push({ note: commitment, amount, mint, stage: `${stage}${rest}`, ...claimed })
  }
  call.list('notes', shown, ({ note, amount, mint, stage, claim }) => {
    const line = `${note}  ${amount} of ${mint}: ${stage}`
    return claim === undefined ? line : [`${note}  ${claim}`, line]
  })
  if (shown.length === 0) call.hint('no unspent note and no exit')
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
async function exitPay(call: Call): Promise<void> {
  const chain = await call.chain()
  const number = call.optional('number') !== undefined ? call.count('number', 0) : await payoutOf(call, chain)
  const of = { program_id: call.program(), number, refund: call.flag('refund') }
  const signature = await payPayout(chain, of)
  const text = `payout ${number} in ${signature}: 'exit status' shows whether it was paid`
  call.say('closed', { payout: number, signature }, text)
}

async function payoutOf(call: Call, chain: ChainAccess): Promise<number> {
  const note = noteOf(call, call.wallet())
  const { history } = (await readHistory(call, chain)).proofs
  const payout = history.exits.get(toHex(nullifierOfNote(note)))?.payout
  if (payout === undefined)
    throw new Refused("no batch has served this note yet: 'exit status' shows its stage")
  return payout
}

/** Any payer may; rent and bond return to the key that paid them. */
async function exitClose(call: Call): Promise<void> {
  const signature = await closeExit(await call.chain(), call.program(), namedNullifier(call))
  call.say('closed', signature, `in ${signature}: rent and bond are back`)
}

/** Any payer may freeze. */
async function exitFreeze(call: Call): Promise<void> {
  const signature = await freezeVault(await call.chain(), call.program(), namedNullifier(call))
  call.say('frozen', signature, `in ${signature}:`)
  for (const line of FROZEN) call.hint(`             ${line}`)
}

/** `--nullifier` names a request without a wallet. */
function namedNullifier(call: Call): Uint8Array {
  return call.optional('nullifier') !== undefined
    ? call.hex32('nullifier')
    : nullifierOfNote(noteOf(call, call.wallet()))
}

/** Any payer may close a request for a spent note and gets its bond. `--wallet` names the place of the kept history. */
async function exitRefuse(call: Call): Promise<void> {
  const nullifier = call.hex32('nullifier')
  const chain = await call.chain()
  const { proofs } = await readHistory(call, chain)
  const signature = await refuseExit(chain, { program_id: call.program(), nullifier, proofs })
  call.say('refused', signature, `in ${signature}: the bond is the payer's`)
}

/** With `--dry-run` a verb that sends one transaction has it simulated. */
export function rehearsable(run: (call: Call) => Promise<void>): (call: Call) => Promise<void> {
  return (call) =>
    run(call).catch((error: unknown) => {
      if (!(error instanceof NotSent)) throw error
      const { payer, lamports } = error.facts
      call.say(
        'takes',
        { payer, lamports },
        `up to ${lamports} lamports of ${payer}: fee, rent, and bond where there is one`,
      )
      call.say('simulated', true, 'the vault accepts it; nothing was sent')
    })
}

export const EXIT_VERBS: Readonly<Record<string, Verb>> = {
  'exit request': {
    form: `--note COMMITMENT [--destination ACCOUNT] [--dry-run] ${ARCHIVED}`,
    reads: ['chain', 'wallet', 'payer'],
    says: "opens a note in public and demands its payout; without --destination the payer's own token account receives it",
    example: 'tacit exit request --wallet wallet.json --payer payer.hex --note COMMITMENT',
    run: rehearsable(exitRequest),
  },
  'exit status': {
    form: ARCHIVED,
    reads: ['chain', 'wallet'],
    says: 'shows vault, payout queue, and how far each exit came, from the chain alone',
    example: 'tacit exit status --wallet wallet.json',
    run: exitStatus,
  },
  'exit pay': {
    form: `(--note COMMITMENT | --number PAYOUT) [--refund] [--dry-run] ${ARCHIVED}`,
    reads: ['chain', 'wallet', 'payer'],
    says: 'pays what waits in the queue; any payer may',
    example: 'tacit exit pay --payer payer.hex --number 1',
    run: rehearsable(exitPay),
  },
  'exit close': {
    form: '(--note COMMITMENT | --nullifier NULLIFIER) [--dry-run]',
    reads: ['chain', 'wallet', 'payer'],
    says: 'closes a request that is served or ended: rent and bond return',
    example: 'tacit exit close --wallet wallet.json --payer payer.hex --note COMMITMENT',
    run: rehearsable(exitClose),
  },
  'exit freeze': {
    form: '(--note COMMITMENT | --nullifier NULLIFIER) [--dry-run]',
    reads: ['chain', 'wallet', 'payer'],
    says: 'freezes a vault that missed the deadline of a request; any payer may',
    example: 'tacit exit freeze --payer payer.hex --nullifier NULLIFIER',
    run: rehearsable(exitFreeze),
  },
  'exit refuse': {
    form: `--nullifier NULLIFIER [--dry-run] ${ARCHIVED}`,
    reads: ['chain', 'wallet', 'payer'],
    says: "closes a request for a note that a batch spent; its bond is the payer's",
    example: 'tacit exit refuse --wallet wallet.json --payer payer.hex --nullifier NULLIFIER',
    run: rehearsable(exitRefuse),
  },
}
