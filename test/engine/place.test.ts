/** Placing, resending, cancelling and modifying through the whole engine. */
import { afterEach, expect, spyOn, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { RECEIPT_BODY } from '../../protocol/bodies/statements'
import { concatBytes, fromHex, toHex } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import { isInReceipt, treeLeaf } from '../../protocol/rfc6962_tree'
import type * as wire from '../../protocol/wire/trading'
import { isAtRest, TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { refusalOf } from '../kit/venue/refusal_of'
import { Trader } from '../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

function expectReceipt(open: TestVenue, receipt: wire.Receipt, body: Uint8Array, signature: string): void {
  const hex32 = (text: string) => fromHex(text, 32)!
  const leaf = treeLeaf(concatBytes(body, fromHex(signature, 64)!))
  const root = hex32(receipt.root)
  expect(isInReceipt(leaf, receipt.index, receipt.path.map(hex32), root)).toBe(true)
  const signed = RECEIPT_BODY.encode({
    venue: hex32(open.venue.identity().venue),
    epoch: BigInt(receipt.epoch),
    seq: BigInt(receipt.seq),
    head: hex32(receipt.head),
    root,
  })
  expect(verifySignature(fromHex(receipt.signature, 64)!, signed, open.keys.statement_key)).toBe(true)
}

async function buyer(open: TestVenue): Promise<{ trader: Trader; request: wire.PlaceRequest }> {
  const trader = await Trader.provisioned(open, 'alice')
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  return { trader, request: trader.place(deposit) }
}

test('an accepted order is durable before it is answered, and its receipt proves it', async () => {
  const open = await site.open()
  const { trader, request } = await buyer(open)
  const placed = await open.venue.place('alice', request)
  expect(placed.order_id).toBe(request.order_id)
  expect(placed.status).toBe('accepted')
  expect(open.engine.sequencer.seq_durable).toBeGreaterThanOrEqual(placed.receipt.seq)
  expectReceipt(open, placed.receipt, trader.placeBody(request), request.signature)
  const order = await open.venue.order('alice', request.order_id)
  expect(order).toMatchObject({ status: 'accepted', amount: request.amount, seq: placed.seq })
})

test('commands of one turn share a group and each proves its own place in it', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const deposits = Array.from({ length: 5 }, () => trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  const requests = deposits.map((deposit) => trader.place(deposit))
  const placed = await Promise.all(requests.map((request) => open.venue.place('alice', request)))
  expect(new Set(placed.map(({ receipt }) => receipt.seq)).size).toBe(1)
  expect(placed.map(({ receipt }) => receipt.index)).toEqual([0, 1, 2, 3, 4])
  placed.forEach(({ receipt }, at) => {
    expectReceipt(open, receipt, trader.placeBody(requests[at]!), requests[at]!.signature)
  })
})

test('a close ends its group, as the head behind it is the commit: an order of the same turn is of the next one', async () => {
  const open = await site.open()
  const { trader, request } = await buyer(open)
  const deposit = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', request)
  const { engine, chain } = open
  chain.tick(2)
  expect(engine.state.closed).toBeDefined()
  expect(engine.sequencer.seq_durable).toBeLessThan(engine.sequencer.seq_executed)
  const { status } = await open.venue.place('alice', trader.place(deposit))
  expect([status, open.fatal]).toEqual(['accepted', []])
})

test('nonces are answered at once, and while a command is under way once it is durable', async () => {
  const open = await site.open()
  const { trader, request } = await buyer(open)
  const { sequencer } = open.engine
  await sequencer.durable()
  const before = { place_nonce: '0', cancel_nonce: '0' }
  expect(open.venue.nonces('alice', trader.trading_key)).toEqual(before)
  const placing = open.venue.place('alice', request)
  while (sequencer.seq_durable === sequencer.seq_executed) await new Promise(setImmediate)
  const told = open.venue.nonces('alice', trader.trading_key)
  expect(told).toBeInstanceOf(Promise)
  const seq = sequencer.seq_executed
  expect(await told).toMatchObject({ place_nonce: request.nonce })
  expect(sequencer.seq_durable).toBeGreaterThanOrEqual(seq)
  await placing
})

test('an identical resend learns the original result and receipt, other content that the id is taken', async () => {
  const open = await site.open()
  const { trader, request } = await buyer(open)
  const placed = await open.venue.place('alice', request)
  const again = await refusalOf(open.venue.place('alice', request))
  expect(again.code).toBe('order_exists')
  expect(again.applied).toBe('yes')
  expect(again.facts.result).toEqual(placed)
  const other = trader.place(
    { commitment: request.collateral_commitment, opening: request.opening! },
    { order_id: request.order_id, amount: '500000000' },
  )
  expect((await refusalOf(open.venue.place('alice', other))).code).toBe('order_id_taken')
})

test('a resend in the same turn waits until the original is durable', async () => {
  const open = await site.open()
  const { request } = await buyer(open)
  const order: string[] = []
  const first = open.venue.place('alice', request).then(() => order.push('first'))
  const second = refusalOf(open.venue.place('alice', request)).then((refusal) => {
    order.push(refusal.code)
  })
  await Promise.all([first, second])
  expect(order).toEqual(['first', 'order_exists'])
})

test('a cancelled order is final, and cancelling it again says so', async () => {
  const open = await site.open()
  const { trader, request } = await buyer(open)
  await open.venue.place('alice', request)
  const cancelled = await open.venue.cancel('alice', request.order_id, trader.cancel(request.order_id))
  expect(cancelled.status).toBe('cancelled')
  expect((await open.venue.order('alice', request.order_id)).reason).toBe('by_owner')
  const again = await refusalOf(open.venue.cancel('alice', request.order_id, trader.cancel(request.order_id)))
  expect(again.code).toBe('order_final')
  expect(again.facts.status_now).toBe('cancelled')
})

test('a modify replaces the old order on the same note', async () => {
  const open = await site.open()
  const { trader, request } = await buyer(open)
  await open.venue.place('alice', request)
  const deposit = { commitment: request.collateral_commitment, opening: request.opening! }
  const replacement = trader.place(deposit, { price_limit: '90000000' })
  const result = await open.venue.modify(
    'alice',
    request.order_id,
    trader.modify(request.order_id, replacement),
  )
  expect(result).toMatchObject({ old_order_id: request.order_id, order_id: replacement.order_id })
  const old = await open.venue.order('alice', request.order_id)
  expect(old).toMatchObject({ status: 'cancelled', reason: 'replaced', replaced_by: replacement.order_id })
})

test('cancel-all and the dead-man timer take orders out', async () => {
  const open = await site.open()
  const trader = await Trader.provisioned(open, 'alice')
  const deposits = [1, 2, 3].map(() => trader.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  const [first, second, third] = deposits.map((deposit) => trader.place(deposit))
  await open.venue.place('alice', first!)
  await open.venue.place('alice', second!)
  const all = await open.venue.cancelAll('alice', [trader.cancelAll('SOL-USDC')])
  expect(all.cancelled.toSorted()).toEqual([first!.order_id, second!.order_id].toSorted())
  await open.venue.place('alice', third!)
  const timer = await open.venue.deadMan('alice', trader.deadMan(3))
  expect(timer.expires_slot).toBeGreaterThan(open.ledger.slot - 1)
  await open.chain.tick(4)
  await open.engine.sequencer.durable()
  expect(await open.venue.order('alice', third!.order_id)).toMatchObject({
    status: 'cancelled',
    reason: 'deadman',
  })
})

test('reads of others are refused and unknown ids are not found', async () => {
  const open = await site.open()
  const { request } = await buyer(open)
  await Trader.provisioned(open, 'bob')
  await open.venue.place('alice', request)
  expect((await refusalOf(open.venue.order('bob', request.order_id))).code).toBe('not_owner')
  expect((await refusalOf(open.venue.order('bob', toHex(new Uint8Array(16).fill(9))))).code).toBe(
    'order_unknown',
  )
})

test('whatever is refused is a rejection, by a rule, by its signature or by the decision', async () => {
  const open = await site.open()
  const { request } = await buyer(open)
  await open.venue.place('alice', request)
  const forged = { ...request, signature: '00'.repeat(64) }
  const refused = [{ ...request, amount: '1' }, forged, request].map((one) => open.venue.place('alice', one))
  const codes = await Promise.all(refused.map(async (one) => (await refusalOf(one)).code))
  expect(codes).toEqual(['amount_out_of_range', 'signature_invalid', 'order_exists'])
})

/** Alice's order takes part in a closed batch that the chain does not decide. */
async function undecided() {
  const open = await site.open()
  const { trader, request } = await buyer(open)
  const later = trader.deposit('quote', 200_000_000n)
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', request)
  site.ledger.withheld = true
  open.chain.tick(5)
  while (open.engine.state.closed === undefined) await Bun.sleep(1)
  await open.engine.sequencer.durable()
  const cancel = trader.cancel(request.order_id)
  const cancelling = () => open.venue.cancel('alice', request.order_id, cancel)
  return { open, sequencer: open.engine.sequencer, later: trader.place(later), cancelling }
}

test('an identical resend gets the answer of a waiting cancel although the decision comes with it', async () => {
  const { open, sequencer, later, cancelling } = await undecided()
  const first = cancelling()
  await sequencer.durable()
  // One group: a command that makes the resend wait for the disk, and the decision behind it.
  const placing = open.venue.place('alice', later)
  const again = cancelling()
  const { closed, slot, epoch } = open.engine.state
  const { seq } = closed!
  const decision = { kind: 'decided', seq, outcome: 'void', slot, epoch, commit_seq: 0 } as const
  await Promise.all([placing, sequencer.submit(decision)])
  expect(await again).toEqual(await first)
  expect(await first).toMatchObject({ status: 'cancelled', receipt: { epoch: 1 } })
})

test('a freeze does not decide a closed batch: a copy of the disk and the instance itself follow the chain', async () => {
  const { open, cancelling } = await undecided()
  const first = cancelling()
  open.chain.sink.halted('vault_frozen')
  await open.engine.sequencer.durable()
  const copy = join(site.dir, 'copy')
  for (const part of ['journal', 'snapshots', 'history', 'facts', 'trees'])
    cpSync(join(site.dir, part), join(copy, part), { recursive: true, filter: isAtRest })
  open.chain.landCommit()
  expect(await first).toMatchObject({ status: 'cancelled', receipt: { epoch: 1 } })
  await open.engine.sequencer.durable()
  const kinds = async ({ venue }: TestVenue) =>
    (await venue.events('alice', { after: 0, limit: 100 })).items.map(({ kind }) => kind)
  const own = await kinds(open)
  const { config } = site.ledger
  await open.close()
  site.ledger.config = config
  const booted = await site.open({}, copy)
  expect(await kinds(booted)).toEqual(own)
  expect(own).not.toContain('batch.voided')
  expect(booted.engine.state.halted).toBe('vault_frozen')
})

test('a second without commands returns their garbage to the system', async () => {
  const open = await site.open()
  const collected = spyOn(Bun, 'gc')
  try {
    const { request } = await buyer(open)
    await open.venue.place('alice', request)
    for (let wait = 0; wait < 40 && collected.mock.calls.length === 0; wait++) await Bun.sleep(100)
    expect(collected).toHaveBeenCalledWith(true)
  } finally {
    collected.mockRestore()
  }
})
