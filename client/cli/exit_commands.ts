/** `tacit exit` and `tacit watch-escapes`: leaves the vault without the venue, takes notes out of a frozen one, guards it. */

import { setTimeout as sleep } from 'node:timers/promises'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import type { ConfigAccount, EscapeClaim } from '../../protocol/vault/accounts'
import { type ChainAccess, nodesOf, payerKey } from '../chain/chain_access'
import { currentHistory } from '../chain/current_history'
import {
  challengeClaim,
  claimDueS,
  claimNote,
  closeExit,
  freezeVault,
  payClaim,
  payPayout,
  readClaim,
  readEarliestClaim,
  readOpenClaims,
  redirectClaim,
  refuseExit,
  requestExit,
} from '../chain/exit_note'
import {
  accountExists,
  createAssociatedAccount,
  ownAccount,
  readExitRequest,
  readMintRecord,
  readTokenAccount,
  readVaultState,
  TOKEN_ACCOUNT_BYTES,
} from '../chain/read_vault'
import { NotSent, requireLamports, sendInstructions, TransactionFailed } from '../chain/send_instructions'
import type { VaultProofs } from '../exit/prepare_exit'
import { SEND_DISAGREE_POLLS, SEND_POLL_MS, WATCH_POLL_S, WATCH_WAIT_MAX_S } from '../limits'
import { Refused, reasonOf } from '../verify/transcript'
import { absorbFrozen, markSpent, nullifierOfNote } from '../wallet/absorb'
import type { VaultExit } from '../wallet/vault_history'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import type { Call, Verb } from './call'
import { timeOf } from './command'
import { judge } from './failures'
import { ARCHIVED, described, GAPS, readHistory, recovered, reporting } from './wallet_commands'

/**
 * The token account that an exit pays: `--destination`, or the payer's own, created when absent.
 * @throws Refused for a destination that the vault cannot pay: the tokens would return as another note
 */
async function payoutAccount(chain: ChainAccess, call: Call, mint: string): Promise<Uint8Array> {
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
  // In a dry run the account to be paid need not exist yet.
  if (!call.flag('dry-run') && !(await accountExists(chain, bytes))) {
    await requireLamports(chain, [TOKEN_ACCOUNT_BYTES])
    const owner = payerKey(chain)
    const create = createAssociatedAccount(chain, owner, decodeBase58(mint, 32)!, token_program)
    await sendInstructions(chain, [create], 'confirmed')
  }
  return bytes
}

