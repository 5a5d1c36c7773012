/** Builds and signs a reshape: merges notes of one key and mint, or splits one. */
import { bodyId } from '../../protocol/body_id'
import { compareBytes, fromHex, toHex } from '../../protocol/bytes'
import { deriveAnchor } from '../../protocol/derive'
import { encodeReshape } from '../../protocol/reshape'
import { sign } from '../../protocol/sign'
import type { ReshapeRequest } from '../../protocol/wire'
import { openingOf } from './opening'
import type { Wallet, WalletNote } from './wallet'

export function prepareReshape(
  wallet: Wallet,
  venue: Uint8Array,
  notes: WalletNote[],
  to: { amounts: bigint[]; expiry_slot: number },
): ReshapeRequest {
  const key_index = notes[0]!.key_index
  const command = wallet.counters(key_index).commands++
  const nonce = BigInt(command + 1)
  const anchor = deriveAnchor(wallet.seed, key_index, 16 * command)
  const ascending = [...notes].sort((a, b) =>
    compareBytes(fromHex(a.commitment, 32)!, fromHex(b.commitment, 32)!),
  )
  const body = encodeReshape({
    venue,
    trading_key: wallet.tradingKey(key_index),
    inputs: ascending.map((note) => fromHex(note.commitment, 32)!),
    amounts: to.amounts,
    anchor,
    nonce,
    expiry_slot: BigInt(to.expiry_slot),
  })
  for (const note of notes) note.state = 'pending'
  wallet.state.payments.push({
    id: toHex(bodyId(body)),
    kind: 'reshape',
    key_index,
    command,
    inputs: ascending.map((one) => one.commitment),
    amounts: to.amounts.map(String),
  })
  return {
    trading_key: wallet.tradingKeyText(key_index),
    inputs: ascending.map((note) => note.commitment),
    amounts: to.amounts.map(String),
    anchor: toHex(anchor),
    nonce: String(nonce),
    expiry_slot: to.expiry_slot,
    signature: toHex(sign(wallet.tradingSeed(key_index), body)),
    openings: ascending.map(openingOf),
  }
}
