/** The chain accepts an epoch of an attested vault by machine, build and both keys alone; no batch beyond its limits. */

import { expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes, isSolanaError } from '@solana/kit'
import fc from 'fast-check'
import {
  buildTransaction,
  COMPUTE_UNITS_MAX,
  requireSize,
  TransactionTooLarge,
  toInstruction,
  V1_BYTES_MAX,
} from '../../../engine/chain/client/build_transaction'
import { addressOf } from '../../../engine/chain/client/chain_client'
import type { ChainOptions } from '../../../engine/chain/open_chain'
import { payloadOf } from '../../../engine/machine/settlement/payload'
import type { SettlementPayload } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { publicKeyOf } from '../../../protocol/sign'
import { decodeConfig } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import { announceInstruction, withoutSuccessor } from '../../../protocol/vault/admin'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { settleInstruction } from '../../../protocol/vault/settle'
import { PPID } from '../../../sandbox/enclave/machine'
import { simulatedMachine } from '../../../sandbox/enclave/simulated_machine'
import { callRpc, clientsOf, fundedWallet, signedTransfer, withChain } from '../../kit/chain/chain_folder'
import { COMPOSE_HASH, VaultWorld } from '../../kit/chain/vault_world'
import { administerVault } from '../../kit/vault/open_vault'
import { key, LOT, SIGNATURE, seeded, settings, World } from '../../kit/venue/machine_world'

const random = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes))

/** Of the next epoch by an instance with these options: `opened`, or why not. */
async function outcome(
  world: VaultWorld,
  change: Partial<ChainOptions> = {},
  compose_hash = COMPOSE_HASH,
  record = async (): Promise<void> => {},
): Promise<string> {
  const port = await world.connect(change)
  const { epoch, journal_seq: seq, journal_head: head } = await port.readConfig()
  const spentRoot = async () => (await port.readConfig()).spent_root
  const terms = { boot_nonce: random(16), compose_hash, seq, head, restore: false, spentRoot }
  try {
    await port.openEpoch({ epoch: epoch + 1, ...terms, passes: async () => true }, record)
    return 'opened'
  } catch (error) {
    return (error as Error).message.replace('the chain refused the transaction: ', '')
  } finally {
    await port.close()
  }
}

/** Transactions that the venue's fee payer has sent. */
async function sent(world: VaultWorld): Promise<number> {
  const { rpc } = clientsOf(world.chain)
  return (await rpc.getSignaturesForAddress(addressOf(publicKeyOf(world.fee_seed))).send()).length
}

test('a platform that is not registered takes two transactions, a registered one takes one', async () => {
  await using world = await VaultWorld.open()
  const before = await sent(world)
  const started_ms = performance.now()
  expect(await outcome(world)).toBe('opened')
  const between_ms = performance.now()
  expect((await sent(world)) - before).toBe(2)
  expect(await outcome(world)).toBe('opened')
  const [first, second] = [between_ms - started_ms, performance.now() - between_ms]
  console.log(`opened in ${first.toFixed(0)} ms with registration, in ${second.toFixed(0)} ms without`)
  expect((await sent(world)) - before).toBe(3)
}, 120_000)

test('the opening does not wait for the registration, and is made again behind it where it overtakes it', async () => {
  let signed = 2
  let registration: string | undefined
  // The registration, sent first, reaches no block before the opening is signed again.
  const drop = (signature: string) => {
    if (signed > 1) return false
    registration ??= signature
    return signature === registration
  }
  await using world = await VaultWorld.open({ drop })
  signed = 0
  const before = await sent(world)
  expect(await outcome(world, {}, COMPOSE_HASH, async () => void signed++)).toBe('opened')
  expect(signed).toBeGreaterThan(1)
  expect((await sent(world)) - before).toBe(signed + 1)
}, 120_000)

