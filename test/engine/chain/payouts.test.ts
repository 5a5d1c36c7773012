/** Payouts end one by one, as a payment or a note, for every kind of destination, and no settlement waits for them. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { addressOf, chainAddresses } from '../../../engine/chain/client/chain_client'
import { readQueue } from '../../../engine/chain/client/read_vault'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { PayLoop } from '../../../engine/chain/relayer/pay'
import { LIMITS } from '../../../engine/limits'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { compareBytes, concatBytes, readU64Le, u64Le } from '../../../protocol/bytes'
import { SYSTEM_PROGRAM, TOKEN_PROGRAM, vaultTokenAddress } from '../../../protocol/vault/addresses'
import { payInstruction } from '../../../protocol/vault/settle'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { JTO, USDC } from '../../../sandbox/environment'
import { fundedWallet, mintTo } from '../../kit/chain/chain_folder'
import { bendAccounts, type Lie, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { randomField, requestExitOf, VaultWorld } from '../../kit/chain/vault_world'
import { decodePay } from '../../kit/vault/open_vault'
import { EmbeddedTrading, soon } from '../../kit/venue/embedded_site'
import type { Deposit } from '../../kit/venue/trader'

const mint = decodeBase58(USDC, 32)!
const MIB = 1_024 * 1_024

async function opened(options: Parameters<VaultWorld['boot']>[0] = {}): Promise<VaultWorld> {
  const world = await VaultWorld.open()
  await world.deposit(1_000_000n)
  await world.boot(options)
  return world
}

/** A token account that can be paid; it holds one unit. */
async function payee(world: VaultWorld): Promise<Uint8Array> {
  const { address } = await fundedWallet(world.chain)
  await mintTo(world.chain, USDC, address, 1n)
  return decodeBase58(await associatedTokenAddress(address, USDC), 32)!
}

const balanceOf = (world: VaultWorld, account: Uint8Array): bigint =>
  readU64Le(world.chain.machine.accountAt(encodeBase58(account), 'finalized')!.data, 64)

/** Puts an account on the chain as it is, without a transaction. */
function install(world: VaultWorld, key: Uint8Array, data: Uint8Array, owner: Uint8Array): void {
  const account = { lamports: 30_000_000_000n, data, owner: encodeBase58(owner), executable: false }
  world.chain.machine.install([[encodeBase58(key), account]])
  world.chain.advance(1)
}

/** Drops every transaction that is no settlement. */
function dropPayments(world: VaultWorld): void {
  world.chain.faults.drop = (signature) => !world.outbox.wasRecorded(signature)
}

const ended = (world: VaultWorld, number: number): boolean =>
  world.outbox.payoutOf(number)?.stage === 'finalized'
const outcomes = (world: VaultWorld, numbers: number[]) =>
  numbers.map((number) => world.outbox.payoutOf(number)!.outcome)

test('a destination of 3 MiB comes back as a note, beside others that are paid, and settlement goes on', async () => {
  const world = await opened()
  const large = randomField()
  install(world, large, new Uint8Array(3 * MIB), SYSTEM_PROGRAM)
  const usable = await payee(world)
  world.outbox.add(
    world.nextPayload([
      world.payout({ mint, destination: large, amount: 300n }),
      world.payout({ mint, destination: usable, amount: 400n }),
    ]),
  )
  world.outbox.add(world.nextPayload())
  await world.outbox.until(
    () => world.outbox.stageOf(2) === 'finalized' && ended(world, 1) && ended(world, 2),
  )
  expect(outcomes(world, [1, 2])).toEqual(['refunded', 'paid'])
  expect(balanceOf(world, usable)).toBe(401n)
  const { refund_leaf_index, refund_commitment } = world.outbox.payoutOf(1)!
  await world.sink.until(() => world.sink.told.length > refund_leaf_index!)
  expect(compareBytes(world.sink.told[refund_leaf_index!]!, refund_commitment!)).toBe(0)
  expect([...world.outbox.violations, ...world.sink.violations, ...world.sink.halts]).toEqual([])
  await world.close()
})

