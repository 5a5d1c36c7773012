/** Notes of known owners in an open vault, with everything that their exits, and claims after its freeze, need. */
import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../protocol/notes/notes'
import { decodeEscapeClaim, type EscapeClaim } from '../../../protocol/vault/accounts'
import { escapeClaimAddress } from '../../../protocol/vault/addresses'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  freezeInstruction,
  type NoteOpening,
  payEscapeInstruction,
  type RequestExitFields,
  redirectEscapeInstruction,
  type refuseExitInstruction,
  requestExitInstruction,
} from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import type { PayoutFields } from '../../../protocol/vault/settle'
import { bytes32, EXIT_DELAY_S, element, landed, OpenVault, outputsOf } from './open_vault'
import { testKey, type VaultChain } from './vault_chain'

export class ExitNote {
  readonly vault = new OpenVault()
  readonly owner = this.vault.chain.fund(testKey('owner'))
  readonly destination = bytes32('exit destination')
  readonly refund_inner = element('exit refund')
  readonly opening: NoteOpening
  readonly commitment: Uint8Array
  readonly nullifier: Uint8Array

  /** The note is leaf 0; in settlement form it is an output, backed by tokens of a later deposit. */
  constructor(form: 'deposit' | 'settlement', amount = 40_000n) {
    const { vault } = this
    const blinding = element('blinding')
    const inner = noteInner(this.owner.key, blinding)
    this.opening = { form, amount, blinding, leaf_index: 0 }
    landed(vault.openEpoch())
    if (form === 'deposit') {
      this.commitment = depositCommitment({ mint: vault.mint, amount, inner, leaf_index: 0 })
      vault.deposit(amount, inner)
    } else {
      this.commitment = settlementCommitment({ mint: vault.mint, amount, inner })
      vault.settle({ outputs: outputsOf([this.commitment]) })
      vault.deposit(50_000n, element('somebody'))
    }
    this.nullifier = nullifierOf(this.commitment, blinding)
    vault.setToken(this.destination, { owner: this.owner.key })
  }

  /** The fields of an exit request under the present state. */
  requestOf(payer: Uint8Array): RequestExitFields {
    const { vault, owner, opening, nullifier, destination, refund_inner } = this
    const { leaf_count, root } = vault.chain.tree()
    return {
      program: vault.program,
      owner: owner.key,
      payer,
      mint: vault.mint,
      opening,
      nullifier,
      cited_leaf_count: leaf_count,
      cited_root: root,
      destination,
      refund_inner,
      path: vault.tree.siblings(opening.leaf_index),
    }
  }

  /** The payout that serves the request. */
  payout(): PayoutFields {
    const { vault, nullifier, opening, destination, refund_inner } = this
    return { ...vault.withdrawal(opening.amount, destination, refund_inner), nullifier }
  }

  /** The proof that `batch`, the last by default, spent the note. */
  refusalOf(
    refuser: Uint8Array,
    batch = this.vault.batches.length,
  ): Parameters<typeof refuseExitInstruction>[0] {
    const { vault, nullifier } = this
    return {
      program: vault.program,
      refuser,
      nullifier,
      cited_spent_root: vault.spent.root(),
      batch,
      nullifiers: [...vault.batches[batch - 1]!],
      path: vault.spent.siblings(batch - 1),
    }
  }
}

const START_S = 1_800_000_000
export const EXIT_REFUND = element('exit refund')
export const ESCAPE_BOND = 50_000_000n

export type OwnedNote = {
  owner: ReturnType<typeof testKey>
  mint: Uint8Array
  opening: NoteOpening
  commitment: Uint8Array
  nullifier: Uint8Array
  destination: Uint8Array
}

export class WindDown {
  readonly vault = new OpenVault()
  readonly chain: VaultChain = this.vault.chain
  readonly bond_payer = this.chain.fund(testKey('bond payer'))
  readonly challenger = this.chain.fund(testKey('challenger'))
  /** Second of the freeze; 0 before. */
  frozen_at_s = 0
  #notes = 0

  constructor() {
    landed(this.vault.openEpoch())
  }

