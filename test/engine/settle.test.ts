/** From crossing orders to finalized notes; and exits and payouts on the real chain with the venue on. */

import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync } from 'node:fs'
import { join } from 'node:path'
import { missingPast } from '../../engine/boot/restore'
import { transactionInstructions } from '../../engine/chain/client/transaction_status'
import type { CommandBody } from '../../engine/commands'
import { openHashing } from '../../engine/hashing/open_hashing'
import { openPayouts } from '../../engine/machine/settlement/payload'
import type { SettlementPayload } from '../../engine/ports'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { fromHex, toHex } from '../../protocol/bytes'
import { spentLogLeaf } from '../../protocol/notes/merkle_tree'
import { vaultTokenAddress } from '../../protocol/vault/addresses'
import { decodeSettleData } from '../../protocol/vault/settle'
import type * as wire from '../../protocol/wire/trading'
import type { OpenedChain } from '../../sandbox/chain/open_embedded_chain'
import { JTO, USDC } from '../../sandbox/environment'
import { fundedWallet } from '../kit/chain/chain_folder'
import { rootFromPath, spentRootFromPath } from '../kit/root_from_path'
import { EmbeddedTrading, requestExit, soon } from '../kit/venue/embedded_site'
import { World } from '../kit/venue/machine_world'
import { TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { type Deposit, element, Trader } from '../kit/venue/trader'

/** Each output of the batch has a path to the root the venue shows. */
async function outputsStandInTree(open: TestVenue, payload: SettlementPayload): Promise<void> {
  const { root } = open.venue.treeRoot()
  for (const { commitment } of payload.outputs) {
    const proof = await open.venue.treeInclusion(commitment)
    const siblings = proof.siblings.map((one) => fromHex(one, 32)!)
    expect(toHex(rootFromPath(commitment, proof.leaf_index, siblings))).toBe(root)
  }
}

const site = new TestSite()
afterEach(() => site.remove())

/** A buyer and a seller whose orders cross at the reference, both accepted. */
async function cross(open: TestVenue) {
  const alice = await Trader.provisioned(open, 'alice')
  const bob = await Trader.provisioned(open, 'bob')
  const money = alice.deposit('quote', 200_000_000n)
  const goods = bob.deposit('base', 3_000_000_000n)
  await open.chain.finalizeLeaves()
  const buy = alice.place(money)
  const sell = bob.place(goods, { side: 'sell' })
  await open.venue.place('alice', buy)
  await open.venue.place('bob', sell)
  return { alice, bob, buy, sell }
}

test('crossing orders fill at a close, settle, and their fills reach finality', async () => {
  const open = await site.open()
  const { buy, sell } = await cross(open)
  await open.chain.tick(2)
  const payload = await open.chain.settleNext()
  expect(payload.nullifiers).toHaveLength(2)
  const order = await open.venue.order('alice', buy.order_id)
  expect(order.status).toBe('filled')
  expect(order.fills).toHaveLength(1)
  expect(order.fills[0]).toMatchObject({ stage: 'finalized', settlement_batch: 1, price: '100000000' })
  const { items } = await open.venue.fills('bob', { after: 0, limit: 10 })
  expect(items.map((fill) => fill.order_id)).toEqual([sell.order_id])
  expect(open.venue.settlementHealth()).toMatchObject({ last_batch: 1 })
  expect(await open.venue.settlementBatch(1)).toMatchObject({ batch: 1, stage: 'finalized' })
  const stages = await open.venue.settlementOfOrder('alice', buy.order_id)
  expect(stages.fills).toEqual(order.fills)
})

test('a stop waits for a batch that is packed until it has landed', async () => {
  const open = await site.open()
  await cross(open)
  const { landings, pump } = open.engine
  await landings.done()
  await open.chain.tick(2)
  await pump.idle()
  const done = landings.done().then(() => 'landed')
  expect(await Promise.race([done, Bun.sleep(20)])).toBeUndefined()
  await open.chain.settleNext()
  expect(await Promise.race([done, Bun.sleep(5_000)])).toBe('landed')
})

test('a batch is final for its traders once the paths of its notes can be asked for, and not before', async () => {
  const open = await site.open()
  const { buy } = await cross(open)
  await open.chain.tick(2)
  const { outbox } = open.chain
  const record = outbox.recordStage.bind(outbox)
  const early: unknown[] = []
  outbox.recordStage = async (stage) => {
    const recorded = await record(stage)
    if (stage.stage === 'confirmed') {
      early.push(await record({ ...stage, stage: 'finalized' }))
      early.push((await open.venue.order('alice', buy.order_id)).fills[0]?.stage)
    }
    return recorded
  }
  await outputsStandInTree(open, await open.chain.settleNext())
  expect(early).toEqual([false, 'confirmed'])
  expect((await open.venue.order('alice', buy.order_id)).fills[0]?.stage).toBe('finalized')
})

test('every output of a settled batch is in the finalized tree under a verifiable path', async () => {
  const open = await site.open()
  await cross(open)
  await open.chain.tick(2)
  const payload = await open.chain.settleNext()
  const { root, leaf_count } = open.venue.treeRoot()
  expect(leaf_count).toBe(2 + payload.outputs.length)
  await outputsStandInTree(open, payload)
  const inclusion = await open.venue.treeInclusion(2)
  expect(inclusion).toMatchObject({ root, usable: true })
  expect(inclusion.siblings).toHaveLength(40)
  const again = await open.venue.treeInclusion(fromHex(inclusion.commitment, 32)!)
  expect(again.leaf_index).toBe(2)
})

test('a withdrawal pays out through a batch and reports its stages', async () => {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const deposit = alice.deposit('base', 5_000_000n)
  await open.chain.finalizeLeaves()
  const accepted = await open.venue.withdraw('alice', alice.withdrawal(deposit, 2_000_000n))
  expect(accepted).toMatchObject({ status: 'accepted', amount: '2000000', fee: '100' })
  await open.chain.tick(1)
  const payload = await open.chain.settleNext()
  expect(payload.payouts.map(({ amount }) => amount)).toEqual([2_000_000n])
  const withdrawal = await open.venue.withdrawal('alice', accepted.withdrawal_id)
  expect(withdrawal).toMatchObject({ status: 'paid', settlement_batch: 1, payout_number: 1 })
})

test('a batch is proved spent under every root the chain had since, and not before', async () => {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const deposits = [1, 2].map(() => alice.deposit('base', 5_000_000n))
  await open.chain.finalizeLeaves()
  const roots: Uint8Array[] = []
  const spent: Uint8Array[] = []
  for (const deposit of deposits) {
    await open.venue.withdraw('alice', alice.withdrawal(deposit, 2_000_000n))
    await open.chain.tick(1)
    const { nullifiers } = await open.chain.settleNext()
    spent.push(nullifiers[0]!)
    roots.push(open.ledger.config.spent_root)
  }
  const { outbox } = open.chain
  for (const [at, nullifier] of spent.entries()) {
    expect(await outbox.spentProof(nullifier, at)).toBeUndefined()
    for (let count = at + 1; count <= 2; count++) {
      const { batch_id, nullifiers, siblings, root } = (await outbox.spentProof(nullifier, count))!
      expect({ batch_id, nullifiers, root }).toEqual({
        batch_id: at + 1,
        nullifiers: [nullifier],
        root: roots[count - 1]!,
      })
      expect(spentRootFromPath(spentLogLeaf(batch_id, nullifiers), at, siblings)).toEqual(root)
    }
  }
  expect(await outbox.spentProof(new Uint8Array(32), 2)).toBeUndefined()
  expect(await outbox.spentProof(spent[0]!, 3)).toBeUndefined()
})

test('a venue restored from chain goes on with the numbers of the queue and pays open entries', async () => {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const deposit = alice.deposit('base', 5_000_000n)
  await open.chain.finalizeLeaves()
  await open.venue.withdraw('alice', alice.withdrawal(deposit, 2_000_000n))
  await open.chain.tick(1)
  await open.chain.settleNext(false)
  const [entry] = open.ledger.config.queue.entries
  const restored = new World()
  const dir = mkdtempSync(join(site.dir, 'restored-'))
  const hash = await openHashing({ dir, key: new Uint8Array(32) })
  const parts = { chain: open.chain, hash, state: restored.state }
  const vault = await open.chain.readConfig()
  const commands = (await missingPast(parts, vault)) as CommandBody[]
  for (const command of commands) restored.must(command)
  // A boot that dies before its epoch is open journals the queue once more.
  restored.must(commands.at(-1)!)
  expect(await missingPast(parts, vault)).toEqual(commands.slice(-1))
  expect(await missingPast(parts, { ...vault, spent_root: new Uint8Array(32) })).toBe('incomplete')
  await hash.close()
  const { number, mint, destination, amount } = entry!
  expect(openPayouts(restored.state)).toEqual([
    { number, mint, destination, amount, batch_id: 0, signature: undefined },
  ])
  expect(restored.state.settlement).toMatchObject({ next_payout: 2, payouts_open: 1, last_batch: 1 })
})

test('a reshape splits a note into the amounts it names', async () => {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const deposit = alice.deposit('base', 5_000_000n)
  await open.chain.finalizeLeaves()
  const accepted = await open.venue.reshape('alice', alice.reshape([deposit], [2_000_000n, 3_000_000n]))
  expect(accepted.status).toBe('accepted')
  await open.chain.tick(1)
  await open.chain.settleNext()
  const reshape = await open.venue.reshapeOf('alice', accepted.reshape_id)
  expect(reshape.status).toBe('finalized')
  expect(reshape.outputs.map(({ amount }) => amount)).toEqual(['2000000', '3000000'])
  // Known from the start: the same notes, before any batch.
  expect(accepted.outputs).toEqual(reshape.outputs)
})

/** Whether the signature is that of a settlement that arrived after this call. */
function settlementsOf({ machine }: OpenedChain): (signature: string) => boolean {
  const settlements = new Set<string>()
  const enqueue = machine.enqueue.bind(machine)
  machine.enqueue = (decoded) => {
    const settles = transactionInstructions(decoded.bytes).some(
      ({ data }) => decodeSettleData(data) !== undefined,
    )
    if (settles) settlements.add(decoded.signature!)
    enqueue(decoded)
  }
  return (signature) => settlements.has(signature)
}

const world = new EmbeddedTrading()
const { site: exitsSite } = world
beforeAll(() => world.open(), 120_000)
afterAll(() => exitsSite.remove())

test('a deposit the venue never saw opened is paid out', async () => {
  const stranger = world.trader('nobody')
  const deposit = await world.deposited(stranger, USDC, 7_000_000n)
  const destination = await world.payee(USDC)
  const { account } = await requestExit(exitsSite, stranger, deposit, destination)
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  await world.untilBalance(destination, 7_000_001n)
}, 120_000)

test('a note that backs a live order is paid out and the order cancelled', async () => {
  const deposit = await world.deposited(world.alice, USDC, 200_000_000n)
  const order = world.alice.place(deposit, { expiry_slot: world.alice.site.ledger.slot + 5_000 })
  await exitsSite.venue.place('alice', order)
  const destination = await world.payee(USDC)
  const { account } = await requestExit(exitsSite, world.alice, deposit, destination)
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  await world.untilBalance(destination, 200_000_001n)
  const ended = await exitsSite.venue.order('alice', order.order_id)
  expect(ended).toMatchObject({ status: 'cancelled', reason: 'note_exited', filled_amount: '0' })
}, 120_000)

test('a note in an unlanded batch is refused once that has landed, and again when asked for later', async () => {
  const money = await world.deposited(world.alice, USDC, 200_000_000n)
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  const destination = await world.payee(USDC)
  const payer = await fundedWallet(exitsSite.chain)
  const isSettlement = settlementsOf(exitsSite.chain)
  exitsSite.chain.faults.drop = isSettlement
  const expiry_slot = world.alice.site.ledger.slot + 5_000
  const buy = world.alice.place(money, { expiry_slot })
  await exitsSite.venue.place('alice', buy)
  await exitsSite.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
  await world.until('alice', ({ kind }) => kind === 'fill.matched')
  const { account } = await requestExit(exitsSite, world.alice, money, destination, { payer })
  await world.untilAccount(account, true)
  expect((await world.events('alice')).some(({ kind }) => kind === 'fill.confirmed')).toBe(false)
  exitsSite.chain.faults.drop = undefined
  await world.untilAccount(account, false)
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  await requestExit(exitsSite, world.alice, money, destination)
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  expect(world.balance(destination)).toBe(1n)
  expect(await exitsSite.venue.order('alice', buy.order_id)).toMatchObject({ status: 'filled' })
  expect(exitsSite.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  expect(exitsSite.fatal).toEqual([])
}, 120_000)

/** Of a token account: 2 is frozen. */
const STATE_AT = 108

/** A token account that its mint's authority has frozen. */
async function frozenAccount(): Promise<Uint8Array> {
  const account = await world.payee(USDC)
  const { machine } = exitsSite.chain
  const held = machine.bank.newest(encodeBase58(account))!
  const data = held.data.slice()
  data[STATE_AT] = 2
  machine.install([[encodeBase58(account), { ...held, data }]])
  return account
}

async function refundOf(deposit: Deposit, amount: bigint, destination: Uint8Array): Promise<wire.Withdrawal> {
  const { venue } = exitsSite
  const { withdrawal_id } = await venue.withdraw(
    'alice',
    world.alice.withdrawal(deposit, amount, destination),
  )
  for (;;) {
    const found = await venue.withdrawal('alice', withdrawal_id)
    if (found.status === 'paid' || found.status === 'refunded') return found
    await soon()
  }
}

test('withdrawals to closed, frozen, wrong-mint and vault accounts are refunded as notes that pay out next time', async () => {
  const mint = decodeBase58(USDC, 32)!
  const destinations = {
    missing: element(),
    frozen: await frozenAccount(),
    wrong_mint: await world.payee(JTO),
    vault: vaultTokenAddress(exitsSite.chain.program_id!, mint),
    no_token_account: decodeBase58(USDC, 32)!,
    program: exitsSite.chain.program_id!,
  }
  const payee = await world.payee(USDC)
  const deposits: Deposit[] = []
  for (const _ of Object.keys(destinations))
    deposits.push(await world.deposited(world.alice, USDC, 5_000_000n))
  const outcomes = await Promise.all(
    Object.values(destinations).map((destination, at) => refundOf(deposits[at]!, 4_000_000n, destination)),
  )
  expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'refunded'))
  // The venue knows the notes: no opening is needed.
  const refunds = outcomes.map(({ refund_commitment }) => ({ commitment: refund_commitment! }) as Deposit)
  const paid = await Promise.all(refunds.map((refund) => refundOf(refund, 3_000_000n, payee)))
  expect(paid.map(({ status }) => status)).toEqual(paid.map(() => 'paid'))
  expect(world.balance(payee)).toBe(1n + 3_000_000n * BigInt(paid.length))
  expect(exitsSite.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  for (const { balance, liabilities } of await exitsSite.port.readMints()) expect(balance).toBe(liabilities)
}, 180_000)

test('an exit that its destination cannot receive ends served, as a note of the owner', async () => {
  const deposit = await world.deposited(world.alice, USDC, 6_000_000n)
  const before = await exitsSite.port.readConfig()
  const { account } = await requestExit(exitsSite, world.alice, deposit, await frozenAccount())
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  while ((await exitsSite.port.readConfig()).leaf_count !== before.leaf_count + 1) await soon()
  for (const { balance, liabilities } of await exitsSite.port.readMints()) expect(balance).toBe(liabilities)
  expect(exitsSite.venue.status()).toMatchObject({ ready: true, settlement: 'wired' })
  expect(exitsSite.fatal).toEqual([])
}, 120_000)

test('of notes that are merged the venue may know the first, and learns the other by its opening', async () => {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const notes = [0, 1].map(() => alice.deposit('quote', 200_000_000n))
  await open.chain.finalizeLeaves()
  // The inputs are in the order of their commitments.
  const [known] = notes.toSorted((a, b) => (a.commitment < b.commitment ? -1 : 1))
  const { order_id } = await open.venue.place('alice', alice.place(known!))
  await open.venue.cancel('alice', order_id, alice.cancel(order_id))
  const merged = await open.venue.reshape('alice', alice.reshape(notes, [400_000_000n]))
  expect(merged.status).toBe('accepted')
})
