/** Signs a vault instruction with a blockhash, a fixed compute limit and a priority fee that grows while it waits. */

import {
  type AccountMeta,
  AccountRole,
  type Address,
  type Base64EncodedWireTransaction,
  type Blockhash,
  getBase64Decoder,
} from '@solana/kit'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { LIMITS } from '../../limits'
import {
  buildTransaction,
  type Lifetime,
  MICRO_LAMPORTS,
  type SignedTransaction,
  TransactionTooLarge,
  toInstruction,
} from './build_transaction'
import type { ChainClient } from './chain_client'
import { ChainUnavailable, type RpcPool, wholeOf } from './rpc_pool'
import type { TransactionFailure } from './transaction_status'

/** Compute limit of every instruction but `settle`, `pay` and the opening of an epoch, which use at most 17 thousand (`program/README.md`). */
export const COMPUTE_UNITS = 60_000

/** What transactions signed at one time share: a blockhash, and a price per unit for each set of accounts. */
export class Terms {
  private readonly prices = new Map<string, Promise<bigint>>()
  private constructor(
    readonly client: ChainClient,
    readonly lifetime: Lifetime,
  ) {}

  /** @param attempt number of earlier transactions; each asks another provider first @throws ChainUnavailable */
  static async read(client: ChainClient, attempt: number): Promise<Terms> {
    const { rpc, view } = client
    // While others can be asked, one that hangs must not use up the time in which a commit may land.
    const wait_ms = rpc.each.length > 1 ? LIMITS.rpc_grace_ms : rpc.timeout_ms
    const lifetime = await rpc.read(async (endpoint, signal) => {
      const abortSignal = AbortSignal.any([signal, AbortSignal.timeout(wait_ms)])
      const { value } = await endpoint.getLatestBlockhash({ commitment: 'confirmed' }).send({ abortSignal })
      // Outside these bounds the blockhash is dead or invented, and the transaction could not land.
      const life = wholeOf(value.lastValidBlockHeight) - view.agreed('height')
      const lives = life > 0 && life <= LIMITS.blockhash_life_max
      if (!lives) throw new ChainUnavailable('the blockhash of a provider has no possible height')
      if (rpc.each.length > 1 && !(await isKnown(rpc, value.blockhash)))
        throw new ChainUnavailable('the blockhash of a provider is not known to a quorum')
      return value
    }, attempt)
    return new Terms(client, lifetime)
  }

  /** Micro-lamports per unit that were lately paid for writing `accounts`; 0 when unavailable. */
  price(accounts: readonly Address[]): Promise<bigint> {
    const key = accounts.join()
    const known = this.prices.get(key) ?? this.read(accounts)
    this.prices.set(key, known)
    return known
  }

  private async read(accounts: readonly Address[]): Promise<bigint> {
    const { rpc, fees } = this.client
    try {
      const answers = await rpc.all(async (reader) => {
        const slots = await reader.read((endpoint, abortSignal) =>
          endpoint.getRecentPrioritizationFees(accounts).send({ abortSignal }),
        )
        const paid = slots.map((slot) => wholeOf(slot.prioritizationFee)).sort((a, b) => a - b)
        return paid[Math.min(paid.length - 1, Math.floor((paid.length * fees.percentile) / 100))] ?? 0
      })
      return BigInt(rpc.reached(answers.map(({ value }) => value))!)
    } catch {
      // Sending at the floor fee is better than not sending.
      return 0n
    }
  }
}

/** What is signed with an invented blockhash cannot land, and is waited for until its last height. */
async function isKnown(rpc: RpcPool, blockhash: Blockhash): Promise<boolean> {
  const answers = await rpc.all((reader) =>
    reader.read((endpoint, abortSignal) =>
      endpoint.isBlockhashValid(blockhash, { commitment: 'processed' }).send({ abortSignal }),
    ),
  )
  return answers.filter(({ value }) => value.value).length >= rpc.quorum
}

type Built = { signed: SignedTransaction } | { failure: TransactionFailure }

/** @param waited_ms time since the instruction was first due; raises the fee */
export async function signVaultInstruction(
  client: ChainClient,
  vault: VaultInstruction | readonly VaultInstruction[],
  terms: Terms,
  { compute_units, waited_ms }: { compute_units: number; waited_ms: number },
): Promise<Built> {
  const { signer, authority, payer, fees } = client
  const instructions = [vault].flat().map((one) => toInstruction(one, [signer, payer, authority]))
  const accounts = instructions.flatMap((one) => (one.accounts ?? []) as AccountMeta[])
  const writes = accounts.filter(
    ({ role }) => role === AccountRole.WRITABLE || role === AccountRole.WRITABLE_SIGNER,
  )
  const price = await terms.price(writes.map(({ address }) => address))
  const priority_fee_lamports = priorityFee(fees, price, compute_units, waited_ms)
  const { lifetime } = terms
  const draft = { payer, instructions, lifetime, compute_units, priority_fee_lamports }
  try {
    return { signed: await buildTransaction(draft) }
  } catch (error) {
    if (!(error instanceof TransactionTooLarge)) throw error
    return { failure: { kind: 'transient', name: error.name } }
  }
}

/**
 * Lamports for `compute_units` at `price` micro-lamports, at least the floor; beyond `fee_growth_after_ms` in proportion to
 * the time waited; at most the cap.
 */
function priorityFee(
  { floor_lamports, cap_lamports }: ChainClient['fees'],
  price: bigint,
  compute_units: number,
  waited_ms: number,
): bigint {
  const lamports = (price * BigInt(compute_units) + MICRO_LAMPORTS - 1n) / MICRO_LAMPORTS
  const fee = lamports > floor_lamports ? lamports : floor_lamports
  const start_ms = LIMITS.fee_growth_after_ms
  const raised = (fee * BigInt(Math.round(Math.max(waited_ms, start_ms)))) / BigInt(start_ms)
  return raised > cap_lamports ? cap_lamports : raised
}

export function wireText(wire: Uint8Array): Base64EncodedWireTransaction {
  return getBase64Decoder().decode(wire) as Base64EncodedWireTransaction
}
