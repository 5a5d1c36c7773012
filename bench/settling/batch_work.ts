/** Measures one full settlement batch without the chain's delays: hashing, signing, execution, and compute units. */

import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { buildTransaction, toInstruction } from '../../engine/chain/client/build_transaction'
import { settleUnits } from '../../engine/chain/relayer/settle_instruction'
import { emptyTrees, hashBatch } from '../../engine/hashing/trees'
import type { HashJob } from '../../engine/ports'
import { settleInstruction } from '../../protocol/vault/settle'
import { element, elements, landed, OpenVault, outputsOf } from '../../sandbox/vault/open_vault'
import { median } from '../kit/figures'

/** Orders of a full v1 transaction, each with what it gets and what is left over. */
export const ORDERS = 28
const ROUNDS = 15

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

function hashJob(batch_id: number): HashJob {
  const part = (name: string): Uint8Array => element(`${name} of ${batch_id}`)
  const output = { order_id: part('order').slice(0, 16), nonce: 4n, generation: 1, owner: part('owner') }
  const names = (kind: string, count: number): string[] =>
    Array.from({ length: count }, (_, at) => `${kind} ${at}`)
  return {
    batch_id,
    inputs: names('input', ORDERS).map((name) => ({
      commitment: part(name),
      blinding: part(`${name} blinding`),
    })),
    outputs: names('output', 2 * ORDERS).map((name, at) => ({
      ...output,
      mint: part('mint'),
      anchor: part(name),
      index_role: at % 2,
      amount: BigInt(at + 1),
    })),
    refunds: [],
  }
}

/** Signature, write locks, data and execution as the cluster's cost model adds them up. */
function costUnits(units: number, writable: number, data_bytes: number): number {
  const [SIGNATURE, WRITE_LOCK, LOADED_PAGE, PAGES] = [720, 300, 8, 64]
  return Math.ceil(units + SIGNATURE + WRITE_LOCK * writable + data_bytes / 4 + LOADED_PAGE * PAGES)
}

type BatchWork = { hash_ms: number; sign_ms: number; program_ms: number; cost_units: number }

export async function settlementWork(): Promise<BatchWork> {
  const trees = emptyTrees()
  let batch_id = 0
  const jobs = Array.from({ length: ROUNDS }, (_, at) => hashJob(at + 1))
  const hash_ms = await spent(() => hashBatch(trees, jobs[batch_id++]!))

  const vault = new OpenVault()
  landed(vault.openEpoch())
  const nullifiers = elements('n', ORDERS)
  const batch = vault.batchOf({ nullifiers, outputs: outputsOf(elements('c', 2 * ORDERS)) })
  const instruction = settleInstruction(batch)
  const program_ms = await spent(() => vault.chain.outcome(instruction, vault.signer))

  const payer = await createKeyPairSignerFromPrivateKeyBytes(element('seed'))
  const own = settleInstruction({ ...batch, settlement_signer: vault.signer.key })
  own.accounts[0] = { ...own.accounts[0]!, signer: false }
  const lifetime = { blockhash: payer.address as never, lastValidBlockHeight: 1n }
  const draft = {
    payer,
    instructions: [toInstruction(own, [])],
    lifetime,
    compute_units: 120_000,
    priority_fee_lamports: 1_000n,
  }
  const sign_ms = await spent(() => buildTransaction({ ...draft, instructions: [toInstruction(own, [])] }))

  // A batch asks by formula, and the block reserves what is asked for.
  const asked = settleUnits({ ...batch, payouts: [] })
  const writable = instruction.accounts.filter((account) => account.writable).length + 1
  return { hash_ms, sign_ms, program_ms, cost_units: costUnits(asked, writable, instruction.data.length) }
}
