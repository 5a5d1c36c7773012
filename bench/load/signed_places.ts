/** Complete, signed place requests as the bytes that go over the wire. */
import { anchorPoolHash, PLACE_BODY } from '../../protocol/bodies/trading'
import { fromHex } from '../../protocol/bytes'
import { random } from '../kit/figures'
import {
  elementNamed,
  hexOf,
  KEYS,
  LOT,
  named,
  pairNamed,
  REFERENCE_TICKS,
  SYMBOL,
  TICK,
} from '../venue/bench_config'
import { sideOf } from '../venue/fund_notes'

export type PlaceLoad = {
  /** Notes the venue was funded with, and the first and number of those to place on. */
  notes: number
  from: number
  count: number
  two_sided: boolean
  venue: string
  /** Of account `bench-i` at i. */
  tokens: string[]
  host: string
  expiry_slot: number
}

/** Anchors of one order, as the wallet makes them. */
const ANCHORS = 4

/** One request per note, in an order in which each key's nonces rise. */
export function signedPlaces(load: PlaceLoad): Buffer[] {
  const pairs = Array.from({ length: KEYS }, (_, at) => pairNamed(`key ${at}`))
  const anchors = Array.from({ length: ANCHORS }, (_, at) => elementNamed(`place anchor ${at}`))
  const anchor_pool_hash = anchorPoolHash(anchors)
  const first_nonce = Math.ceil(load.notes / KEYS) + 1
  const venue = fromHex(load.venue, 32)!
  const next = random(load.from + 1)
  return Array.from({ length: load.count }, (_, at) => {
    const index = load.from + at
    const key = index % KEYS
    const pair = pairs[key]!
    const side = sideOf(index, load.two_sided)
    const ticks = ticksOf(load.two_sided, next())
    const order = {
      order_id: named(`order ${index}`, 16),
      symbol: SYMBOL,
      side,
      type: 'limit' as const,
      amount: LOT * BigInt(1 + (next() % 1_000)),
      price_limit: TICK * BigInt(ticks),
      nonce: BigInt(first_nonce + Math.floor(index / KEYS)),
      collateral_commitment: elementNamed(`note ${index}`),
    }
    const body = PLACE_BODY.encode({
      ...order,
      venue,
      trading_key: pair.public_key,
      min_fill: 0n,
      expiry_slot: BigInt(load.expiry_slot),
      anchor_pool_hash,
    })
    const text = JSON.stringify({
      ...order,
      order_id: hexOf(order.order_id),
      trading_key: pair.text,
      amount: String(order.amount),
      price_limit: String(order.price_limit),
      nonce: String(order.nonce),
      collateral_commitment: hexOf(order.collateral_commitment),
      expiry_slot: load.expiry_slot,
      continuation_anchors: anchors.map(hexOf),
      signature: hexOf(pair.sign(body)),
    })
    return postRequest('/orders', load.host, load.tokens[key % load.tokens.length]!, text)
  })
}

/** Two-sided orders cross at the reference; else buys rest below it and nothing matches. */
function ticksOf(two_sided: boolean, dice: number): number {
  const away = dice % 2_000
  if (!two_sided) return REFERENCE_TICKS - 2_000 + away
  return REFERENCE_TICKS - 50 + (away % 100)
}

function postRequest(path: string, host: string, token: string, body: string): Buffer {
  return Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
}

export function getRequest(path: string, host: string, token: string | undefined): Buffer {
  const bearer = token === undefined ? '' : `authorization: Bearer ${token}\r\n`
  return Buffer.from(`GET ${path} HTTP/1.1\r\nhost: ${host}\r\n${bearer}\r\n`)
}
