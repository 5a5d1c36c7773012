/** Lands one vault instruction: signed with a growing fee, recorded, rebroadcast, signed again, until finalized or confirmed. */

import {
  type AccountMeta,
  AccountRole,
  type Address,
  type Base64EncodedWireTransaction,
  type Blockhash,
  getBase64Decoder,
} from '@solana/kit'
import type { VaultErrorName } from '../../../protocol/vault/errors'
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
import { backoffMs, ChainUnavailable, isPermanent, type RpcPool, wholeOf } from './rpc_pool'
import type { Level } from './slot_view'
import {
  type AgreedStatus,
  agreedStatuses,
  ChainProgramError,
  isPayerShort,
  type TransactionFailure,
} from './transaction_status'

/** Compute limit of every instruction but `settle`, `pay` and the opening of an epoch, which use at most 17 thousand (`program/README.md`). */
export const COMPUTE_UNITS = 60_000

/** Shared by transactions signed at one time: a blockhash, and a price per unit for each set of accounts. */
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

/** A transaction with an invented blockhash cannot land; it is waited for until its last height. */
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

function wireText(wire: Uint8Array): Base64EncodedWireTransaction {
  return getBase64Decoder().decode(wire) as Base64EncodedWireTransaction
}

/** `confirmed_ms` is the monotonic time at which a quorum was first seen to show it in this slot. */
export type Landing = { slot: number; signature: Uint8Array; confirmed_ms: number }

type LandingPlan = {
  /** Builds the instructions for each signature; undefined when the chain already shows its effect. */
  prepare: () => Promise<VaultInstruction | readonly VaultInstruction[] | undefined>
  /** Default COMPUTE_UNITS. */
  compute_units?: number
  /** Level at which an error of the program has it prepared and signed again, undefined where it never does. */
  retried?: (name: VaultErrorName) => Level | undefined
  /** Level at which success counts, default finalized; a rejection counts once finalized. */
  level?: Level
  /** Stores signature and bytes before they are sent. */
  record?: (signature: Uint8Array, transaction: Uint8Array) => Promise<void>
  /** Time limit; without it only closing the client ends the attempt. */
  deadline_ms?: number
  /** Looked at before each signature and each sending: nothing follows once it is false. */
  isNeeded?: () => boolean
}

/**
 * Resolves with the landing at the plan's level, or undefined when `prepare` returned undefined or it is no longer needed.
 * @throws ChainProgramError when the program rejects it; ChainUnavailable when the client closes or the deadline passes
 */
export async function landInstruction(client: ChainClient, plan: LandingPlan): Promise<Landing | undefined> {
  const { monotonicMs } = client.view.options
  const start_ms = monotonicMs()
  const end_ms = start_ms + (plan.deadline_ms ?? Number.POSITIVE_INFINITY)
  for (let attempt = 0; !client.rpc.closed && monotonicMs() < end_ms; attempt++) {
    if (attempt > 0) await client.rpc.sleep(backoffMs(attempt))
    const instruction = await plan.prepare()
    if (!instruction) return undefined
    const terms = await Terms.read(client, attempt)
    if (plan.isNeeded?.() === false) return undefined
    const limits = { compute_units: plan.compute_units ?? COMPUTE_UNITS, waited_ms: monotonicMs() - start_ms }
    const built = await signVaultInstruction(client, instruction, terms, limits)
    if ('failure' in built) throw new RangeError('the instructions fit no transaction')
    const { signed } = built
    const { signature } = signed
    await plan.record?.(signature, signed.wire)
    const report = client.health.reporter()
    const until = untilLanded(client, signed, { ...plan, end_ms }, report)
    const landed = await until.finally(() => report(undefined))
    if (landed !== undefined) return { ...landed, signature }
  }
  throw new ChainUnavailable('the connection to the chain was closed or the deadline passed')
}

type Report = ReturnType<ChainClient['health']['reporter']>

/** The slot in which it landed, once that has the level; undefined when it can no longer land or is to be made again. */
async function untilLanded(
  client: ChainClient,
  signed: SignedTransaction,
  {
    end_ms,
    level,
    retried,
    isNeeded,
  }: Pick<LandingPlan, 'level' | 'retried' | 'isNeeded'> & { end_ms: number },
  report: Report,
): Promise<Omit<Landing, 'signature'> | undefined> {
  const { view, rpc, health } = client
  let confirmed: { slot: number; confirmed_ms: number } | undefined
  for (let sent_slot = Number.NEGATIVE_INFINITY; !rpc.closed && view.options.monotonicMs() < end_ms; ) {
    const height = view.agreed('height')
    // Read after the height: a signature unknown past its last valid height can no longer land.
    const status = await statusOf(client, signed, report)
    if (status.kind === 'failed') {
      if (status.failure.kind === 'program') {
        const again = status.failure.name && retried?.(status.failure.name)
        if (again && (status.final || again === 'confirmed')) return undefined
        if (status.final) throw new ChainProgramError(status.failure)
      }
      if (isPayerShort(status.failure)) health.set('fee_payer_low', true)
      if (status.failure.kind === 'transient') return undefined
    }
    // Not seen any more, or in another slot, it was confirmed on a fork.
    if (status.kind !== 'executed') confirmed = undefined
    else if (confirmed?.slot !== status.slot)
      confirmed = { slot: status.slot, confirmed_ms: view.options.monotonicMs() }
    if (status.kind === 'executed' && (status.final || level === 'confirmed')) return confirmed
    const { slot, slot_ms } = view.now()
    const open = status.kind === 'unknown' || status.kind === 'undecided'
    if (open && height > signed.last_valid_block_height) return undefined
    if (isNeeded?.() === false) return undefined
    if (open && slot - sent_slot >= LIMITS.rebroadcast_slots) {
      sent_slot = slot
      await broadcast(client, signed.wire)
    }
    await rpc.sleep(slot_ms)
  }
  return undefined
}

/** Undecided when the chain is unreachable, which says nothing about bytes that are already sent. */
async function statusOf(
  client: ChainClient,
  { signature }: SignedTransaction,
  report: Report,
): Promise<AgreedStatus> {
  try {
    const [status] = await agreedStatuses(client, [signature])
    report(undefined)
    return status!
  } catch (error) {
    if (!(error instanceof ChainUnavailable)) throw error
    report('rpc_unreachable')
    return { kind: 'undecided' }
  }
}

/**
 * Sends signed bytes to every provider and send-only endpoint; only the chain shows whether they land.
 * @throws the endpoints' own error when every one of them rejects the request for its form
 */
export async function broadcast({ rpc }: { rpc: RpcPool }, wire: Uint8Array): Promise<void> {
  const text = wireText(wire)
  // No retries by the node: they would outlive the decision to sign again.
  const config = { encoding: 'base64', skipPreflight: true, maxRetries: 0n } as const
  const sent = [...rpc.each, ...rpc.senders].map((one) =>
    one.read((endpoint, abortSignal) => endpoint.sendTransaction(text, config).send({ abortSignal })),
  )
  // The first that accepts is enough: one that hangs must not hold up the batches behind.
  const refusals = await Promise.any(sent).then(
    () => [],
    ({ errors }: AggregateError) => errors,
  )
  if (refusals.length > 0 && refusals.every(isPermanent)) throw refusals[0]
}
