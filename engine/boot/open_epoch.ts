/** Checks that chain and journal agree (settlement.md "Rollback and fork protection") and opens the next epoch. */

import { randomBytes } from 'node:crypto'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { EMPTY_SPENT_SUBTREES } from '../../protocol/notes/spent_log'
import type { SlotNumber } from '../../protocol/units'
import type { CommandBody } from '../commands'
import { type Journal, JournalDamaged } from '../journal/contract'
import type { State } from '../machine/state/state'
import { type ChainPort, EpochTaken, type HashPort, type VaultConfig } from '../ports'
import type { StopReason } from '../sequencer/availability'
import type { Sequencer } from '../sequencer/sequencer'

/** Why this journal must not trade on this chain. */
export type ChainFault = Exclude<
  StopReason,
  'journal_failed' | 'exits_disproved' | 'restore_incomplete' | 'self_check'
>

/** Undefined when this journal may trade on this chain. */
export async function checkChain(
  config: VaultConfig,
  state: State,
  journal: Journal,
): Promise<ChainFault | undefined> {
  const finalized = state.epochs.filter((epoch) => epoch.slot > 0)
  const newest = Math.max(0, ...finalized.map((epoch) => epoch.epoch))
  if (config.epoch < newest || config.last_batch < (state.settlement.landed?.batch_id ?? 0)) {
    return 'chain_unknown'
  }
  if (config.journal_seq > journal.head().seq || config.last_batch > state.settlement.last_hashed) {
    return 'rolled_back'
  }
  if (config.epoch > 0 && !state.epochs.some((one) => equalBytes(one.boot_nonce, config.boot_nonce))) {
    // An empty journal against a used vault is a lost disk, not a second instance.
    return state.epochs.length === 0 ? 'rolled_back' : 'forked'
  }
  return (await wasHead(journal, config.journal_seq, config.journal_head)) ? undefined : 'forked'
}

/**
 * The decision of a batch that an earlier run closed. `config` is finalized and of the epoch of this run, which fences the
 * earlier one: its commit is stored by now or never will be.
 */
export async function decideClosed(
  config: VaultConfig,
  slot: SlotNumber,
  { closed }: State,
  journal: Journal,
): Promise<CommandBody | ChainFault | undefined> {
  if (closed === undefined) return undefined
  const { commit_seq, commit_head, epoch } = config
  if (commit_seq > closed.seq) return 'rolled_back'
  const { seq } = closed
  if (commit_seq < seq) return { kind: 'decided', seq, outcome: 'void', slot, epoch, commit_seq }
  if (!(await wasHead(journal, seq, commit_head))) return 'forked'
  return { kind: 'decided', seq, outcome: 'committed', slot, epoch, commit_seq }
}

/** Whether the journal had exactly this head after record `seq`. */
async function wasHead(journal: Journal, seq: number, head: Uint8Array): Promise<boolean> {
  if (seq === 0) return true
  const own = journal.head()
  if (seq === own.seq) return equalBytes(head, own.head)
  try {
    for await (const _ of journal.readBatches(seq + 1, head)) break
    return true
  } catch (error) {
    if (error instanceof JournalDamaged) return false
    throw error
  }
}

type Ports = { chain: ChainPort; hash: HashPort; journal: Journal; sequencer: Sequencer }
type Opened = { epoch: number; config: VaultConfig; landing: { slot: SlotNumber; signature: Uint8Array } }

/**
 * Resolves with the epoch that is now open, or with the reason why this journal must not trade on this chain.
 * A killed instance may have sent an epoch that lands while this one opens the next. In this case the chain is read again
 * until that epoch is final, and `checkChain` decides whether it belongs to this journal.
 */
export async function takeEpoch(
  config: VaultConfig,
  compose_hash: string,
  ports: Ports,
  state: State,
): Promise<Opened | ChainFault> {
  const { chain, journal } = ports
  for (let known = config; ; ) {
    try {
      return (await openEpoch(known, compose_hash, ports)) ?? 'forked'
    } catch (error) {
      if (!(error instanceof EpochTaken)) throw error
    }
    await Bun.sleep(chain.view().slot_ms)
    known = await chain.readConfig()
    const reason = await checkChain(known, state, journal)
    if (reason !== undefined) return reason
  }
}

async function spentRootOf(hash: HashPort, batches: number): Promise<Uint8Array | undefined> {
  if (batches > hash.spent().batch_count) return undefined
  return batches === 0 ? EMPTY_SPENT_SUBTREES.at(-1) : (await hash.spentPath(batches, batches)).root
}

/**
 * Journals the intention with its signed bytes before they are sent. Resolves once finalized with the epoch that is now
 * open, which the caller journals, or with undefined when another instance holds the chain's epoch.
 * @throws EpochTaken, or another error of the chain port
 */
export async function openEpoch(
  config: VaultConfig,
  compose_hash_hex: string,
  ports: Ports,
  /** If true, `config.generation` is the incremented one. */
  restore = false,
): Promise<Opened | undefined> {
  const { chain, hash, journal, sequencer } = ports
  const epoch = config.epoch + 1
  const boot_nonce = new Uint8Array(randomBytes(16))
  const compose_hash = fromHex(compose_hash_hex, 32)!
  const { generation } = config
  const landing = await chain.openEpoch(
    {
      epoch,
      boot_nonce,
      compose_hash,
      ...journal.head(),
      restore,
      spentRoot: (batches) => spentRootOf(hash, batches),
    },
    async (signature, transaction) => {
      await sequencer.submit({
        kind: 'epoch_intended',
        epoch,
        boot_nonce,
        generation,
        signature,
        transaction,
      })
    },
  )
  const now = await chain.readConfig()
  if (now.epoch !== epoch || !equalBytes(now.boot_nonce, boot_nonce)) return undefined
  await journal.fence(epoch)
  return { epoch, config: now, landing }
}