  #owned(form: NoteOpening['form'], amount: bigint, mint: Uint8Array) {
    const name = `note ${this.#notes++}`
    const [owner, blinding] = [this.chain.fund(testKey(name)), element(name)]
    const destination = bytes32(`destination of ${name}`)
    this.vault.setToken(destination, { owner: owner.key, mint })
    const inner = noteInner(owner.key, blinding)
    const opening = { form, amount, blinding, leaf_index: this.vault.tree.leaf_count }
    return { owner, mint, opening, destination, inner }
  }

  #placed(
    owned: Omit<OwnedNote, 'commitment' | 'nullifier'> & { inner: Uint8Array },
    leaf_index = owned.opening.leaf_index,
  ): OwnedNote {
    const { inner, ...note } = owned
    const { form, amount, blinding } = note.opening
    const parts = { mint: note.mint, amount, inner }
    const commitment =
      form === 'deposit' ? depositCommitment({ ...parts, leaf_index }) : settlementCommitment(parts)
    const nullifier = nullifierOf(commitment, blinding)
    return { ...note, opening: { ...note.opening, leaf_index }, commitment, nullifier }
  }

  /** A note that a deposit backs. */
  deposit(amount: bigint): OwnedNote {
    const owned = this.#owned('deposit', amount, this.vault.mint)
    this.vault.deposit(amount, owned.inner)
    return this.#placed(owned)
  }

  /** Outputs of one batch that spends `inputs`: the signer alone says that they conserve them. */
  settle(amounts: readonly bigint[], inputs: readonly OwnedNote[] = [], mint = this.vault.mint): OwnedNote[] {
    const owned = amounts.map((amount) => this.#owned('settlement', amount, mint))
    const drafts = owned.map((one) => ({ one, ...this.#placed(one) }))
    const sorted = drafts.sort((a, b) => Buffer.compare(a.commitment, b.commitment))
    const nullifiers = inputs.map(({ nullifier }) => nullifier).sort(Buffer.compare)
    const outputs = outputsOf(sorted.map(({ commitment }) => commitment))
    const { first_leaf_index } = this.vault.settle({ nullifiers, outputs })
    const notes = sorted.map(({ one }, at) => this.#placed(one, first_leaf_index + at))
    return owned.map(({ owner }) => notes.find((note) => note.owner === owner)!)
  }

  /** Queues a payout to an address without account; `refundAt` is the note that `pay` may append. */
  queue(amount: bigint): { destination: Uint8Array; refundAt: (leaf_index: number) => OwnedNote } {
    const owned = this.#owned('deposit', amount, this.vault.mint)
    const nowhere = bytes32(`nowhere ${this.#notes}`)
    this.vault.settle({ payouts: [this.vault.withdrawal(amount, nowhere, owned.inner)] })
    return { destination: nowhere, refundAt: (leaf_index: number) => this.#placed(owned, leaf_index) }
  }

  request(note: OwnedNote): void {
    landed(this.chain.send(requestExitInstruction({ ...this.claimOf(note), refund_inner: EXIT_REFUND })))
  }

  /** Freezes the vault by the exit of a note that the venue does not serve. */
  freeze(note: OwnedNote): void {
    this.request(note)
    this.frozen_at_s = START_S + EXIT_DELAY_S + 1
    this.chain.setTime(2_000, this.frozen_at_s)
    landed(this.chain.send(freezeInstruction(this.vault.program, note.nullifier)))
  }

  /** Moves the clock to `delays` exit delays and `seconds` after the freeze. */
  passTo(delays: number, seconds = 0): void {
    this.chain.setTime(3_000 + 18 * delays, this.frozen_at_s + delays * EXIT_DELAY_S + seconds)
  }

  claimOf({
    owner,
    mint,
    opening,
    nullifier,
    destination,
  }: OwnedNote): Parameters<typeof claimEscapeInstruction>[0] {
    const { leaf_count, root } = this.chain.tree()
    return {
      program: this.vault.program,
      owner: owner.key,
      payer: this.bond_payer.key,
      mint,
      nullifier,
      opening,
      cited_leaf_count: leaf_count,
      cited_root: root,
      destination,
      path: this.vault.tree.siblings(opening.leaf_index),
    }
  }

  /** The proof that `batch` spent the note; by default the first that lists it, else the last. */
  challengeOf(
    { mint, nullifier }: OwnedNote,
    batch?: number,
  ): Parameters<typeof challengeEscapeInstruction>[0] {
    const { batches, spent, program } = this.vault
    const found = batches.findIndex((one) => one.some((other) => Buffer.compare(other, nullifier) === 0))
    const at = batch ?? (found < 0 ? batches.length : found + 1)
    return {
      program,
      challenger: this.challenger.key,
      mint,
      nullifier,
      cited_spent_root: spent.root(),
      batch: at,
      nullifiers: [...(batches[at - 1] ?? [])],
      path: spent.siblings(at - 1),
    }
  }

  payment(note: OwnedNote, accepts_less = false): VaultInstruction {
    const { mint, nullifier, owner } = note
    const claim = this.claim(note)
    const destination = claim?.destination ?? note.destination
    const { token_program } = this.chain.mintRecord(mint)
    const payer = { bond_payer: this.bond_payer.key, owner: owner.key, accepts_less }
    const { program } = this.vault
    return payEscapeInstruction({ program, nullifier, mint, token_program, destination, ...payer })
  }

  redirection({ owner, nullifier }: OwnedNote, destination: Uint8Array, sequence = 1): VaultInstruction {
    const { program } = this.vault
    return redirectEscapeInstruction({ program, owner: owner.key, nullifier, sequence, destination })
  }

  claiming = (note: OwnedNote) => this.chain.send(claimEscapeInstruction(this.claimOf(note)))
  challenging = (note: OwnedNote) => this.chain.send(challengeEscapeInstruction(this.challengeOf(note)))
  paying = (note: OwnedNote, accepts_less = false) => this.chain.send(this.payment(note, accepts_less))

  claimAccount({ nullifier }: OwnedNote): ReturnType<VaultChain['account']> {
    return this.chain.account(escapeClaimAddress(this.vault.program, nullifier))
  }

  claim(note: OwnedNote): EscapeClaim | undefined {
    const account = this.claimAccount(note)
    return account && decodeEscapeClaim(account.data)
  }

  received({ destination }: OwnedNote): bigint {
    return this.vault.balance(destination)
  }

  held(key: Uint8Array): bigint {
    return this.chain.account(key)?.lamports ?? 0n
  }
}
