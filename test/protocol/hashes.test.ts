/** Venue id, anchors, notes, memos, trees and wallet derivation equal the published vectors. */

import { describe, expect, test } from 'bun:test'
import { anchorPoolHash } from '../../protocol/bodies/trading'
import { venueId } from '../../protocol/bodies/venue_id'
import { fromHex, toHex } from '../../protocol/bytes'
import { FIELD_MODULUS, fieldToBytes, isFieldElement } from '../../protocol/field'
import {
  deriveAnchor,
  deriveDepositBlinding,
  deriveOrderId,
  deriveTradingKey,
} from '../../protocol/notes/derive'
import {
  decodeMemo,
  depositCommitment,
  encodeMemo,
  noteInner,
  nullifierOf,
  openingCommitment,
  outputBlinding,
  settlementCommitment,
} from '../../protocol/notes/notes'
import { poseidonOf } from '../../protocol/notes/poseidon'
import { publicKeyOf } from '../../protocol/sign'
import anchor_vector from '../vectors/anchors.json'
import note_vector from '../vectors/notes.json'
import venue_vector from '../vectors/venue.json'
import wallet_vector from '../vectors/wallet.json'

const b = (hex: string) => fromHex(hex, hex.length / 2)!

describe('hashes', () => {
  // Values of the sol_poseidon syscall, which the vault program calls.
  test('poseidon equals the syscall', () => {
    expect(toHex(poseidonOf(1n, 2n))).toBe('115cc0f5e7d690413df64c6b9662e9cf2a3617f2743245519e19607a4417189a')
    expect(() => poseidonOf()).toThrow(RangeError)
    expect(() => poseidonOf(1n, 2n, 3n, 4n, 5n, 6n)).toThrow(RangeError)
  })

  test('the venue id binds cluster, program, config and generation', () => {
    const parts = {
      genesis_hash: b(venue_vector.genesis_hash),
      program_id: b(venue_vector.program_id),
      config_account: b(venue_vector.config_account),
      generation: venue_vector.generation,
    }
    expect(toHex(venueId(parts))).toBe(venue_vector.venue)
    expect(toHex(venueId({ ...parts, generation: 4 }))).not.toBe(venue_vector.venue)
  })

  test('the anchor pool hash covers the anchors in order', () => {
    const anchors = anchor_vector.anchors.map(b)
    expect(toHex(anchorPoolHash(anchors))).toBe(anchor_vector.pool_hash)
    expect(toHex(anchorPoolHash([...anchors].reverse()))).not.toBe(anchor_vector.pool_hash)
  })

  test('field elements end below the modulus', () => {
    const modulus = b(FIELD_MODULUS.toString(16).padStart(64, '0'))
    expect(isFieldElement(modulus)).toBe(false)
    expect(isFieldElement(fieldToBytes(FIELD_MODULUS - 1n))).toBe(true)
    expect(() => fieldToBytes(FIELD_MODULUS)).toThrow(RangeError)
  })

  test('notes: inner, both commitments, nullifier and blindings equal their vectors', () => {
    const { owner, mint, blinding, leaf_index } = note_vector
    const amount = BigInt(note_vector.amount)
    const inner = noteInner(b(owner), b(blinding))
    const commitment = settlementCommitment({ mint: b(mint), amount, inner })
    expect(toHex(inner)).toBe(note_vector.inner)
    expect(toHex(commitment)).toBe(note_vector.settlement_commitment)
    expect(toHex(depositCommitment({ mint: b(mint), amount, inner, leaf_index }))).toBe(
      note_vector.deposit_commitment,
    )
    const opening = { owner: b(owner), mint: b(mint), amount, blinding: b(blinding) }
    expect(toHex(openingCommitment(opening))).toBe(note_vector.settlement_commitment)
    expect(toHex(openingCommitment({ ...opening, leaf_index }))).toBe(note_vector.deposit_commitment)
    expect(toHex(nullifierOf(commitment, b(blinding)))).toBe(note_vector.nullifier)
    const output = note_vector.output_blinding
    const parts = {
      ...output,
      anchor: b(output.anchor),
      order_id: b(output.order_id),
      nonce: BigInt(output.nonce),
    }
    expect(toHex(outputBlinding(parts))).toBe(output.blinding)
    const fee = note_vector.fee_blinding
    const place = { order_id: new Uint8Array(16), nonce: BigInt(fee.day), index_role: 2 * fee.mint_index }
    const { generation } = fee
    expect(toHex(outputBlinding({ anchor: b(fee.fee_anchor), generation, ...place }))).toBe(fee.blinding)
  })

  test('a memo opens with its blinding only', () => {
    const blinding = b(note_vector.blinding)
    const memo = encodeMemo(blinding, BigInt(note_vector.amount))
    expect(toHex(memo)).toBe(note_vector.memo)
    expect(decodeMemo(memo, blinding)).toBe(BigInt(note_vector.amount))
    expect(decodeMemo(memo, b(note_vector.inner))).toBeUndefined()
  })

  test('a wallet derives the same keys, blindings, anchors and ids from its seed', () => {
    const seed = b(wallet_vector.seed)
    for (const { key_index, x, ...expected } of wallet_vector.cases) {
      const trading_seed = deriveTradingKey(seed, key_index)
      expect(toHex(trading_seed)).toBe(expected.trading_key_seed)
      expect(toHex(publicKeyOf(trading_seed))).toBe(expected.trading_key)
      expect(toHex(deriveDepositBlinding(seed, key_index, x))).toBe(expected.deposit_blinding)
      expect(toHex(deriveAnchor(seed, key_index, x))).toBe(expected.anchor)
      expect(toHex(deriveOrderId(seed, key_index, x))).toBe(expected.order_id)
    }
  })
})
