/** Makes the contents of full settlement transactions: orders, withdrawals, served exits, each with a prepared vault. */

import { compareBytes } from '../../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { requestExitInstruction } from '../../../protocol/vault/exits'
import type { PayoutFields, SettleFields } from '../../../protocol/vault/settle'
import { bytes32, element, elements, landed, OpenVault, outputsOf } from '../../kit/vault/open_vault'

/** `parts`: capacity that one takes of a batch; `batch_parts`: fixed capacity of the batch for its mint's accounts. */
export type Shape = {
  name: string
  parts: number
  batch_parts: number
  batchOf: (vault: OpenVault, count: number) => SettleFields
}

/** An open vault with an epoch and a third party's deposit. */
export function readyVault(): OpenVault {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000_000n, element('somebody'))
  return vault
}

/** An order spends a note and makes its proceeds, and its change unless it was filled to the last unit. */
const orders =
  (outputs: number): Shape['batchOf'] =>
  (vault, count) =>
    vault.batchOf({ nullifiers: elements('n', count), outputs: outputsOf(elements('c', outputs * count)) })

const withdrawals: Shape['batchOf'] = (vault, count) => {
  const payouts = Array.from({ length: count }, (_, at) => {
    vault.setToken(bytes32(`to ${at}`), { owner: vault.trader.key })
    return vault.withdrawal(1_000n, bytes32(`to ${at}`))
  })
  return vault.batchOf({
    nullifiers: elements('n', count),
    outputs: outputsOf(elements('c', count)),
    payouts,
  })
}

/** Notes of one owner are deposited and demanded back, each to its own destination. */
const exits: Shape['batchOf'] = (vault, count) => {
  const { chain, program, mint, trader } = vault
  const amount = 2_000n
  const notes = Array.from({ length: count }, (_, at) => {
    const blinding = element(`blinding ${at}`)
    const inner = noteInner(trader.key, blinding)
    const leaf_index = vault.deposit(amount, inner)
    const nullifier = nullifierOf(depositCommitment({ mint, amount, inner, leaf_index }), blinding)
    return { blinding, leaf_index, nullifier, destination: bytes32(`exit to ${at}`) }
  })
  const refund_inner = element('refund')
  const payouts = notes.map(({ blinding, leaf_index, nullifier, destination }): PayoutFields => {
    const { leaf_count, root } = chain.tree()
    const opening = { form: 'deposit' as const, amount, blinding, leaf_index }
    const cited = { cited_leaf_count: leaf_count, cited_root: root, path: vault.tree.siblings(leaf_index) }
    const asked = {
      owner: trader.key,
      payer: chain.payer.key,
      mint,
      opening,
      nullifier,
      destination,
      refund_inner,
    }
    landed(chain.send(requestExitInstruction({ program, ...asked, ...cited })))
    vault.setToken(destination, { owner: trader.key })
    return { ...vault.withdrawal(amount, destination, refund_inner), nullifier }
  })
  const nullifiers = notes.map(({ nullifier }) => nullifier).sort(compareBytes)
  return vault.batchOf({ nullifiers, payouts })
}

export const SHAPES: readonly Shape[] = [
  { name: 'order with change (2 outputs)', parts: 1, batch_parts: 0, batchOf: orders(2) },
  { name: 'order filled to the last unit (1 output)', parts: 1, batch_parts: 0, batchOf: orders(1) },
  { name: 'withdrawal with change', parts: 2, batch_parts: 1, batchOf: withdrawals },
  { name: 'exit served', parts: 2, batch_parts: 1, batchOf: exits },
]