test('where a fork takes back registration and opening, both are made again', async () => {
  await using world = await VaultWorld.open({}, 200)
  const { machine, fork } = world.chain
  const address = encodeBase58(vaultAddresses(world.program).config)
  const epoch = () => decodeConfig(machine.bank.newest(address)!.data)!.epoch
  const before = machine.tip
  const opening = outcome(world)
  while (epoch() === 0) await Bun.sleep(5)
  // Throws where a block since the first reading is finalized.
  fork(machine.tip - before)
  expect(epoch()).toBe(0)
  expect(await opening).toBe('opened')
}, 120_000)

test('machine, build, settlement key and epoch authority are each needed', async () => {
  await using world = await VaultWorld.open()
  const { machine } = world
  const seed = random(32)
  const own = { settlement_seed: seed, quoteEpoch: machine.quoteEpoch(seed) }
  expect(await outcome(world, own)).toBe('opened')
  const quoted: ReturnType<ChainOptions['quoteEpoch']>[] = []
  const key = random(32)
  const noting: ChainOptions['quoteEpoch'] = (bound) => {
    quoted.push(machine.quoteEpoch(key)(bound))
    return quoted.at(-1)!
  }
  expect(await outcome(world, { settlement_seed: key, quoteEpoch: noting })).toBe('opened')
  const stranger = simulatedMachine(COMPOSE_HASH)
  const other_build = simulatedMachine(new Uint8Array(32).fill(0xcd))
  const thief = random(32)
  const cases: [string, Partial<ChainOptions>, string][] = [
    [
      'a key of the KMS without a machine: a quote over another key',
      { settlement_seed: thief, quoteEpoch: own.quoteEpoch },
      'wrong_report_data',
    ],
    ['a recorded quote', { settlement_seed: key, quoteEpoch: () => quoted[0]! }, 'key_not_fresh'],
    [
      'a recorded quote for a fresh key',
      { settlement_seed: thief, quoteEpoch: () => quoted[0]! },
      'wrong_report_data',
    ],
    [
      'a machine under another root',
      { settlement_seed: thief, quoteEpoch: stranger.quoteEpoch(thief) },
      'wrong_root',
    ],
    ['another build', { settlement_seed: thief, quoteEpoch: other_build.quoteEpoch(thief) }, 'wrong_root'],
    ['another epoch authority', { authority_seed: thief }, 'not_epoch_authority'],
    [
      'a quote for another epoch',
      {
        settlement_seed: thief,
        quoteEpoch: (bound) => machine.quoteEpoch(thief)({ ...bound, epoch: bound.epoch + 1 }),
      },
      'wrong_report_data',
    ],
    [
      'a quote for another vault or generation',
      {
        settlement_seed: thief,
        quoteEpoch: (bound) => machine.quoteEpoch(thief)({ ...bound, venue: random(32) }),
      },
      'wrong_report_data',
    ],
  ]
  for (const [name, change, because] of cases)
    expect([name, await outcome(world, change)]).toEqual([name, because])
  expect(await outcome(world, {}, new Uint8Array(32).fill(0xcd))).toBe('wrong_build')
}, 240_000)

test.each([
  ['machine', { list: 'platform', id: PPID }],
  ['build', { list: 'build', id: COMPOSE_HASH }],
] as const)(
  'a revoked %s opens nothing, and announced again not before twice the exit delay',
  async (_, topic) => {
    await using world = await VaultWorld.open()
    expect(await outcome(world)).toBe('opened')
    for (const action of ['revoke', 'announce'] as const) {
      await byAdmin(world, (program, admin) =>
        announceInstruction({ program, admin, payer: admin, action, ...topic }),
      )
      expect([action, await outcome(world)]).toEqual([action, 'not_announced'])
    }
  },
  120_000,
)

test('a vault with one build, image and machine is degraded until each list has two', async () => {
  const world = await VaultWorld.open()
  const port = await world.connect({ successors_needed: true })
  const reasons = () => port.health().reasons.filter((reason) => reason === 'no_successor')
  while (reasons().length === 0) await Bun.sleep(5)
  for (const topic of [
    { list: 'build', id: random(32) },
    { list: 'image', id: random(32) },
    { list: 'platform', id: random(16) },
  ] as const)
    await byAdmin(world, (program, admin) =>
      announceInstruction({ program, admin, payer: admin, action: 'announce', ...topic }),
    )
  while (reasons().length > 0) await Bun.sleep(5)
  const { announced } = await port.readConfig()
  expect(withoutSuccessor(announced, Date.now() / 1000)).toEqual([])
  await port.close()
  await world.close()
}, 120_000)

