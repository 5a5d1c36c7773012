/** A quorum shows a payout as refunded that was not: no note is credited that the own tree does not hold for it. */
import { afterEach, expect, test } from 'bun:test'
import { fromHex } from '../../../protocol/bytes'
import { depositCommitment, noteInner } from '../../../protocol/notes/notes'
import { bytes } from '../../kit/venue/memory_chain'
import { QUOTE_MINT, TestSite } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

const AMOUNT = 199_000_000n

/** A withdrawal whose batch has landed and whose payout waits in the queue. */
async function queued() {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const money = alice.deposit('quote', 200_000_000n)
  const other = alice.deposit('quote', AMOUNT)
  await open.chain.finalizeLeaves()
  const { withdrawal_id } = await open.venue.withdraw('alice', alice.withdrawal(money, AMOUNT, bytes(32)))
  await open.chain.tick(2)
  await open.chain.settleNext(false)
  const { refund_blinding, key } = [...open.engine.state.settlement.queued.values()][0] as never as {
    refund_blinding: Uint8Array
    key: { bytes: Uint8Array }
  }
  const inner = noteInner(key.bytes, refund_blinding)
  const commitmentAt = (leaf_index: number) =>
    depositCommitment({ mint: QUOTE_MINT, amount: AMOUNT, inner, leaf_index })
  const show = (refund_commitment: Uint8Array, refund_leaf_index: number) =>
    open.chain.outbox.recordPayout({
      number: 1,
      stage: 'finalized',
      outcome: 'refunded',
      signature: bytes(64),
      slot: open.ledger.slot,
      refund_commitment,
      refund_leaf_index,
    })
  const status = async () => (await open.venue.withdrawal('alice', withdrawal_id)).status
  return { open, other, commitmentAt, show, status }
}

test('another note, a leaf of another note and a leaf that does not exist refund nothing', async () => {
  const { open, other, commitmentAt, show, status } = await queued()
  const size = open.engine.state.leaves.size
  const lies: [Uint8Array, number][] = [
    [fromHex(other.commitment, 32)!, other.opening.leaf_index!],
    [commitmentAt(other.opening.leaf_index!), other.opening.leaf_index!],
    [commitmentAt(size), size],
  ]
  for (const [commitment, leaf_index] of lies) {
    expect(await show(commitment, leaf_index)).toBe(false)
    expect(await status()).toBe('finalized')
    expect(open.engine.state.notes.find(commitment)).toBeUndefined()
  }
  expect(open.chain.outbox.openPayouts()).toHaveLength(1)
})

test('the true refund counts once its leaf is in the own tree', async () => {
  const { open, commitmentAt, show, status } = await queued()
  const leaf_index = open.ledger.notes.leaf_count
  const commitment = commitmentAt(leaf_index)
  open.ledger.append([commitment])
  expect(await show(commitment, leaf_index)).toBe(false)
  await open.chain.finalizeLeaves(leaf_index)
  expect(await show(commitment, leaf_index)).toBe(true)
  expect(await status()).toBe('refunded')
  expect(open.engine.state.notes.find(commitment)).toMatchObject({ status: 'free', amount: AMOUNT })
  expect(open.chain.outbox.openPayouts()).toEqual([])
})