test('destinations of up to 1 KiB share a transaction, larger and missing ones have their own; each is reported once per level', async () => {
  const world = await VaultWorld.open({}, 60)
  const endpoint = new LyingEndpoint(world.chain.url)
  const counts = new Map<string, number>()
  const queue = encodeBase58(chainAddresses(world.program).vault.queue)
  let histories = 0
  endpoint.lies = {
    getSignaturesForAddress(_, { params }) {
      if (params[0] === queue) histories += 1
      return undefined
    },
    sendTransaction(_, { params }) {
      const [wire] = params as [string]
      const { data } = transactionInstructions(Buffer.from(wire, 'base64')).at(-1)!
      const pay = decodePay(data)
      if (pay) counts.set(wire, pay.entries.length)
      return undefined
    },
  }
  await world.deposit(1_000_000n)
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const sizes = [1_024, 1_025, 1_024, 165]
  const destinations = sizes.map((size) => {
    const destination = randomField()
    install(world, destination, new Uint8Array(size), SYSTEM_PROGRAM)
    return destination
  })
  const payouts = [...destinations, randomField()].map((destination) => {
    return world.payout({ mint, destination, amount: 10n })
  })
  world.outbox.add(world.nextPayload(payouts))
  await world.outbox.until(() => payouts.every(({ number }) => ended(world, number)))
  expect([...counts.values()].sort()).toEqual([1, 1, 3])
  for (const { number } of payouts) {
    const stages = world.outbox.payouts.filter((one) => one.number === number).map(({ stage }) => stage)
    expect(stages).toEqual(['submitted', 'confirmed', 'finalized'])
  }
  // The own signatures explain every end.
  expect(histories).toBe(0)
  await world.close()
  await endpoint.stop()
}, 120_000)

test('payments that ended make room for others: more than may be in flight at a time all end', async () => {
  const world = await opened()
  const missing = () => world.payout({ mint, destination: randomField(), amount: 1n })
  for (let batch = 1; batch <= 4; batch++) {
    const payouts = Array.from({ length: 20 }, missing)
    world.outbox.add(world.nextPayload(payouts, 1, 1))
    await world.outbox.until(() => payouts.every(({ number }) => ended(world, number)))
  }
  expect(world.outbox.payouts.length).toBeGreaterThan(LIMITS.payments_in_flight_max)
  await world.close()
}, 180_000)

test('a destination closed after its payment was signed holds up no settlement, and comes back as a note', async () => {
  const world = await opened()
  const destination = await payee(world)
  dropPayments(world)
  world.outbox.add(world.nextPayload([world.payout({ mint, destination, amount: 400n })]))
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'submitted')
  install(world, destination, new Uint8Array(), SYSTEM_PROGRAM)
  world.outbox.add(world.nextPayload())
  await world.outbox.until(() => world.outbox.stageOf(2) === 'finalized')
  expect(ended(world, 1)).toBe(false)
  world.chain.faults.drop = undefined
  await world.outbox.until(() => ended(world, 1))
  expect(outcomes(world, [1])).toEqual(['refunded'])
  expect(world.sink.halts).toEqual([])
  await world.close()
})

test('an exit to the account that pays its bond is served, paid and closed', async () => {
  const world = await opened()
  const { nullifier, destination, refund_inner, account } = await requestExitOf(world, 5_000n, 'bond_payer')
  await world.sink.until(() => world.sink.exits.some(({ stage }) => stage === 'finalized'))
  // The wallet becomes a token account, as its owner could make it.
  const model = world.chain.machine.bank.newest(encodeBase58(await payee(world)))!
  install(world, destination, model.data, TOKEN_PROGRAM)
  const payout = world.payout({ kind: 'exit', mint, destination, amount: 5_000n, refund_inner, nullifier })
  const payload = world.nextPayload([payout])
  world.outbox.add({ ...payload, nullifiers: [...payload.nullifiers, nullifier].sort(compareBytes) })
  await world.outbox.until(() => ended(world, 1))
  expect(outcomes(world, [1])).toEqual(['paid'])
  while (world.chain.machine.accountAt(encodeBase58(account), 'finalized')) await Bun.sleep(1)
  expect(world.sink.halts).toEqual([])
  await world.close()
})

test('payments of another sender are found, also by a process that did not see them', async () => {
  const world = await opened()
  const destination = await payee(world)
  dropPayments(world)
  world.outbox.add(world.nextPayload([world.payout({ mint, destination, amount: 400n })]))
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'submitted')
  await world.port.close()
  const { program } = world
  const rpc = new RpcPool([world.chain.url], 5_000)
  const [entry] = (await readQueue({ rpc, address: chainAddresses(program).address }, 'confirmed')).entries
  world.chain.faults.drop = undefined
  const stranger = await fundedWallet(world.chain)
  const named = { place: entry!.place, number: 1, mint, destination, token_program: TOKEN_PROGRAM }
  await world.send(stranger, toInstruction(payInstruction({ program, refund: false, entries: [named] }), []))
  await world.boot()
  await world.outbox.until(() => ended(world, 1))
  expect(outcomes(world, [1])).toEqual(['paid'])
  expect(balanceOf(world, destination)).toBe(401n)
  await world.close()
})

