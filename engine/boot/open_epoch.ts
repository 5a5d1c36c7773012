/** Checks that chain and journal agree, then takes the next epoch. */

import { randomBytes } from 'node:crypto'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { type Journal, JournalDamaged } from '../journal/contract'
import type { State } from '../machine/state/state'
import { type ChainPort, EpochTaken, type VaultConfig } from '../ports'
import type { StopReason } from '../sequencer/availability'
import type { Sequencer } from '../sequencer/sequencer'

// Whether the chain and this journal tell one story (settlement.md "Rollback and fork protection").

export type ChainFault = Exclude<StopReason, 'journal_failed' | 'restore_incomplete'>

/** Why this journal must not trade on this chain; undefined when it may. */
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
  return (await standsIn(journal, config.journal_seq, config.journal_head)) ? undefined : 'forked'
}

/** Whether the journal had exactly this head after record `seq`. */
async function standsIn(journal: Journal, seq: number, head: Uint8Array): Promise<boolean> {
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

// Takes the next epoch: journals the intention with its signed bytes, sends it, and serves only once it is finalized.

type Ports = { chain: ChainPort; journal: Journal; sequencer: Sequencer }
type Opened = { epoch: number; config: VaultConfig }

/**
 * Resolves with the epoch that is now open, or with the reason why this journal must not trade on this chain.
 * An instance that was killed may have sent its epoch, and it may land while this one takes the next: then the chain is
 * read again once that is final, and decides with the journal whose it was.
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

/**
 * Resolves with the epoch that is now open, or undefined when another instance holds the chain's epoch.
 * @throws EpochTaken, and whatever else the chain refuses it with
 */
export async function openEpoch(
  config: VaultConfig,
  compose_hash_hex: string,
  ports: Ports,
  /** `config.generation` is the raised one then. */
  restore = false,
): Promise<Opened | undefined> {
  const { chain, journal, sequencer } = ports
  const epoch = config.epoch + 1
  const boot_nonce = new Uint8Array(randomBytes(16))
  const compose_hash = fromHex(compose_hash_hex, 32)!
  const { generation } = config
  const opened = await chain.openEpoch(
    { epoch, boot_nonce, compose_hash, ...journal.head(), restore },
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
  await sequencer.submit({ kind: 'epoch_opened', epoch, ...opened })
  await journal.fence(epoch)
  return { epoch, config: now }
}