/** Lands an instruction of the admin, who is its fee payer too. */
function byAdmin(
  { chain, program }: VaultWorld,
  make: (program: Uint8Array, admin: Uint8Array) => VaultInstruction,
): Promise<string> {
  const { admin_seed, url } = chain
  return administerVault([url], [admin_seed], make(program, publicKeyOf(admin_seed)), 0n)
}

test('the admin alone opens nothing, also not without a quote', async () => {
  await using world = await VaultWorld.open()
  expect(await outcome(world)).toBe('opened')
  // `open_epoch` and `rotate_signer` of earlier layouts, with the admin's own key.
  for (const number of [3, 10]) {
    const without = (program: Uint8Array, admin: Uint8Array) => ({
      program,
      accounts: [
        { address: admin, signer: true, writable: true },
        { address: vaultAddresses(program).config, signer: false, writable: true },
      ],
      data: Uint8Array.of(number, 0, ...admin),
    })
    const refusal = await byAdmin(world, without).catch((error: Error) => error.message)
    expect(refusal).toContain('unknown_instruction')
  }
}, 240_000)

const MINTS = Array.from({ length: 10 }, (_, at) => seeded(`mint ${at}`))
const SEED = seeded('settlement signer')

/** A venue that pays in ten more mints. */
function venue(settlement_parts_max: number): World {
  const template = settings()
  const mints = MINTS.map((mint) => ({ ...template.mints[0]!, mint: encodeBase58(mint) }))
  const world = new World({ settlement_parts_max, mints: [...template.mints, ...mints] })
  for (const name of ['alice', 'bob']) world.account(name, { keys_max: 1_000 })
  return world
}

const operation = fc.record({
  kind: fc.constantFrom('withdrawal', 'exit', 'reshape', 'trade'),
  mint: fc.nat(MINTS.length - 1),
  count: fc.integer({ min: 1, max: 4 }),
})
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never

function play(world: World, { kind, mint: at, count }: Operation, serial: number): void {
  const owner = key(`owner ${serial}`)
  const mint = MINTS[at]!
  const own = { account_id: 'alice', trading_key: owner, nonce: 1n, expiry_slot: 1_400, signature: SIGNATURE }
  const id = seeded(`id ${serial}`)
  if (kind === 'trade') {
    world.place('alice', owner, { amount: LOT * BigInt(count), nonce: 1n })
    world.place('bob', key(`seller ${serial}`), { side: 'sell', amount: LOT * BigInt(count), nonce: 1n })
    return
  }
  const note = world.deposit(owner, mint, 1_000n)
  if (kind === 'exit') {
    const { nullifier, commitment, amount } = note
    const request = { nullifier, commitment, mint, amount, destination: id, deadline_unix_s: 1 }
    const rest = { request_account: id, refund_inner: id, stage: 'finalized' as const }
    world.must({ kind: 'exit_requested', request: { ...request, ...rest } })
    return
  }
  if (kind === 'withdrawal') {
    const rest = { withdrawal_id: id.slice(0, 16), destination: id, amount: 500n, change_anchor: id }
    world.must({ ...own, ...rest, kind: 'withdraw', commitment: note.commitment, opening: note })
    return
  }
  const notes = [note, ...Array.from({ length: count - 1 }, () => world.deposit(owner, mint, 1_000n))]
  notes.sort((a, b) => Buffer.compare(a.commitment, b.commitment))
  const total = 1_000n * BigInt(count)
  const inputs = notes.map((one) => one.commitment)
  const rest = { reshape_id: id.slice(0, 16), inputs, amounts: [1n, 2n, 3n, total - 6n], anchor: id }
  world.must({ ...own, ...rest, kind: 'reshape', openings: notes })
}