test('a payout that does not end makes the status say so, until it ends', async () => {
  let later_ms = 0
  const world = await opened({ connect: { monotonicMs: () => performance.now() + later_ms } })
  const destination = await payee(world)
  dropPayments(world)
  world.outbox.add(world.nextPayload([world.payout({ mint, destination, amount: 400n })]))
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'submitted')
  const { slot } = world.port.view()
  while (world.port.view().slot < slot + 20) await Bun.sleep(1)
  // The same bytes are sent again; no others are signed while they may land.
  expect(world.outbox.payouts).toHaveLength(1)
  expect(world.port.health().reasons).not.toContain('payout_overdue')
  later_ms = 3_600_000
  expect(world.port.health()).toMatchObject({ overdue: true })
  expect(world.port.health().reasons).toContain('payout_overdue')
  world.chain.faults.drop = undefined
  await world.outbox.until(() => ended(world, 1))
  expect(world.port.health().reasons).not.toContain('payout_overdue')
  await world.close()
}, 120_000)

test('the queue grows when less than a third of its places is free, and every payout ends', async () => {
  const world = await opened()
  const destination = await payee(world)
  const some = (count: number) =>
    Array.from({ length: count }, () => world.payout({ mint, destination, amount: 1n }))
  let paid = 0n
  // Payments that all land at once may free the places before the growth is signed: then it is not needed.
  while (world.sink.capacities.length < 2) {
    dropPayments(world)
    for (const count of [20, 21]) world.outbox.add(world.nextPayload(some(count), 1, 1))
    const last = world.outbox.payloads.size
    await world.outbox.until(() => world.outbox.stageOf(last) === 'finalized')
    // A growth that was sent before the drops may land late.
    if (paid === 0n) expect(world.sink.capacities).toEqual([LIMITS.queue_capacity_first])
    world.chain.faults.drop = undefined
    await world.outbox.until(() => world.outbox.openPayouts().length === 0)
    paid += 41n
    await Bun.sleep(200)
  }
  expect(world.sink.capacities).toEqual([60, 120])
  expect(balanceOf(world, destination)).toBe(1n + paid)
  await world.close()
}, 180_000)

test('strangers that name the queue in many transactions cost no reading of them', async () => {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.deposit(1_000_000n)
  // The payment is a stranger's: no transaction of the venue closes the entry.
  endpoint.lies = {
    sendTransaction: (_, { params }) => {
      const { data } = transactionInstructions(Buffer.from((params as [string])[0], 'base64')).at(-1)!
      return decodePay(data) ? encodeBase58(new Uint8Array(64).fill(1)) : undefined
    },
  }
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const destination = await payee(world)
  world.outbox.add(world.nextPayload([world.payout({ mint, destination, amount: 400n })]))
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'submitted')
  let reads = 0
  let served = false
  endpoint.lies = {
    getTransaction: () => {
      reads += 1
      return served ? undefined : null
    },
  }
  const stranger = await fundedWallet(world.chain)
  const { program } = world
  const named = { place: 0, number: 1, mint, destination, token_program: TOKEN_PROGRAM }
  await world.send(stranger, toInstruction(payInstruction({ program, refund: false, entries: [named] }), []))
  while (reads === 0) await Bun.sleep(1)
  const { queue } = chainAddresses(program).address
  const { address } = stranger
  const naming = (sent: number) => ({
    programAddress: addressOf(SYSTEM_PROGRAM),
    accounts: [
      { address, role: 3, signer: stranger },
      { address, role: 1 } as const,
      { address: queue, role: 0 } as const,
    ],
    data: concatBytes(Uint8Array.of(2, 0, 0, 0), u64Le(BigInt(sent + 1))),
  })
  for (let sent = 0; sent < 150; sent++) await world.send(stranger, naming(sent))
  served = true
  reads = 0
  await world.outbox.until(() => ended(world, 1))
  expect(outcomes(world, [1])).toEqual(['paid'])
  expect(reads).toBeLessThan(50)
  await world.close()
  await endpoint.stop()
}, 120_000)

const world = new EmbeddedTrading()
const { site } = world
beforeAll(() => world.open(), 120_000)
afterAll(() => site.remove())

