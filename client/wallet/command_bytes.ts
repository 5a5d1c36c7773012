/** Encodes commands from their requests: the body that a signature covers, and the bytes that a receipt proves. */
import { decodeBase58 } from '../../protocol/base58'
import {
  anchorPoolHash,
  CANCEL_ALL_BODY,
  CANCEL_BODY,
  DEAD_MAN_BODY,
  PLACE_BODY,
  RESHAPE_BODY,
  WITHDRAW_BODY,
} from '../../protocol/bodies/trading'
import { concatBytes, fromHex } from '../../protocol/bytes'
import type {
  CancelAllRequest,
  CancelRequest,
  DeadManRequest,
  ModifyRequest,
  PlaceRequest,
  ReshapeRequest,
  WithdrawalRequest,
} from '../../protocol/wire/trading'

/** A command as it was sent. `order_id` is the one in the path of the request, hex. */
export type SentCommand =
  | { kind: 'place'; request: PlaceRequest }
  | { kind: 'cancel'; order_id: string; request: CancelRequest }
  | { kind: 'modify'; order_id: string; request: ModifyRequest }
  | { kind: 'cancel_all'; request: CancelAllRequest | readonly CancelAllRequest[] }
  | { kind: 'dead_man'; request: DeadManRequest }
  | { kind: 'withdraw'; request: WithdrawalRequest }
  | { kind: 'reshape'; request: ReshapeRequest }

/**
 * Canonical body and signature of a command, one pair after the other where it has several: the leaf that
 * `verifyReceipt` looks for (engine.md "Receipts").
 * @param venue 32 bytes
 * @throws RangeError, SyntaxError when a field is not in the form that the venue accepts
 */
export function commandBytes(venue: Uint8Array, command: SentCommand): Uint8Array {
  switch (command.kind) {
    case 'place':
      return signed(placeBody(venue, command.request), command.request.signature)
    case 'cancel':
      return signed(cancelBody(venue, command.order_id, command.request), command.request.signature)
    case 'modify': {
      const { cancel_nonce, cancel_signature, replacement } = command.request
      const cancel = { trading_key: replacement.trading_key, cancel_nonce }
      return concatBytes(
        signed(cancelBody(venue, command.order_id, cancel), cancel_signature),
        signed(placeBody(venue, replacement), replacement.signature),
      )
    }
    case 'cancel_all': {
      const requests = [command.request].flat()
      return concatBytes(...requests.map((one) => signed(cancelAllBody(venue, one), one.signature)))
    }
    case 'dead_man':
      return signed(deadManBody(venue, command.request), command.request.signature)
    case 'withdraw':
      return signed(withdrawBody(venue, command.request), command.request.signature)
    case 'reshape':
      return signed(reshapeBody(venue, command.request), command.request.signature)
  }
}

type Unsigned<Request> = Omit<Request, 'signature' | 'opening' | 'openings'>

export function placeBody(venue: Uint8Array, request: Unsigned<PlaceRequest>): Uint8Array {
  const { symbol, side, type, min_fill = '0' } = request
  return PLACE_BODY.encode({
    venue,
    order_id: hex(request.order_id, 16),
    trading_key: address(request.trading_key),
    symbol,
    side,
    type,
    amount: BigInt(request.amount),
    price_limit: BigInt(request.price_limit),
    min_fill: BigInt(min_fill),
    expiry_slot: BigInt(request.expiry_slot),
    nonce: BigInt(request.nonce),
    collateral_commitment: hex(request.collateral_commitment, 32),
    anchor_pool_hash: anchorPoolHash(request.continuation_anchors.map((anchor) => hex(anchor, 32))),
  })
}

export function cancelBody(
  venue: Uint8Array,
  order_id: string,
  request: Unsigned<CancelRequest>,
): Uint8Array {
  return CANCEL_BODY.encode({ venue, order_id: hex(order_id, 16), ...signerOf(request) })
}

export function cancelAllBody(venue: Uint8Array, request: Unsigned<CancelAllRequest>): Uint8Array {
  return CANCEL_ALL_BODY.encode({ venue, symbol: request.symbol ?? '', ...signerOf(request) })
}

export function deadManBody(venue: Uint8Array, request: Unsigned<DeadManRequest>): Uint8Array {
  return DEAD_MAN_BODY.encode({ venue, timeout_slots: BigInt(request.timeout_slots), ...signerOf(request) })
}

export function withdrawBody(venue: Uint8Array, request: Unsigned<WithdrawalRequest>): Uint8Array {
  return WITHDRAW_BODY.encode({
    venue,
    trading_key: address(request.trading_key),
    commitment: hex(request.commitment, 32),
    destination: address(request.destination),
    amount: BigInt(request.amount),
    nonce: BigInt(request.nonce),
    expiry_slot: BigInt(request.expiry_slot),
    change_anchor: hex(request.change_anchor, 32),
  })
}

export function reshapeBody(venue: Uint8Array, request: Unsigned<ReshapeRequest>): Uint8Array {
  return RESHAPE_BODY.encode({
    venue,
    trading_key: address(request.trading_key),
    inputs: request.inputs.map((input) => hex(input, 32)),
    amounts: request.amounts.map(BigInt),
    anchor: hex(request.anchor, 32),
    nonce: BigInt(request.nonce),
    expiry_slot: BigInt(request.expiry_slot),
  })
}

function signerOf(request: Pick<CancelRequest, 'trading_key' | 'cancel_nonce'>): {
  trading_key: Uint8Array
  cancel_nonce: bigint
} {
  return { trading_key: address(request.trading_key), cancel_nonce: BigInt(request.cancel_nonce) }
}

function signed(body: Uint8Array, signature: string): Uint8Array {
  return concatBytes(body, hex(signature, 64))
}

function hex(text: string, width: number): Uint8Array {
  const bytes = fromHex(text, width)
  if (bytes === undefined) throw new RangeError(`expected ${2 * width} lowercase hex digits`)
  return bytes
}

function address(text: string): Uint8Array {
  const bytes = decodeBase58(text, 32)
  if (bytes === undefined) throw new RangeError('expected a base58 key of 32 bytes')
  return bytes
}