/** As the relayer builds it, with a separate fee payer. */
async function transactionOf(payload: SettlementPayload): Promise<Uint8Array> {
  const signer = await createKeyPairSignerFromPrivateKeyBytes(SEED)
  const payer = await createKeyPairSignerFromPrivateKeyBytes(seeded('fee payer'))
  const { batch_id: batch, nullifiers, outputs } = payload
  const instruction = settleInstruction({
    program: seeded('program'),
    settlement_signer: publicKeyOf(SEED),
    epoch: 1,
    batch,
    cited_leaf_count: 1,
    cited_root: seeded('root'),
    journal_seq: 1,
    journal_head: seeded('head'),
    nullifiers,
    outputs,
    payouts: payload.payouts.map(({ refund_inner: inner, ...payout }) => ({ ...payout, inner })),
  })
  const blockhash = encodeBase58(seeded('blockhash')) as never
  const { wire } = await buildTransaction({
    payer,
    instructions: [toInstruction(instruction, [signer])],
    lifetime: { blockhash, lastValidBlockHeight: 1n },
    compute_units: COMPUTE_UNITS_MAX,
    priority_fee_lamports: 1_000n,
  })
  return wire
}

/** Bytes of the largest transaction. Throws for one that no cluster takes. */
async function largestOf(parts_max: number): Promise<number> {
  let largest = 0
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 60 }), async (operations) => {
      const world = venue(parts_max)
      operations.forEach((one, serial) => void play(world, one, serial))
      for (let slots = 0; slots < 20; slots++) world.close()
      world.hashAll()
      for (const batch_id of world.state.settlement.batches.keys()) {
        const wire = await transactionOf(payloadOf(world.state, batch_id)!)
        largest = Math.max(largest, wire.length)
      }
    }),
    { numRuns: 40, examples: [[Array.from({ length: 60 }, () => ({ kind: 'trade', mint: 0, count: 1 }))]] },
  )
  return largest
}

test('every settlement batch the packer makes fits a v1 transaction', async () => {
  expect(await largestOf(28)).toBeGreaterThan(3_000)
})

test('a node refuses a transaction of more bytes than the cluster takes', async () => {
  await withChain({}, async (chain) => {
    const from = await fundedWallet(chain)
    const { wire } = await signedTransfer(chain, from, from.address, 1n)
    // A signature count and trailing bytes a decoder would not read are still bytes.
    const padded = Buffer.concat([Buffer.from(wire, 'base64'), Buffer.alloc(V1_BYTES_MAX)])
    const sent = callRpc(chain, 'sendTransaction', [padded.toString('base64'), { encoding: 'base64' }])
    const message = await sent.then(
      () => 'taken',
      (error: Error) => error.message,
    )
    expect(message).toContain('too large')
  })
})

test('a node takes at most 64 addresses in a v1 transaction', () => {
  expect(() => requireSize(V1_BYTES_MAX, 65)).toThrow(TransactionTooLarge)
  expect(() => requireSize(V1_BYTES_MAX + 1, 64)).toThrow(TransactionTooLarge)
  requireSize(V1_BYTES_MAX, 64)
})

test('an error that is not about size is none of the transaction, and goes on', async () => {
  const payer = await createKeyPairSignerFromPrivateKeyBytes(SEED)
  const lifetime = { blockhash: 'no blockhash' as never, lastValidBlockHeight: 1n }
  const limits = { compute_units: 1, priority_fee_lamports: 1n }
  const outcome = await buildTransaction({ payer, instructions: [], lifetime, ...limits }).then(
    () => 'built',
    (error: unknown) => isSolanaError(error),
  )
  expect(outcome).toBe(true)
})

test('a batch that fits no transaction is no verdict: nothing is sent, and the status says so', async () => {
  await using world = await VaultWorld.open()
  await world.deposit(1_000n)
  await world.boot()
  world.outbox.add(world.nextPayload([], 32, 64))
  while (!world.port.health().reasons.includes('transaction_failing')) await Bun.sleep(1)
  expect(world.sink.halts).toEqual([])
  expect(world.outbox.signings).toEqual([])
})
