/** The worked and the published auction cases, answered by the venue's code and by the oracle. */

import { describe, expect, test } from 'bun:test'
import { existsSync, readFileSync } from 'node:fs'
import { type AuctionCase, answerCase, orderIdBytes, readCases } from '../../../client/audit/auction_cases'
import { type OracleAnswer, oracle } from './oracle'

const FILE = `${import.meta.dir}/../../../../shared/vectors/auction.json`
const present = existsSync(FILE)
if (!present)
  console.log('auction vectors: skipped, ../shared/vectors/auction.json is not part of the repository')

type Published = {
  id: string
  expect: Record<string, unknown>
  std4?: { price: number | null; volume: number }
}
const text = present ? readFileSync(FILE, 'utf8') : '{}'
const file = JSON.parse(text) as { own?: Published[]; external?: Published[] }
const cases = new Map(readCases(text).map((auction) => [auction.id, auction]))

function byOracle(auction: AuctionCase): OracleAnswer {
  const { collar_bps, price_rule, reference, seed, slot, volume_tolerance_bps } = auction
  const orders = auction.orders.map((order) => ({
    id: order.id,
    tie: orderIdBytes(order.id),
    side: order.side,
    price: BigInt(order.tick),
    qty: order.lots,
    min_fill: order.min_fill,
    immediate: order.immediate,
    batch: BigInt(order.arrival_batch),
    expiry: BigInt(order.expiry_slot),
  }))
  return oracle(orders, {
    reference: reference === null ? null : BigInt(reference),
    collar_bps: reference === null || collar_bps === null ? null : BigInt(collar_bps),
    price_rule,
    volume_tolerance_bps: BigInt(volume_tolerance_bps),
    seed,
    slot: BigInt(slot),
  })
}

function printed(answer: OracleAnswer) {
  const text_of = ([id, lots]: [string, bigint]) => [id, String(lots)]
  return {
    price: answer.price === null ? null : Number(answer.price),
    volume: String(answer.volume),
    surplus: String(answer.surplus),
    fills: Object.fromEntries(answer.fills.map(text_of)),
    cancelled: answer.cancelled,
    resting: Object.fromEntries(answer.resting.map(text_of)),
  }
}

describe.skipIf(!present)('auction cases', () => {
  test('there are 42 worked and 58 published ones', () => {
    expect(file.own?.length).toBe(42)
    expect(file.external?.length).toBe(58)
  })

  for (const { id, expect: expected } of file.own ?? []) {
    test(`${id} is answered as worked out by hand`, () => {
      const auction = cases.get(id)!
      expect(printed(byOracle(auction))).toEqual(expected as ReturnType<typeof printed>)
      if (id === 'r0-34') expect(answerCase(auction)).toHaveProperty('refused')
      else expect(answerCase(auction)).toEqual({ id, ...expected } as ReturnType<typeof answerCase>)
    })
  }

  for (const { id, expect: expected, std4 } of file.external ?? []) {
    test(`${id} has the published volume and the price of the standard rule`, () => {
      const auction = cases.get(id)!
      const answer = answerCase(auction)
      expect(answer).toEqual({ id, ...printed(byOracle(auction)) })
      expect(answer).toMatchObject({ price: std4!.price, volume: String(expected['volume']) })
    })
  }
})
