/** Measures one full settlement batch without the chain's delays: hashing, signing, execution, and compute units. */

import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { FailedTransactionMetadata } from 'litesvm'
import { buildTransaction, toInstruction } from '../../engine/chain/client/build_transaction'
import { emptyTrees, hashBatch } from '../../engine/hashing/tree_files'
import type { HashJob } from '../../engine/ports'
import { encodeBase58 } from '../../protocol/base58'
import { compareBytes } from '../../protocol/bytes'
import { LOADED_ACCOUNTS_BYTES_MAX } from '../../protocol/limits'
import { reduceWide } from '../../protocol/notes/poseidon'
import { publicKeyOf } from '../../protocol/sign'
import { decodeConfig, decodeTree } from '../../protocol/vault/accounts'
import { vaultAddresses } from '../../protocol/vault/addresses'
import { registerPlatformInstructions } from '../../protocol/vault/epochs'
import { type SettleFields, settleInstruction, settleUnits } from '../../protocol/vault/settle'
import { enqueueSigned } from '../../sandbox/chain/faucet'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { decodeTransaction } from '../../sandbox/chain/transaction_meta'
import { simulatedMachine } from '../../sandbox/enclave/simulated_machine'
import { inFolder, median } from '../kit/figures'

export const PROGRAM = join(import.meta.dir, '../../program/vault.so')
/** Orders of a full v1 transaction, each with its proceeds and its change. */
export const ORDERS = 28
const ROUNDS = 15

/** A value below the field's order, as hashes are. */
export const randomField = (): Uint8Array => reduceWide(crypto.getRandomValues(new Uint8Array(48)))
/** Ascending, as a batch holds them. */
export const elements = (count: number): Uint8Array[] =>
  Array.from({ length: count }, randomField).sort(compareBytes)

/** Milliseconds of one core. */
async function spent(run: () => unknown): Promise<number> {
  const taken: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const before = process.cpuUsage()
    await run()
    const { user, system } = process.cpuUsage(before)
    taken.push((user + system) / 1_000)
  }
  return median(taken)
}

export function hashJob(batch_id: number): HashJob {
  const output = { order_id: randomField().slice(0, 16), nonce: 4n, generation: 1, owner: randomField() }
  const mint = randomField()
  return {
    batch_id,
    inputs: elements(ORDERS).map((commitment) => ({ commitment, blinding: randomField() })),
    outputs: elements(2 * ORDERS).map((anchor, at) => ({
      ...output,
      mint,
      anchor,
      index_role: at % 2,
      amount: BigInt(at + 1),
    })),
    refunds: [],
  }
}

/** Signature, write locks, data and execution as the cluster's cost model adds them up. */
function costUnits(units: number, writable: number, data_bytes: number): number {
  const [SIGNATURE, WRITE_LOCK, LOADED_PAGE] = [720, 300, 8]
  const PAGES = LOADED_ACCOUNTS_BYTES_MAX / 32_768
  return Math.ceil(units + SIGNATURE + WRITE_LOCK * writable + data_bytes / 4 + LOADED_PAGE * PAGES)
}

type BatchWork = { hash_ms: number; sign_ms: number; program_ms: number; cost_units: number }

export async function settlementWork(): Promise<BatchWork> {
  const trees = emptyTrees()
  let batch_id = 0
  const jobs = Array.from({ length: ROUNDS }, (_, at) => hashJob(at + 1))
  const hash_ms = await spent(() => hashBatch(trees, jobs[batch_id++]!))

  const { batch, program_ms, sign_ms } = await inFolder('batch-work', runBatch)
  const instruction = settleInstruction(batch)
  // A batch requests compute units by formula, and the block reserves the requested units.
  const asked = settleUnits({ nullifiers: ORDERS, outputs: 2 * ORDERS, withdrawals: 0, exits: 0 })
  const writable = instruction.accounts.filter((account) => account.writable).length + 1
  return { hash_ms, sign_ms, program_ms, cost_units: costUnits(asked, writable, instruction.data.length) }
}

/** Signs and simulates one full batch on an embedded chain whose epoch is open. */
async function runBatch(data_dir: string) {
  const seed = randomField()
  const settlement_signer = publicKeyOf(seed)
  const { announced, authority_seed, platform, opening } = simulatedMachine(randomField())
  const chain = await openEmbeddedChain({ data_dir, slot_ms: 0 })
  const program = await makeGenesis(chain, { program_path: PROGRAM, fee_payer: settlement_signer, announced })
  const payer = await createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(seed))
  const boot_nonce = crypto.getRandomValues(new Uint8Array(16))
  const terms = { epoch: 1, boot_nonce, restore: false, generation: 0 }
  const journal = { journal_seq: 1, journal_head: randomField(), expected_head: new Uint8Array(32) }
  const { config, tree } = vaultAddresses(program)
  const dataOf = (account: Uint8Array) => chain.machine.bank.newest(encodeBase58(account))!.data
  const before = decodeTree(dataOf(tree))!
  const cited = { cited_leaf_count: before.leaf_count, cited_root: before.root }
  const state = { last_batch: 0, spent_root: before.spent_root, ...cited }
  const epoch = { program, settlement_signer, ...terms, ...journal, ...state }
  const authority = await createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(authority_seed))
  const registration = registerPlatformInstructions({ ...platform, program, payer: settlement_signer })
  for (const sent of [registration, opening(epoch, decodeConfig(dataOf(config))!.venue)]) {
    const instructions = sent.map((one) => toInstruction(one, [payer, authority]))
    await enqueueSigned(chain.machine, payer, instructions)
    chain.advance(1)
  }
  const memo = new Uint8Array(16)
  const batch: SettleFields = {
    program,
    settlement_signer,
    epoch: 1,
    batch: 1,
    ...cited,
    journal_seq: 2,
    journal_head: randomField(),
    nullifiers: elements(ORDERS),
    payouts: [],
    outputs: elements(2 * ORDERS).map((commitment) => ({ commitment, memo })),
  }
  const { blockhash } = chain.machine.blockhashes.at(chain.machine.tip)
  const lifetime = { blockhash: blockhash as never, lastValidBlockHeight: 1n }
  const draft = { payer, lifetime, compute_units: 120_000, priority_fee_lamports: 1_000n }
  const sign = () =>
    buildTransaction({ ...draft, instructions: [toInstruction(settleInstruction(batch), [payer])] })
  const { transaction } = decodeTransaction((await sign()).wire)
  const { svm } = chain.machine.bank
  const trial = svm.simulateTransaction(transaction)
  if (trial instanceof FailedTransactionMetadata) throw new Error(`the batch does not settle: ${trial}`)
  const program_ms = await spent(() => svm.simulateTransaction(transaction))
  const sign_ms = await spent(sign)
  await chain.close()
  return { batch, program_ms, sign_ms }
}
