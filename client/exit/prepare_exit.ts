/** Builds exit requests and claims on a frozen vault from a wallet's note and the public history, which also proves them. */
import { decodeBase58 } from '../../protocol/base58'
import { equalBytes, fromHex, toHex } from '../../protocol/bytes'
import { MerkleTree, SpentLog, spentLogLeaf } from '../../protocol/notes/merkle_tree'
import { depositCommitment, noteInner } from '../../protocol/notes/notes'
import { TacitError } from '../../protocol/tacit_error'
import type { RingAccount } from '../../protocol/vault/accounts'
import {
  claimEscapeInstruction,
  type NoteOpening,
  type RequestExitFields,
  requestExitInstruction,
} from '../../protocol/vault/exits'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import type { VaultState } from '../chain/read_vault'
import { nullifierOfNote } from '../wallet/absorb'
import { HistoryIncomplete, rangeOf, type VaultHistory } from '../wallet/vault_history'
import type { Wallet, WalletNote } from '../wallet/wallet'

type OpenedNote = {
  nullifier: Uint8Array
  /** The trading key that must sign. */
  owner: Uint8Array
  mint: Uint8Array
  opening: NoteOpening
}

/** Opens a note in the form of the vault program, at the leaf that the history shows. */
export function openNote(wallet: Wallet, note: WalletNote, leaf_index: number): OpenedNote {
  const form = note.leaf_index === undefined ? 'settlement' : 'deposit'
  return {
    nullifier: nullifierOfNote(note),
    owner: wallet.tradingKey(note.key_index),
    mint: decodeBase58(note.mint, 32)!,
    opening: { form, amount: BigInt(note.amount), blinding: fromHex(note.blinding, 32)!, leaf_index },
  }
}

export type ExitRequestTerms = {
  program: Uint8Array
  /** Pays rent and bond, and gets both back. */
  payer: Uint8Array
  /** Token account that receives the whole note. */
  destination: Uint8Array
  /** The key's next deposit blinding: the note that an unusable destination returns is then found as deposits are. */
  refund_blinding: Uint8Array
}

/** Opens a note and shows it in the tree. @throws ProofUnavailable, also for a spent note: its bond would be lost */
function shown(wallet: Wallet, note: WalletNote, proofs: VaultProofs) {
  const { leaf_index, siblings: path, ...cited } = proofs.inclusion(fromHex(note.commitment, 32)!)
  const opened = openNote(wallet, note, leaf_index)
  proofs.requireUnspent(opened.nullifier)
  return { ...cited, ...opened, path }
}

/** The fields of a request, before it is encoded. @throws ProofUnavailable */
export function exitRequestFields(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  { refund_blinding, ...to }: ExitRequestTerms,
): RequestExitFields {
  const fields = shown(wallet, note, proofs)
  return { ...to, ...fields, refund_inner: noteInner(fields.owner, refund_blinding) }
}

/** Claims a note of a frozen vault. @throws ProofUnavailable */
export function prepareClaim(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  terms: Pick<ExitRequestTerms, 'program' | 'payer' | 'destination'>,
): VaultInstruction {
  return claimEscapeInstruction({ ...terms, ...shown(wallet, note, proofs) })
}

/** Demands that the venue pays a note out before the deadline; the note becomes pending. @throws ProofUnavailable */
export function prepareExitRequest(
  wallet: Wallet,
  note: WalletNote,
  proofs: VaultProofs,
  terms: ExitRequestTerms,
): VaultInstruction {
  const request = requestExitInstruction(exitRequestFields(wallet, note, proofs, terms))
  note.state = 'pending'
  return request
}

/**
 * Makes proofs of inclusion and of spending from public history alone. Note tree and spent log are rebuilt and compared
 * with the vault's accounts first, so a proof is either valid or not made.
 */

/** The public data does not prove the claim; `reason` names the cause. */
export class ProofUnavailable extends TacitError<{ reason: keyof typeof MEANINGS }> {
  override readonly name = 'ProofUnavailable'
  readonly code = 'proof_unavailable'
  constructor(reason: keyof typeof MEANINGS) {
    super(MEANINGS[reason], { reason })
  }
}

const MEANINGS = {
  not_in_tree: 'the note is not in the tree of the chain: it has not landed yet, or never will',
  spent: 'the note is spent',
  not_spent: 'the note is not spent, so its request stays open',
  history_differs: 'the history does not lead to the roots of the vault: ask another node',
} as const

type Inclusion = {
  leaf_index: number
  cited_leaf_count: number
  cited_root: Uint8Array
  /** 40 siblings from the leaf upwards. */
  siblings: Uint8Array[]
}
type Spending = {
  cited_spent_root: Uint8Array
  batch: number
  /** All of the batch. */
  nullifiers: Uint8Array[]
  /** 40 siblings of the batch's leaf, from the leaf upwards. */
  path: Uint8Array[]
}

/** Read `vault` before `history`, so that the history covers it. */
export class VaultProofs {
  private note_tree: MerkleTree | undefined
  private spent_log: RebuiltLog | undefined

  constructor(
    readonly history: VaultHistory,
    readonly vault: VaultState,
  ) {}

