/** `tacit exit claim|redirect|challenge` and `tacit watch-escapes`: takes notes out of a frozen vault, and guards it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { toHex } from '../../protocol/bytes'
import type { EscapeClaim } from '../../protocol/vault/accounts'
import { type ChainAccess, nodesOf } from '../chain/chain_access'
import {
  challengeClaim,
  claimDueS,
  claimNote,
  payClaim,
  readClaim,
  readEarliestClaim,
  readOpenClaims,
  redirectClaim,
} from '../chain/claims'
import { currentHistory } from '../chain/current_history'
import { readVaultState } from '../chain/read_vault'
import { TransactionFailed } from '../chain/send_instructions'
import { nullifierOfNote } from '../exit/prepare_exit'
import type { VaultProofs } from '../exit/vault_proofs'
import { SEND_DISAGREE_POLLS, SEND_POLL_MS, WATCH_POLL_S, WATCH_WAIT_MAX_S } from '../limits'
import { Refused, reasonOf } from '../verify/transcript'
import { absorbFrozen } from '../wallet/absorb_recovered'
import type { WalletNote } from '../wallet/wallet'
import type { Call, Verb } from './call'
import { claimStage, noteOf, payoutAccount, rehearsable } from './exit_commands'
import { judge } from './failures'
import { ARCHIVED, described, GAPS, readHistory, recovered, reporting } from './recover_notes'

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
      console.log(`history      ${described(current)}`)
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
    says: 'claims unspent notes of a frozen vault; run again, it collects what is due',
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
