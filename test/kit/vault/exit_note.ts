/** A note of a known owner in an open vault, with everything its exit needs, for the program's tests. */
import {
  depositCommitment,
  noteInner,
  nullifierOf,
  settlementCommitment,
} from '../../../protocol/notes/notes'
import type { NoteOpening, RequestExitFields, refuseExitInstruction } from '../../../protocol/vault/exits'
import type { PayoutFields } from '../../../protocol/vault/settle'
import { bytes32, element, elements, landed, OpenVault, outputsOf } from './open_vault'
import { testKey } from './vault_chain'

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

  /** Fills both trees a little, so that proofs are not all empty siblings. */
  mingle(): void {
    this.vault.settle({
      nullifiers: elements('mingled', 5),
      outputs: outputsOf(elements('mingled outputs', 6)),
    })
  }
}