  /**
   * Rebuilds note tree and spent log, compares their roots with the accounts, and recomputes every deposit and refund, whose
   * inner hash no root covers alone. @throws ProofUnavailable, HistoryIncomplete naming the missing part of the history
   */
  check(): void {
    this.noteTree()
    this.spentLog()
    for (const [inner, notes] of this.history.program_notes)
      for (const note of notes)
        if (!equalBytes(depositCommitment({ ...note, inner: fromHex(inner, 32)! }), note.commitment))
          throw new ProofUnavailable('history_differs')
  }

  /** Whether another reading of the vault's accounts, not later than this one, is a state of the same history. */
  covers({ tree, config }: Pick<VaultState, 'tree' | 'config'>): boolean {
    const [notes, { log }] = [this.noteTree(), this.spentLog()]
    return (
      tree.leaf_count <= notes.leaf_count &&
      config.last_batch <= log.leaf_count &&
      equalBytes(notes.root(tree.leaf_count), tree.root) &&
      equalBytes(log.root(config.last_batch), tree.spent_root)
    )
  }

  /**
   * Cites the newest ring state that covers the note, else the current one: an append may replace the current state
   * before the transaction lands, and the ring states stay valid.
   * @throws ProofUnavailable
   */
  inclusion(commitment: Uint8Array): Inclusion {
    const leaf_index = this.history.leaves.findIndex((leaf) => equalBytes(leaf, commitment))
    const { tree, ring } = this.vault
    if (leaf_index === -1 || leaf_index >= tree.leaf_count) throw new ProofUnavailable('not_in_tree')
    const notes = this.noteTree()
    const { leaf_count, root } = ring.states.findLast((state) => state.leaf_count > leaf_index) ?? tree
    if (!equalBytes(notes.root(leaf_count), root)) throw new ProofUnavailable('history_differs')
    const siblings = notes.siblings(leaf_index, leaf_count)
    return { leaf_index, cited_leaf_count: leaf_count, cited_root: root, siblings }
  }

  private noteTree(): MerkleTree {
    if (this.note_tree !== undefined) return this.note_tree
    const { leaf_count, root } = this.vault.tree
    const { leaves } = this.history
    if (leaves.length < leaf_count)
      throw new HistoryIncomplete(rangeOf('leaf', leaves.length, leaf_count - 1))
    const notes = new MerkleTree()
    notes.append(leaves.slice(0, leaf_count))
    if (!equalBytes(notes.root(), root)) throw new ProofUnavailable('history_differs')
    this.note_tree = notes
    return notes
  }

  /** Rejects a note that a batch of the checked history spent. @throws ProofUnavailable */
  requireUnspent(nullifier: Uint8Array): void {
    this.spentLog()
    if (this.history.spent.has(toHex(nullifier))) throw new ProofUnavailable('spent')
  }

  /**
   * Shows the batch that spent a nullifier, under the newest ring state that covers it, else under the current root.
   * @throws ProofUnavailable
   */
  spending(nullifier: Uint8Array): Spending {
    const { last_batch } = this.vault.config
    const { log, ring_batches } = this.spentLog()
    const batch = this.history.spent.get(toHex(nullifier))
    if (batch === undefined || batch > last_batch) throw new ProofUnavailable('not_spent')
    const [newest = 0] = ring_batches.values()
    const count = newest >= batch ? newest : last_batch
    const nullifiers = [...this.history.nullifier_batches[batch - 1]!]
    return { cited_spent_root: log.root(count), batch, nullifiers, path: log.siblings(batch - 1, count) }
  }

  private spentLog(): RebuiltLog {
    if (this.spent_log !== undefined) return this.spent_log
    const { config, tree, ring } = this.vault
    const { spent_count, last_batch } = config
    const batches = this.history.nullifier_batches.slice(0, last_batch)
    if (batches.length < last_batch)
      throw new HistoryIncomplete(rangeOf('settlement batch', batches.length + 1, last_batch))
    const rebuilt = rebuildLog(batches, ring)
    const spent = batches.reduce((sum, { length }) => sum + length, 0)
    if (spent !== spent_count || !equalBytes(rebuilt.log.root(), tree.spent_root))
      throw new ProofUnavailable('history_differs')
    this.spent_log = rebuilt
    return rebuilt
  }
}

type RebuiltLog = {
  log: SpentLog
  /** Batches in the log, by hex of its root, at each state of the ring that it went through; newest first. */
  ring_batches: ReadonlyMap<string, number>
}

export function rebuildLog(batches: readonly (readonly Uint8Array[])[], ring: RingAccount): RebuiltLog {
  const log = new SpentLog()
  log.append(batches.map((nullifiers, at) => spentLogLeaf(at + 1, nullifiers)))
  const kept = new Set(ring.states.map(({ spent_root }) => toHex(spent_root)))
  const ring_batches = new Map<string, number>()
  for (let count = batches.length; count >= 0 && ring_batches.size < kept.size; count--) {
    const root = toHex(log.root(count))
    if (kept.has(root)) ring_batches.set(root, count)
  }
  return { log, ring_batches }
}
