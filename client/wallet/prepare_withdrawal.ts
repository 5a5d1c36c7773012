/** Builds and signs a withdrawal of part or all of a note to a token account. */

import { decodeBase58 } from '../../protocol/base58'
import { bodyId } from '../../protocol/body_id'
import { fromHex, toHex } from '../../protocol/bytes'
import { deriveAnchor } from '../../protocol/derive'
import { sign } from '../../protocol/sign'
import type { WithdrawalRequest } from '../../protocol/wire'
import { encodeWithdraw } from '../../protocol/withdraw'
import { openingOf } from './opening'
import type { Wallet, WalletNote } from './wallet'

/** The note must hold `amount` plus the mint's withdraw fee; the rest comes back as change. */
export function prepareWithdrawal(
  wallet: Wallet,
  venue: Uint8Array,
  note: WalletNote,
  to: { destination: string; amount: bigint; expiry_slot: number },
): WithdrawalRequest {
  const destination = decodeBase58(to.destination, 32)
  if (destination === undefined) throw new RangeError('the destination is not a token account address')
  const key_index = note.key_index
  const command = wallet.counters(key_index).commands++
  const nonce = BigInt(command + 1)
  const change_anchor = deriveAnchor(wallet.seed, key_index, 16 * command)
  const body = encodeWithdraw({
    venue,
    trading_key: wallet.tradingKey(key_index),
    commitment: fromHex(note.commitment, 32)!,
    destination,
    amount: to.amount,
    nonce,
    expiry_slot: BigInt(to.expiry_slot),
    change_anchor,
  })
  note.state = 'pending'
  wallet.state.payments.push({
    id: toHex(bodyId(body)),
    kind: 'withdrawal',
    key_index,
    command,
    inputs: [note.commitment],
    amounts: [String(to.amount)],
  })
  return {
    trading_key: wallet.tradingKeyText(key_index),
    commitment: note.commitment,
    destination: to.destination,
    amount: String(to.amount),
    nonce: String(nonce),
    expiry_slot: to.expiry_slot,
    change_anchor: toHex(change_anchor),
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
    opening: openingOf(note),
  }
}
