/** Judges a journal by the chain: position, author of the tail, state (settlement.md "Nothing is believed because it decrypts"). */

import { RECEIPT_BODY, STATEMENT_BODY, venueId } from '../../protocol/bodies/statements'
import { equalBytes, toHex } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import type { ChainPoint, SlotNumber } from '../../protocol/units'
import type { CommandBody } from '../commands'
import type { EngineConfig } from '../config'
import {
  type GroupAuthor,
  type Journal,
  JournalDamaged,
  type SignedGroup,
  type StoredGroup,
} from '../journal/contract'
import { LIMITS } from '../limits'
import { decodeCommand } from '../machine/codec/command_codec'
import type { State } from '../machine/state/state'
import type { ChainPort, VaultConfig } from '../ports'
import type { StopReason } from '../sequencer/availability'
import { COMMAND_RECORD, snapshotTaken } from '../sequencer/replayer'
import type { JournaledSnapshot } from '../snapshots/snapshotting'

/** Why this journal must not trade on this chain. */
export type ChainFault = Exclude<
  StopReason,
  'journal_failed' | 'exits_disproved' | 'restore_incomplete' | 'self_check'
>
const BEGINNING: ChainPoint = { seq: 0, head: new Uint8Array(32) }
type Deployment = Pick<ChainPort, 'genesis_hash' | 'program_id' | 'config_account'>

/** The venue's id in a generation. */
export const venueOf = (
  { genesis_hash, program_id, config_account }: Deployment,
  { generation }: Pick<VaultConfig, 'generation'>,
): Uint8Array => venueId({ genesis_hash, program_id, config_account, generation })

/** The place in the journal that the chain states. */
export const positionOf = ({ journal_seq: seq, journal_head: head }: VaultConfig): ChainPoint => ({
  seq,
  head,
})

/**
 * A node takes over while the openings and positions of the leader before are not final, so it reads the vault at confirmed, and
 * its own opening counts there: the chain port keeps it until it is final.
 */
export const levelOf = ({ cluster }: EngineConfig) => (cluster === undefined ? undefined : 'confirmed')

/**
 * Verifies the files before any of their content is used: the heads up to the position on chain, and that every later group
 * (except boot records, which change nothing) is signed by the instance whose epoch the chain shows. `released` means that this
 * instance released its lease at its end.
 * @throws JournalDamaged
 */
export async function judgeJournal(
  config: VaultConfig,
  deployment: Deployment,
  journal: Journal,
): Promise<{ fault: ChainFault | undefined; released: boolean }> {
  const verdict = await judgeTail(config, deployment, journal)
  if (verdict.fault !== undefined && (await isOfAnotherChain(config, deployment, journal)))
    return { fault: 'chain_unknown', released: false }
  return verdict
}

/**
 * Whether the journal is of a later generation than the chain shows, as another position and another key belong to the generation
 * before a restore, or of another chain, by what its first boots signed. Of one that lost its beginning neither is known.
 */
async function isOfAnotherChain(config: VaultConfig, of: Deployment, journal: Journal): Promise<boolean> {
  if (journal.firstSeq() > 1) return false
  let is_later = false
  for await (const groups of journal.readGroups(BEGINNING)) {
    for (const group of groups) {
      const boot = bootRecordOf(group)
      if (boot === undefined) return is_later
      const isSigned = groupCheck(venueOf(of, boot))
      if (!isSigned(group, boot.settlement_key)) return true
      is_later = boot.generation > config.generation
    }
  }
  return false
}

async function judgeTail(
  config: VaultConfig,
  deployment: Deployment,
  journal: Journal,
): Promise<{ fault: ChainFault | undefined; released: boolean }> {
  const position = positionOf(config)
  if (position.seq > journal.head().seq) return { fault: 'rolled_back', released: false }
  const isSigned = groupCheck(venueOf(deployment, config))
  /** By epoch, the settlement keys that boot records name; the chain states that of its epoch. */
  const intended = new Map<number, Uint8Array[]>()
  let released = false
  try {
    for await (const groups of journal.readGroups(position)) {
      for (const group of groups) {
        const { author } = group
        const boot = bootRecordOf(group)
        if (boot !== undefined) {
          intended.set(boot.epoch, [...(intended.get(boot.epoch) ?? []), boot.settlement_key])
          continue
        }
        // A later epoch that is in use was final once.
        const later = author.epoch > config.epoch ? intended.get(author.epoch) : undefined
        if (later?.some((key) => isSigned(group, key))) return { fault: 'chain_unknown', released: false }
        if (author.epoch !== config.epoch || !isSigned(group, config.settlement_signer))
          return { fault: 'tail_unsigned', released: false }
        released = lastCommand(group)?.kind === 'released'
      }
    }
  } catch (error) {
    if (error instanceof JournalDamaged && error.file === 'chain') return { fault: 'forked', released: false }
    // The position is older than every record that is kept, so the tail cannot be judged.
    if (error instanceof RangeError) return { fault: 'tail_unsigned', released: false }
    throw error
  }
  return { fault: undefined, released }
}

