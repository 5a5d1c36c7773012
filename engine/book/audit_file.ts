/** Owns the reading of an auction file (`own` and `external` cases): its JSON form, checked, as cases to answer. */

import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { AuctionCase, CaseOrder } from './audit_case'
import { TICK_MAX } from './book'

const whole = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
const tick = Type.Integer({ minimum: 1, maximum: TICK_MAX })
const lots = Type.String({ pattern: '^(0|[1-9][0-9]{0,38})$' })
const side = Type.Union([Type.Literal('buy'), Type.Literal('sell')])
const nullable_tick = Type.Union([tick, Type.Null()])

/** A case of this venue's rules. `rule` `maxvol-ref` is price rule `ref`; `bandBps` is the collar. */
const OwnCase = Type.Object({
  id: Type.String(),
  config: Type.Object({
    ref: nullable_tick,
    bandBps: Type.Union([whole, Type.Null()]),
    rule: Type.Union([Type.Literal('std4'), Type.Literal('maxvol-ref')]),
    slot: whole,
    tolBps: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
    seed: Type.Optional(Type.String({ pattern: '^[0-9a-fA-F]{64}$' })),
  }),
  orders: Type.Array(
    Type.Object({
      id: Type.String(),
      side,
      price: tick,
      qty: lots,
      arrivalBatch: whole,
      expirySlot: whole,
      ioc: Type.Boolean(),
      minFill: lots,
    }),
  ),
})
/** A published case: price null is a market order, all orders are of one batch. */
const ExternalCase = Type.Object({
  id: Type.String(),
  reference: nullable_tick,
  orders: Type.Array(
    Type.Object({ id: Type.String(), side, price: nullable_tick, qty: Type.Integer({ minimum: 1 }) }),
  ),
})
const AuctionFile = Type.Object({
  own: Type.Optional(Type.Array(OwnCase)),
  external: Type.Optional(Type.Array(ExternalCase)),
})

/** The cases of a file in the order they stand in it. Throws SyntaxError naming the place that is not well formed. */
export function readCases(text: string): AuctionCase[] {
  const file: unknown = JSON.parse(text)
  if (!Value.Check(AuctionFile, file)) {
    const first = Value.Errors(AuctionFile, file).First()
    throw new SyntaxError(`not an auction file: ${first?.path ?? ''} ${first?.message ?? ''}`)
  }
  const cases: AuctionCase[] = []
  for (const name of Object.keys(file)) {
    if (name === 'own') for (const own of file.own ?? []) cases.push(ownCase(own))
    if (name === 'external') for (const external of file.external ?? []) cases.push(externalCase(external))
  }
  for (const { id, orders } of cases) {
    if (new Set(orders.map((order) => order.id)).size !== orders.length)
      throw new SyntaxError(`not an auction file: case ${id} names an order twice`)
    if (orders.some((order) => order.lots === 0n))
      throw new SyntaxError(`not an auction file: case ${id} has no lots`)
  }
  return cases
}

function ownCase({ id, config, orders }: Static<typeof OwnCase>): AuctionCase {
  return {
    id,
    slot: config.slot,
    reference: config.ref,
    collar_bps: config.bandBps,
    price_rule: config.rule === 'std4' ? 'std4' : 'ref',
    volume_tolerance_bps: config.tolBps ?? 0,
    seed: Uint8Array.fromHex(config.seed ?? '00'.repeat(32)),
    orders: orders.map((order) => ({
      id: order.id,
      side: order.side,
      tick: order.price,
      lots: BigInt(order.qty),
      min_fill: BigInt(order.minFill),
      immediate: order.ioc,
      arrival_batch: order.arrivalBatch,
      expiry_slot: order.expirySlot,
    })),
  }
}

function externalCase({ id, reference, orders }: Static<typeof ExternalCase>): AuctionCase {
  const prices = orders.flatMap((order) => order.price ?? [])
  const edges = reference === null ? prices : [...prices, reference]
  const market = { buy: Math.max(1, ...edges), sell: edges.length === 0 ? 1 : Math.min(...edges) }
  return {
    id,
    slot: 0,
    reference,
    collar_bps: null,
    price_rule: 'std4',
    volume_tolerance_bps: 0,
    seed: new Uint8Array(32),
    orders: orders.map(
      (order): CaseOrder => ({
        id: order.id,
        side: order.side,
        tick: order.price ?? market[order.side],
        lots: BigInt(order.qty),
        min_fill: 0n,
        immediate: false,
        arrival_batch: 1,
        expiry_slot: 0,
      }),
    ),
  }
}
