/** A trader of the tests: one trading key with deposits, signing every command as a client does. */

import { encodeBase58 } from '../../../protocol/base58'
import {
  anchorPoolHash,
  CANCEL_ALL_BODY,
  CANCEL_BODY,
  DEAD_MAN_BODY,
  PLACE_BODY,
  RESHAPE_BODY,
  WITHDRAW_BODY,
} from '../../../protocol/bodies/trading'
import { fromHex, toHex } from '../../../protocol/bytes'
import { publicKeyOf, sign } from '../../../protocol/sign'
import type * as wire from '../../../protocol/wire/trading'
import type { JsonVenue } from './json_venue'
import { bytes, type Ledger } from './memory_chain'
import { BASE_MINT, QUOTE_MINT, type TestVenue } from './open_test_venue'

export type Deposit = { commitment: string; opening: wire.NoteOpening }

/** Where a trader trades. */
type TraderSite = { venue: JsonVenue; ledger: Pick<Ledger, 'deposit'> & { readonly slot: number } }

/** A random field element. */
export function element(): Uint8Array {
  const value = bytes(32)
  value[0] = value[0]! & 0x0f
  return value
}

export class Trader {
  readonly seed = bytes(32)
  readonly key = publicKeyOf(this.seed)
  readonly trading_key = encodeBase58(this.key)
  nonce = 0n
  cancel_nonce = 0n
  readonly venue_id: Uint8Array

  constructor(
    readonly site: TraderSite,
    readonly account_id: string,
  ) {
    this.venue_id = fromHex(site.venue.identity().venue, 32)!
  }

  /** A trader whose account the operator has just provisioned. */
  static async provisioned(
    site: TestVenue,
    account_id: string,
    limits: { orders_live_max?: number; keys_max?: number } = {},
  ): Promise<Trader> {
    const record = { account_id, version: 1, orders_live_max: 1000, keys_max: 100 }
    await site.venue.provision({ ...record, ...limits })
    return new Trader(site, account_id)
  }

  /** A deposit on the ledger; usable once the leaves are finalized. */
  deposit(side: 'base' | 'quote', amount: bigint): Deposit {
    const mint = side === 'base' ? BASE_MINT : QUOTE_MINT
    const blinding = element()
    const { commitment, leaf_index } = this.site.ledger.deposit({ owner: this.key, mint, amount, blinding })
    return {
      commitment: toHex(commitment),
      opening: { mint: encodeBase58(mint), amount: amount.toString(), blinding: toHex(blinding), leaf_index },
    }
  }

  /** A signed place body over a deposit; `change` replaces fields before signing. */
  place(deposit: Deposit, change: Partial<wire.CheckRequest> = {}): wire.PlaceRequest {
    const request: wire.CheckRequest = {
      order_id: toHex(bytes(16)),
      trading_key: this.trading_key,
      symbol: 'SOL-USDC',
      side: 'buy',
      type: 'limit',
      amount: '1000000000',
      price_limit: '100000000',
      expiry_slot: this.site.ledger.slot + 100,
      nonce: (++this.nonce).toString(),
      collateral_commitment: deposit.commitment,
      continuation_anchors: [toHex(element()), toHex(element())],
      opening: deposit.opening,
      ...change,
    }
    return { ...request, signature: toHex(sign(this.seed, this.placeBody(request))) }
  }

  placeBody(request: wire.CheckRequest): Uint8Array {
    return PLACE_BODY.encode({
      venue: this.venue_id,
      order_id: fromHex(request.order_id, 16)!,
      trading_key: this.key,
      symbol: request.symbol,
      side: request.side,
      type: request.type,
      amount: BigInt(request.amount),
      price_limit: BigInt(request.price_limit),
      min_fill: BigInt(request.min_fill ?? '0'),
      expiry_slot: BigInt(request.expiry_slot),
      nonce: BigInt(request.nonce),
      collateral_commitment: fromHex(request.collateral_commitment, 32)!,
      anchor_pool_hash: anchorPoolHash(request.continuation_anchors.map((one) => fromHex(one, 32)!)),
    })
  }