/** Whether a boot that the settlement key certified signed a group; verifies each certificate once. */
export function groupCheck(venue: Uint8Array) {
  const certified = new Map<string, boolean>()
  const isCertified = (
    { epoch, statement_key, certificate }: GroupAuthor,
    settlement_key: Uint8Array,
  ): boolean => {
    const name = `${epoch} ${toHex(statement_key)} ${toHex(certificate)} ${toHex(settlement_key)}`
    const body = STATEMENT_BODY.encode({ venue, statement_key, epoch: BigInt(epoch) })
    const holds = certified.get(name) ?? verifySignature(certificate, body, settlement_key)
    certified.set(name, holds)
    return holds
  }
  return ({ author, seq, head, root, signature }: SignedGroup, settlement_key: Uint8Array): boolean => {
    const body = RECEIPT_BODY.encode({ venue, epoch: BigInt(author.epoch), seq: BigInt(seq), head, root })
    return isCertified(author, settlement_key) && verifySignature(signature, body, author.statement_key)
  }
}

/** A vault that never had an epoch has nothing to restore. */
export function isRestoreAnnounced({ epoch, pending }: Pick<VaultConfig, 'epoch' | 'pending'>): boolean {
  return epoch > 0 && pending.some(({ action }) => action === 'authorize_restore')
}

/** How long an announced action can be used once it is effective (`program/src/config.rs`). */
const USABLE_S = 30 * 86_400

/** @param unix_ms the chain's time */
export function isRestoreEffective({ epoch, pending }: VaultConfig, unix_ms: number): boolean {
  const isUsable = (from_s: number) => unix_ms >= 1_000 * from_s && unix_ms <= 1_000 * (from_s + USABLE_S)
  return isRestoreAnnounced({
    epoch,
    pending: pending.filter(({ effective_unix_s }) => isUsable(effective_unix_s)),
  })
}

/** Whether a journal contains only boot records: no epoch was open in it. */
export async function isUnused(journal: Journal): Promise<boolean> {
  if (journal.firstSeq() > 1) return false
  for await (const groups of journal.readGroups(BEGINNING)) {
    if (groups.some((group) => bootRecordOf(group) === undefined)) return false
  }
  return true
}

/** A boot record is a group by itself. */
export function bootRecordOf(group: StoredGroup) {
  const command = group.records.length === 1 ? lastCommand(group) : undefined
  return command?.kind === 'epoch_intended' ? command : undefined
}

function lastCommand({ records }: StoredGroup) {
  const last = records.at(-1)
  return last?.type === COMMAND_RECORD ? decodeCommand(last.body) : undefined
}

/** The journal's record of a snapshot at `point`; undefined without one, or when `point` is not in the journal. */
export async function journaledSnapshot(
  journal: Journal,
  point: ChainPoint,
): Promise<JournaledSnapshot | undefined> {
  try {
    for await (const { records } of journal.readBatches(point.seq + 1, point.head)) {
      for (const record of records) {
        const taken = snapshotTaken(record, point.seq)
        if (taken !== undefined) return taken
      }
    }
    return undefined
  } catch (error) {
    if (error instanceof RangeError || (error instanceof JournalDamaged && error.file === 'chain'))
      return undefined
    throw error
  }
}

/**
 * Judges the vault, and while it seems to lack an epoch or batch, reads it again: the providers that answer may be behind those
 * that showed it to a process which died right after. Resolves with the reading that was judged last.
 */
export async function untilKnown<V extends { fault: ChainFault | undefined }>(
  { chain, config }: { chain: Pick<ChainPort, 'readConfig' | 'view'>; config: EngineConfig },
  first: VaultConfig,
  judge: (vault: VaultConfig) => V | Promise<V>,
): Promise<{ vault: VaultConfig; verdict: V }> {
  let vault = first
  let verdict = await judge(vault)
  for (let reads = 1; verdict.fault === 'chain_unknown' && reads < LIMITS.start_reads_max; reads++) {
    await Bun.sleep(chain.view().slot_ms)
    vault = await chain.readConfig(levelOf(config))
    verdict = await judge(vault)
  }
  return { vault, verdict }
}

/** Whether the epoch that the chain shows was opened by a boot of this journal. */
export const hasOpened = ({ epochs }: State, { boot_nonce }: Pick<VaultConfig, 'boot_nonce'>): boolean =>
  epochs.some((one) => equalBytes(one.boot_nonce, boot_nonce))

/** Undefined when the state that the journal leads to may trade on this chain. */
export function checkState(config: VaultConfig, state: State): ChainFault | undefined {
  const newest = Math.max(0, ...state.epochs.filter(({ slot }) => slot > 0).map(({ epoch }) => epoch))
  if (config.epoch < newest || config.last_batch < (state.settlement.landed?.batch_id ?? 0))
    return 'chain_unknown'
  // An empty journal against a used vault is a lost disk, not a second instance.
  if (config.epoch > 0 && !hasOpened(state, config))
    return state.epochs.length === 0 ? 'rolled_back' : 'forked'
  // Before its first epoch a journal may lack batches: a restore from the chain died before they were journaled.
  return newest > 0 && config.last_batch > state.settlement.last_hashed ? 'rolled_back' : undefined
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
  if (!(await isIn(journal, { seq, head: commit_head }))) return 'forked'
  return { kind: 'decided', seq, outcome: 'committed', slot, epoch, commit_seq }
}

/** Whether the journal passes a point; of one before its first record that is kept nothing shows it. */
export async function isIn(journal: Journal, { seq, head }: ChainPoint): Promise<boolean> {
  const newest = journal.head()
  if (seq === 0) return true
  if (seq >= newest.seq) return seq === newest.seq && equalBytes(head, newest.head)
  try {
    for await (const _ of journal.readBatches(seq + 1, head)) break
    return true
  } catch (error) {
    if (error instanceof RangeError || (error instanceof JournalDamaged && error.file === 'chain'))
      return false
    throw error
  }
}
