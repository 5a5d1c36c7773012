/** Runs `wallet exit claim|redirect|challenge` and `tacit watch-escapes`: takes notes out of a frozen vault, and guards it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import type { EscapeClaim } from '../../protocol/vault/accounts'
import { type ChainAccess, nodesOf, openChainAccess } from '../chain/chain_access'
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
import { WATCH_POLL_S, WATCH_WAIT_MAX_S } from '../limits'
import { Refused, reasonOf } from '../verify/transcript'
import { absorbFrozen } from '../wallet/absorb_recovered'
import { hashFast } from '../wallet/hash_fast'
import type { WalletNote } from '../wallet/wallet'
import { saveWallet } from '../wallet/wallet_file'
import { judgeChain } from './chain_failures'
import { Options } from './command'
import { claimStage, noteOf, payoutAccount } from './exit_commands'
import { type CommandOptions, rpcOf } from './options'
import { described, readHistory, recovered, reporting } from './recover_notes'

/**
 * Takes each note, or the one that `--note` names, a step further: claims it, or pays its claim once it is due. The wallet is
 * recovered from its seed first, because in a frozen vault the chain alone says which notes there are.
 */
export async function exitClaim(options: CommandOptions): Promise<void> {
  const [wallet, chain, program_id] = [options.walletToChange(), await options.chain(), options.program()]
  const { wallet: found, proofs } = await recovered(options, wallet.seed, chain)
  const { config, slot } = await readVaultState(chain, program_id, 'confirmed')
  if (!config.frozen) throw new Refused("the vault is not frozen: leave by 'exit request'")
  // Before the freeze is final a batch that the history lacks may have spent a note, which would cost the claim's bond.
  if (!proofs.vault.config.frozen) throw new Refused('the freeze is not final yet: ask again in some seconds')
  absorbFrozen(wallet, found, proofs.history)
  saveWallet(options.text('wallet'), wallet)
  const named = options.optional('note') === undefined ? wallet.state.notes : [noteOf(options, wallet)]
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
        const destination = await payoutAccount(chain, options, note.mint)
        await claimNote(chain, wallet, note, { program_id, destination, proofs })
        claim = await readClaim(chain, program_id, nullifier)
      } catch (error) {
        // A node may hide the claim, which then is there already.
        claim = (await readOpenClaims(chain, program_id, nullifier)).find(isDue)
        if (claim === undefined) throw error
      }
    }
    if (claim !== undefined && isDue(claim)) {
      await payClaim(chain, program_id, claim, options.flag('accept-less') ? { wallet, note } : undefined)
      claim = await readClaim(chain, program_id, nullifier)
    }
    if (claim === undefined) throw new TransactionFailed(`${chain.rpc_url} does not show the claim`)
    return claimStage(claim, config)
  }
  let failed = 0
  for (const note of named) {
    const stage = await next(note).catch((error: unknown) => {
      if (!(error instanceof TransactionFailed)) throw error
      failed += 1
      return error.message
    })
    if (stage !== undefined) console.log(`${note.commitment}  ${note.amount} of ${note.mint}: ${stage}`)
  }
  if (failed > 0) throw new TransactionFailed(`${failed} notes did not get further: see above`)
}

/** `--destination` replaces the account that an open claim is paid to. */
export async function exitRedirect(options: CommandOptions): Promise<void> {
  const [wallet, chain, program_id] = [options.wallet(), await options.chain(), options.program()]
  const note = noteOf(options, wallet)
  const [claim] = await readOpenClaims(chain, program_id, nullifierOfNote(note))
  if (claim === undefined) throw new Refused("the note has no open claim: 'exit status' tells its stage")
  const destination = await payoutAccount(chain, options, note.mint)
  const signature = await redirectClaim(chain, wallet, note, { program_id, claim, destination })
  console.log(`redirected   in ${signature}`)
}

/** Any payer may cancel a claim for a spent note and gets its bond. */
export async function exitChallenge(options: CommandOptions): Promise<void> {
  const [nullifier, program_id] = [options.hex32('nullifier'), options.program()]
  const chain = await options.chain()
  const { proofs } = await readHistory(options, chain)
  const [claim] = await readOpenClaims(chain, program_id, nullifier)
  if (claim === undefined)
    throw new TransactionFailed(`there is no open claim for nullifier ${toHex(nullifier)}`)
  const signature = await challengeClaim(chain, { program_id, claim, proofs })
  console.log(`cancelled    in ${signature}: the bond is the payer's`)
}

export const WATCH_USAGE = `       tacit watch-escapes --rpc URL[,URL] --program ADDRESS --payer FILE [--archive FOLDER|URL] [--every SECONDS] [--once]
         challenges each claim of a frozen vault whose note a batch spent; the payer gets the bond, 0.05 SOL. Runs until it is
         stopped, whatever fails meanwhile, or with --once looks once, and fails where a false claim stays`

export async function runWatchEscapes(args: string[]): Promise<void> {
  const texts = ['rpc', 'program', 'payer', 'archive', 'every'] as const
  const options = new Options(args, { texts, flags: ['once'] })
  const [program_id, archive] = [encodeBase58(options.address('program')), options.optional('archive')]
  const every_s = Math.max(1, options.count('every', WATCH_POLL_S, 5))
  const chain = await openChainAccess(rpcOf(options.text('rpc')), options.seed('payer'))
  await hashFast()
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
  if (options.flag('once')) return look()
  for (let wait_s = every_s; ; ) {
    try {
      await look()
      wait_s = every_s
    } catch (error) {
      // Neither a node that fails nor one that lies ends the guard.
      console.error(judgeChain(error as Error, 'the node')?.message ?? reasonOf(error))
      wait_s = Math.max(every_s, Math.min(2 * wait_s, WATCH_WAIT_MAX_S))
    }
    await sleep(wait_s * 1_000)
  }
}

/**
 * A refund note of the frozen vault is in no batch, whatever its nullifier.
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
      const stays = (await readOpenClaims(chain, program_id, claim.nullifier)).length > 0
      if (stays) left += 1
      console.error(`  ${name}: ${stays ? error.message : 'another challenger was first'}`)
    }
  }
  if (left > 0) throw new TransactionFailed(`${left} false claims are not cancelled: see above`)
}