/** In a token account. */
const AMOUNT_AT = 64
const AMOUNT = 4_000_000n

const vault = () => vaultTokenAddress(site.chain.program_id!, mint)
const reasons = () => site.venue.status().reasons

/** Moves tokens out of the vault, or back into it, as no program lets anybody do. */
function change(amount: bigint): void {
  const { machine } = site.chain
  const held = machine.bank.newest(encodeBase58(vault()))!
  const data = held.data.slice()
  data.set(u64Le(readU64Le(data, AMOUNT_AT) + amount), AMOUNT_AT)
  machine.install([[encodeBase58(vault()), { ...held, data }]])
}

async function withdraw(deposit: Deposit, amount: bigint, destination: Uint8Array): Promise<string> {
  const request = world.alice.withdrawal(deposit, amount, destination)
  return (await site.venue.withdraw('alice', request)).withdrawal_id
}

async function untilStatus(withdrawal_id: string, status: string): Promise<void> {
  while ((await site.venue.withdrawal('alice', withdrawal_id)).status !== status) await soon()
}

/** A withdrawal of more than the vault holds; smaller payments are covered, and `heal` gives back the missing amount. */
async function failing(deposit: Deposit) {
  const missing = world.balance(vault()) - AMOUNT + 1n
  change(-missing)
  const destination = await world.payee(USDC)
  const withdrawal_id = await withdraw(deposit, AMOUNT, destination)
  while (!reasons().includes('payout_failing')) await soon()
  return { destination, withdrawal_id, heal: () => change(missing) }
}

async function expectAtRest(): Promise<void> {
  while (reasons().length > 0) await soon()
  expect(site.venue.status()).toMatchObject({ ready: true, matching: 'running', settlement: 'wired' })
  for (const { balance, liabilities } of await site.port.readMints()) expect(balance).toBe(liabilities)
  expect(site.fatal).toEqual([])
}

test('it is named and the venue stays ready, others are paid, batches land, and so is it once it can be', async () => {
  const [one, two, money] = [
    await world.deposited(world.alice, USDC, AMOUNT + 1_000_000n),
    await world.deposited(world.alice, USDC, 3_000_000n),
    await world.deposited(world.alice, USDC, 200_000_000n),
  ]
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  const { destination, withdrawal_id, heal } = await failing(one)
  expect(site.venue.status()).toMatchObject({ ready: true, settlement: 'degraded' })
  const other = await world.payee(USDC)
  await untilStatus(await withdraw(two, 2_000_000n, other), 'paid')
  expect(world.balance(other)).toBe(2_000_001n)
  const expiry_slot = site.venue.time().slot + 5_000
  await site.venue.place('alice', world.alice.place(money, { expiry_slot }))
  await site.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  expect(await site.venue.withdrawal('alice', withdrawal_id)).toMatchObject({ status: 'finalized' })
  // Rejected by the program, it is no delay of the venue's.
  site.later_ms += 20_000
  while (reasons().join() !== 'payout_failing') await soon()
  expect(site.venue.status()).toMatchObject({ ready: true })
  heal()
  await untilStatus(withdrawal_id, 'paid')
  expect(world.balance(destination)).toBe(AMOUNT + 1n)
  await expectAtRest()
}, 180_000)

test('seven days after it was queued it comes back as a note, not before, and the note pays out', async () => {
  const { destination, withdrawal_id, heal } = await failing(
    await world.deposited(world.alice, USDC, AMOUNT + 1_000_000n),
  )
  const early_s = LIMITS.payout_refund_after_s - 3_600
  site.chain.warpTime(early_s)
  site.later_ms += early_s * 1_000
  const signature = async () => (await site.venue.withdrawal('alice', withdrawal_id)).payout_signature
  const before = await signature()
  while ((await signature()) === before) await soon()
  expect(reasons()).toContain('payout_failing')
  site.chain.warpTime(3_600)
  site.later_ms += 3_600_000
  await untilStatus(withdrawal_id, 'refunded')
  expect(world.balance(destination)).toBe(1n)
  const { refund_commitment } = await site.venue.withdrawal('alice', withdrawal_id)
  heal()
  await expectAtRest()
  // The venue knows the note: no opening is needed.
  const payee = await world.payee(USDC)
  await untilStatus(await withdraw({ commitment: refund_commitment! } as Deposit, 3_000_000n, payee), 'paid')
  expect(world.balance(payee)).toBe(3_000_001n)
  await expectAtRest()
}, 180_000)