function noteOf(call: Call, wallet: Wallet): WalletNote {
  const note = wallet.note(toHex(call.hex32('note')))
  if (note === undefined)
    throw new Refused("the wallet has no such note: 'notes' lists its notes, 'sync' finds missing ones")
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
function claimStage(claim: EscapeClaim, config: ConfigAccount): string {
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
function rehearsable(run: (call: Call) => Promise<void>): (call: Call) => Promise<void> {
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
    says: 'pays an entry of the payout queue; any payer may',
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

/**
 * Takes each note, or the one that `--note` names, a step further: claims it, or pays its claim once it is due. The wallet is
 * recovered from its seed first, because in a frozen vault the chain alone says which notes there are.
 */
async function exitClaim(call: Call): Promise<void> {
  const [wallet, chain, program_id] = [call.walletToChange(), await call.chain(), call.program()]
  const { wallet: found, proofs } = await recovered(call, wallet.seed, chain)
  const { config, slot } = await readVaultState(chain, program_id, 'confirmed')
  if (!config.frozen) throw new Refused("the vault is not frozen: leave by 'exit request'")
  // Before the freeze is final a batch that the history lacks may have spent a note, which would cost the claim's bond.
  if (!proofs.vault.config.frozen) throw new Refused('the freeze is not final yet: ask again in some seconds')
  absorbFrozen(wallet, found, proofs.history)
  call.keep(wallet)
  const named = call.optional('note') === undefined ? wallet.state.notes : [noteOf(call, wallet)]
  const block_s = await chain.rpc
    .getBlockTime(BigInt(slot))
    .send()
    .catch(() => null)
  const now_s = Number(block_s ?? Date.now() / 1_000)
  const isDue = (claim: EscapeClaim) => claim.state === 'open' && claimDueS(config, claim) <= now_s
  /** The next step of a note; undefined where there is none. */
  const next = async (note: WalletNote): Promise<string | undefined> => {
    const nullifier = nullifierOfNote(note)
    let claim = await readEarliestClaim(chain, program_id, nullifier)
    if (claim === undefined) {
      if (note.state === 'spent') return undefined
      try {
        const destination = await payoutAccount(chain, call, note.mint)
        await claimNote(chain, wallet, note, { program_id, destination, proofs })
        claim = await readClaim(chain, program_id, nullifier)
      } catch (error) {
        // A node may hide the claim, which then is there already.
        claim = (await readOpenClaims(chain, program_id, nullifier)).find(isDue)
        if (claim === undefined) throw error
      }
    }
    if (claim !== undefined && isDue(claim)) {
      await payClaim(chain, program_id, claim, call.flag('accept-less') ? { wallet, note } : undefined)
      claim = await readClaim(chain, program_id, nullifier)
    }
    if (claim === undefined) throw new TransactionFailed(`${chain.rpc_url} does not show the claim`)
    return claimStage(claim, config)
  }
  let failed = 0
  const stages: { note: string; amount: string; mint: string; stage: string }[] = []
  for (const note of named) {
    const stage = await next(note).catch((error: unknown) => {
      if (!(error instanceof TransactionFailed)) throw error
      failed += 1
      return error.message
    })
    const { commitment, amount, mint } = note
    if (stage !== undefined) stages.push({ note: commitment, amount, mint, stage })
  }
  call.list('notes', stages, (one) => `${one.note}  ${one.amount} of ${one.mint}: ${one.stage}`)
  if (failed > 0) throw new TransactionFailed(`${failed} notes did not get further: see above`)
}

/** `--destination` replaces the account that an open claim is paid to. */
async function exitRedirect(call: Call): Promise<void> {
  const [wallet, chain, program_id] = [call.wallet(), await call.chain(), call.program()]
  const note = noteOf(call, wallet)
  const [claim] = await readOpenClaims(chain, program_id, nullifierOfNote(note))
  if (claim === undefined) throw new Refused("the note has no open claim: 'exit status' shows its stage")
  const destination = await payoutAccount(chain, call, note.mint)
  const signature = await redirectClaim(chain, wallet, note, { program_id, claim, destination })
  call.say('redirected', signature, `in ${signature}`)
}

/** Any payer may cancel a claim for a spent note and gets its bond. */
async function exitChallenge(call: Call): Promise<void> {
  const [nullifier, program_id] = [call.hex32('nullifier'), call.program()]
  const chain = await call.chain()
  const { proofs } = await readHistory(call, chain)
  const [claim] = await readOpenClaims(chain, program_id, nullifier)
  if (claim === undefined)
    throw new TransactionFailed(`there is no open claim for nullifier ${toHex(nullifier)}`)
  const signature = await challengeClaim(chain, { program_id, claim, proofs })
  call.say('cancelled', signature, `in ${signature}: the bond is the payer's`)
}

/** Neither a node that fails nor one that lies ends the guard. */
async function watchEscapes(call: Call): Promise<void> {
  const [program_id, archive] = [call.program(), call.optional('archive')]
  const every_s = Math.max(1, call.count('every', WATCH_POLL_S, 5))
  const chain = await call.chain()
  let proofs: VaultProofs | undefined
  const look = async (): Promise<void> => {
    const shown = await Promise.all(nodesOf(chain).map((node) => readVaultState(node, program_id)))
    if (!shown.some(({ config }) => config.frozen))
      return console.log('the vault is not frozen: there are no claims')
    const batches = Math.max(...shown.map(({ config }) => config.last_batch))
    if (proofs === undefined || proofs.history.nullifier_batches.length < batches) {
      const from = archive === undefined ? {} : { archive }
      const current = await currentHistory(chain, program_id, from, reporting())
      for (const line of described(current)) console.log(`history      ${line}`)
      proofs = current.proofs
    }
    await challengeFalse(chain, program_id, proofs)
  }
  if (call.flag('once')) return look()
  for (let wait_s = every_s; ; ) {
    try {
      await look()
      wait_s = every_s
    } catch (error) {
      console.error(judge(error as Error)?.message ?? reasonOf(error))
      wait_s = Math.max(every_s, Math.min(2 * wait_s, WATCH_WAIT_MAX_S))
    }
    await sleep(wait_s * 1_000)
  }
}

/**
 * A refund note of the frozen vault is in no batch, with any nullifier.
 * @throws TransactionFailed where a false claim stays open
 */
async function challengeFalse(chain: ChainAccess, program_id: string, proofs: VaultProofs): Promise<void> {
  const open = (await readOpenClaims(chain, program_id)).filter(({ rank }) => rank !== 'refund')
  const claims = open.filter(({ nullifier }) => proofs.history.spent.has(toHex(nullifier)))
  console.log(`claims       ${open.length} open, ${claims.length} false`)
  let left = 0
  for (const claim of claims) {
    const name = toHex(claim.nullifier)
    try {
      const signature = await challengeClaim(chain, { program_id, claim, proofs })
      console.log(`  ${name}: ${claim.amount} units, cancelled in ${signature}`)
    } catch (error) {
      if (!(error instanceof TransactionFailed)) throw error
      const isOpen = async () => (await readOpenClaims(chain, program_id, claim.nullifier)).length > 0
      let stays = await isOpen()
      // The refusal comes from a slot that is not confirmed yet; the nodes are asked, because one may lie about it.
      for (
        let polls = 0;
        stays && error.facts.refusal === 'claim_closed' && polls < SEND_DISAGREE_POLLS;
        polls++
      ) {
        await sleep(SEND_POLL_MS)
        stays = await isOpen()
      }
      if (stays) left += 1
      console.error(`  ${name}: ${stays ? error.message : 'another challenger was first'}`)
    }
  }
  if (left > 0) throw new TransactionFailed(`${left} false claims are not cancelled: see above`)
}

/** Of a frozen vault. */
export const CLAIM_VERBS: Readonly<Record<string, Verb>> = {
  'exit claim': {
    form: `[--note COMMITMENT] [--destination ACCOUNT] [--accept-less] [--dry-run] ${ARCHIVED} ${GAPS}`,
    reads: ['chain', 'wallet', 'payer'],
    says: 'claims unspent notes of a frozen vault; run again, it collects payments that are due',
    example: 'tacit exit claim --wallet wallet.json --payer payer.hex',
    run: rehearsable(exitClaim),
  },
  'exit redirect': {
    form: '--note COMMITMENT --destination ACCOUNT [--dry-run]',
    reads: ['chain', 'wallet', 'payer'],
    says: 'names another token account for an open claim',
    example:
      'tacit exit redirect --wallet wallet.json --payer payer.hex --note COMMITMENT --destination ACCOUNT',
    run: rehearsable(exitRedirect),
  },
  'exit challenge': {
    form: `--nullifier NULLIFIER [--dry-run] ${ARCHIVED}`,
    reads: ['chain', 'wallet', 'payer'],
    says: "cancels a claim for a note that a batch spent; its bond is the payer's",
    example: 'tacit exit challenge --wallet wallet.json --payer payer.hex --nullifier NULLIFIER',
    run: rehearsable(exitChallenge),
  },
  'watch-escapes': {
    form: `${ARCHIVED} [--every SECONDS] [--once]`,
    reads: ['chain', 'payer'],
    says: `challenges each claim of a frozen vault whose note a batch spent; the payer gets the bond, 0.05 SOL. Runs until it is
  stopped, whatever fails meanwhile, or with --once looks once, and fails where a false claim stays`,
    example: 'tacit watch-escapes --payer payer.hex --once',
    run: watchEscapes,
  },
}