  cancel(order_id: string, cancel_nonce = ++this.cancel_nonce): wire.CancelRequest {
    const body = CANCEL_BODY.encode({
      venue: this.venue_id,
      order_id: fromHex(order_id, 16)!,
      trading_key: this.key,
      cancel_nonce,
    })
    return {
      trading_key: this.trading_key,
      cancel_nonce: cancel_nonce.toString(),
      signature: toHex(sign(this.seed, body)),
    }
  }

  modify(order_id: string, replacement: wire.PlaceRequest): wire.ModifyRequest {
    const { cancel_nonce, signature } = this.cancel(order_id)
    return { cancel_nonce, cancel_signature: signature, replacement }
  }

  cancelAll(symbol?: string): wire.CancelAllRequest {
    const cancel_nonce = ++this.cancel_nonce
    const body = CANCEL_ALL_BODY.encode({
      venue: this.venue_id,
      symbol: symbol ?? '',
      trading_key: this.key,
      cancel_nonce,
    })
    const request = {
      trading_key: this.trading_key,
      cancel_nonce: cancel_nonce.toString(),
      signature: toHex(sign(this.seed, body)),
    }
    return symbol === undefined ? request : { ...request, symbol }
  }

  deadMan(timeout_slots: number): wire.DeadManRequest {
    const cancel_nonce = ++this.cancel_nonce
    const body = DEAD_MAN_BODY.encode({
      venue: this.venue_id,
      trading_key: this.key,
      cancel_nonce,
      timeout_slots: BigInt(timeout_slots),
    })
    return {
      trading_key: this.trading_key,
      cancel_nonce: cancel_nonce.toString(),
      timeout_slots,
      signature: toHex(sign(this.seed, body)),
    }
  }

  withdrawal(deposit: Deposit, amount: bigint, destination = bytes(32)): wire.WithdrawalRequest {
    const fields = {
      destination,
      change_anchor: element(),
      nonce: ++this.nonce,
      expiry_slot: this.site.ledger.slot + 100,
    }
    const body = WITHDRAW_BODY.encode({
      ...fields,
      venue: this.venue_id,
      trading_key: this.key,
      commitment: fromHex(deposit.commitment, 32)!,
      amount,
      expiry_slot: BigInt(fields.expiry_slot),
    })
    return {
      trading_key: this.trading_key,
      commitment: deposit.commitment,
      destination: encodeBase58(fields.destination),
      amount: amount.toString(),
      nonce: fields.nonce.toString(),
      expiry_slot: fields.expiry_slot,
      change_anchor: toHex(fields.change_anchor),
      signature: toHex(sign(this.seed, body)),
      opening: deposit.opening,
    }
  }

  reshape(deposits: Deposit[], amounts: bigint[]): wire.ReshapeRequest {
    const sorted = [...deposits].sort((a, b) => (a.commitment < b.commitment ? -1 : 1))
    const fields = { anchor: element(), nonce: ++this.nonce, expiry_slot: this.site.ledger.slot + 100 }
    const body = RESHAPE_BODY.encode({
      ...fields,
      venue: this.venue_id,
      trading_key: this.key,
      inputs: sorted.map(({ commitment }) => fromHex(commitment, 32)!),
      amounts,
      expiry_slot: BigInt(fields.expiry_slot),
    })
    return {
      trading_key: this.trading_key,
      inputs: sorted.map(({ commitment }) => commitment),
      amounts: amounts.map(String),
      anchor: toHex(fields.anchor),
      nonce: fields.nonce.toString(),
      expiry_slot: fields.expiry_slot,
      signature: toHex(sign(this.seed, body)),
      openings: sorted.map(({ opening }) => opening),
    }
  }
}