/** First byte of the queue account, and its bytes before the entries (protocol/vault/accounts.ts). */
const QUEUE_KIND = 7
const QUEUE_HEADER_BYTES = 160

/** Swallows the venue's payments: a stranger closes the entry. */
const swallowed: Lie = (_, { params }) => {
  const { data } = transactionInstructions(Buffer.from((params as [string])[0], 'base64')).at(-1)!
  return decodePay(data) ? encodeBase58(new Uint8Array(64).fill(1)) : undefined
}

/** One entry of the queue, and a lying quorum of one provider. */
async function queued() {
  const world = await VaultWorld.open()
  const endpoint = new LyingEndpoint(world.chain.url)
  await world.deposit(1_000_000n)
  endpoint.lies = { sendTransaction: swallowed }
  await world.boot({ connect: { rpc_urls: [endpoint.url] } })
  const { address } = await fundedWallet(world.chain)
  await mintTo(world.chain, USDC, address, 1n)
  const destination = decodeBase58(await associatedTokenAddress(address, USDC), 32)!
  world.outbox.add(world.nextPayload([world.payout({ mint, destination, amount: 400n })]))
  await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'submitted')
  const { program } = world
  const queue = encodeBase58(chainAddresses(program).vault.queue)
  const stranger = await fundedWallet(world.chain)
  const named = { place: 0, number: 1, mint, destination, token_program: TOKEN_PROGRAM }
  const instruction = toInstruction(payInstruction({ program, refund: false, entries: [named] }), [])
  return {
    world,
    endpoint,
    open: world.chain.machine.bank.newest(queue)!.data.slice(),
    pay: () => world.send(stranger, instruction),
    /** Lies that show the queue as `change` makes it, in the newest slot, and serve no transaction. */
    lie: (change: (data: Buffer) => void) => {
      endpoint.lies = {
        sendTransaction: swallowed,
        getTransaction: () => null,
        getMultipleAccounts: (result) => bendAccounts(result, QUEUE_KIND, change),
      }
    },
    passSlots: async (slots: number) => {
      const { slot } = world.port.view()
      while (world.port.view().slot < slot + slots) await Bun.sleep(1)
    },
    /** The truth, and its consequence. */
    async outcome() {
      endpoint.lies = {}
      await world.outbox.until(() => world.outbox.payoutOf(1)?.stage === 'finalized')
      const { outcome } = world.outbox.payoutOf(1)!
      await world.close()
      await endpoint.stop()
      return outcome
    },
  }
}

test('an entry is shown open long after it was paid', async () => {
  const { open, pay, lie, passSlots, outcome } = await queued()
  lie((data) => data.set(open))
  await pay()
  await passSlots(40)
  expect(await outcome()).toBe('paid')
}, 120_000)

test('an entry is shown closed long before it was paid', async () => {
  const { pay, lie, passSlots, outcome } = await queued()
  lie((data) => data.fill(0, QUEUE_HEADER_BYTES))
  await passSlots(40)
  await pay()
  await passSlots(3)
  expect(await outcome()).toBe('paid')
}, 120_000)

test('only a payment alone in its transaction is rejected, and only while it is open', async () => {
  const failed = { slot: 5, level: 'confirmed', error: { InstructionError: [0, { Custom: 7061 }] } }
  const all = async () => [{ at: 0, value: [failed] }]
  const rpc = Object.assign(new RpcPool(['http://one.example'], 1_000), { all })
  const health = { watch: () => undefined, set: () => undefined }
  const view = { agreed: () => 0, now: () => ({ slot: 1 }) }
  const pay = new PayLoop({ rpc, health, view } as never, {} as never)
  const rejectedAfter = async (...numbers: number[]) => {
    pay['flights'] = [{ numbers, signed: { signature: new Uint8Array(64) } as never, sent_slot: 0 }]
    await pay['followFlights']()
    return [...pay['rejected']]
  }
  expect([await rejectedAfter(1, 2), await rejectedAfter(3)]).toEqual([[], [3]])
  // A fork opened it again.
  pay['closed'].set(3, { slot: 5, wider: 0 })
  const shown = [{ at: 0, value: { entries: [{ number: 3 }], next_number: 4, slot: 9 } }] as never
  await pay['report']([{ number: 3 } as never], shown, shown)
  expect(pay['closed'].size).toBe(0)
  pay['forget'](new Set())
  expect([...pay['rejected']]).toEqual([])
})
