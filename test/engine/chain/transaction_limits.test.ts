/** What no cluster takes is rejected before it is sent, and no settlement batch the packer makes is such a thing. */

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
import { payloadOf } from '../../../engine/machine/settlement/payload'
import type { SettlementPayload } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { publicKeyOf } from '../../../protocol/sign'
import { settleInstruction } from '../../../protocol/vault/settle'
import { callRpc, withChain } from '../../kit/chain/chain_folder'
import { fundedWallet, signedTransfer } from '../../kit/chain/transfer'
import { VaultWorld } from '../../kit/chain/vault_world'
import { key, LOT, SIGNATURE, seeded, settings, World } from '../../kit/venue/machine_world'

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
