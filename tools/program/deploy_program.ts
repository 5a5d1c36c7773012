/** Deploys or upgrades a program, resuming an interrupted run; an authority without key gets the upgrade as a proposal. */

import { RpcPool } from '../../engine/chain/client/rpc_pool'
import { encodeBase58 } from '../../protocol/base58'
import { equalBytes, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { landTransaction, requireLamports } from './land_transaction'
import { CALL_MS, WRITES_PARALLEL_MAX } from './limits'
import {
  BUFFER_HEADER_BYTES,
  createLoaderAccount,
  deployProgram as deployInstruction,
  extendProgram,
  initializeBuffer,
  PROGRAM_BYTES,
  setAuthority,
  upgradeProgram,
  writeBuffer,
} from './loader'
import { CHUNK_BYTES, type DeploymentPlan, planDeployment } from './plan_deployment'

/** A public key, with its 32-byte seed where this command holds it. */
export type Key = { address: Uint8Array; seed?: Uint8Array }

export type DeployOptions = {
  rpc_urls: readonly string[]
  elf: Uint8Array
  /** 32-byte seed of the fee payer. */
  payer: Uint8Array
  /** Upgrade authority, and the program's address; an upgrade needs the seed of neither. */
  authority: Key
  program: Key
}
export type DeployRun = DeployOptions & {
  priority_fee_lamports: bigint
  /** Called after each step with its transaction signature. */
  step: (name: string, signature: string) => void
}

/** Dry run: the plan that `deployProgram` would carry out now. @throws Error, ChainUnavailable */
export async function planProgram(options: DeployOptions): Promise<DeploymentPlan> {
  return withRpc(options.rpc_urls, (rpc) => planWith(rpc, options))
}

/**
 * Resolves with the instruction that is left to the authority, undefined when the code is in place.
 * @throws Error with the chain's reason; ChainUnavailable
 */
export async function deployProgram(run: DeployRun): Promise<VaultInstruction | undefined> {
  return withRpc(run.rpc_urls, async (rpc) => {
    const plan = await planWith(rpc, run)
    if (plan.kind === 'unchanged') return undefined
    await requireLamports(rpc, publicKeyOf(run.payer), plan.needed_lamports)
    await fillBuffer(rpc, run, plan)
    return putInPlace(rpc, run, plan)
  })
}

/** Key that writes the buffer: the authority's, or the payer's, which then hands the buffer over. */
const fillerOf = ({ authority, payer }: DeployOptions): Uint8Array => authority.seed ?? payer

/** Derived from the filler's key and the code, so a second run finds the first run's buffer. */
const bufferSeed = (options: DeployOptions): Uint8Array =>
  sha256(utf8('tacit/deploy-buffer/v1'), fillerOf(options), sha256(options.elf))

function planWith(rpc: RpcPool, options: DeployOptions): Promise<DeploymentPlan> {
  const buffer = publicKeyOf(bufferSeed(options))
  return planDeployment(rpc, { ...options, buffer })
}

async function fillBuffer(rpc: RpcPool, run: DeployRun, plan: DeploymentPlan): Promise<void> {
  const { elf, payer } = run
  const { buffer, offsets } = plan
  const filler = fillerOf(run)
  if (plan.buffer_authority === undefined) {
    const space = BUFFER_HEADER_BYTES + elf.length
    const create = createLoaderAccount(publicKeyOf(payer), buffer, space, plan.rent.buffer)
    const begin = initializeBuffer(buffer, publicKeyOf(filler))
    await landed(rpc, run, 'create buffer', [payer, bufferSeed(run)], [create, begin])
  }
  for (let at = 0; at < offsets.length; at += WRITES_PARALLEL_MAX) {
    const sent = offsets.slice(at, at + WRITES_PARALLEL_MAX).map((offset) => {
      const bytes = elf.subarray(offset, offset + CHUNK_BYTES)
      const writes = writeBuffer(buffer, publicKeyOf(filler), offset, bytes)
      return landed(rpc, run, `write ${offset}`, [payer, filler], writes)
    })
    await Promise.all(sent)
  }
}

async function putInPlace(
  rpc: RpcPool,
  run: DeployRun,
  plan: DeploymentPlan,
): Promise<VaultInstruction | undefined> {
  const { elf, program, authority } = run
  const { program_data, buffer, extension_bytes } = plan
  const payer = publicKeyOf(run.payer)
  const code = { program: program.address, program_data, buffer, authority: authority.address }
  if (plan.kind === 'deploy') {
    const seeds = [run.payer, program.seed!, authority.seed!] as const
    const create = createLoaderAccount(payer, program.address, PROGRAM_BYTES, plan.rent.program)
    await landed(rpc, run, 'deploy', seeds, [create, deployInstruction(code, payer, elf.length)])
    return undefined
  }
  if (extension_bytes > 0) {
    const extend = extendProgram(program.address, program_data, payer, extension_bytes)
    await landed(rpc, run, `extend by ${extension_bytes}`, [run.payer], [extend])
  }
  const upgrade = upgradeProgram(code, payer)
  if (authority.seed !== undefined) {
    await landed(rpc, run, 'upgrade', [run.payer, authority.seed], [upgrade])
    return undefined
  }
  if (plan.buffer_authority === undefined || !equalBytes(plan.buffer_authority, authority.address)) {
    const hand = setAuthority(buffer, payer, authority.address)
    await landed(rpc, run, `buffer to ${encodeBase58(authority.address)}`, [run.payer], [hand])
  }
  return upgrade
}

async function landed(
  rpc: RpcPool,
  { priority_fee_lamports, step }: DeployRun,
  name: string,
  seeds: readonly [Uint8Array, ...Uint8Array[]],
  instructions: readonly VaultInstruction[],
): Promise<void> {
  step(name, await landTransaction(rpc, { seeds, instructions, priority_fee_lamports }))
}

/** Opens the endpoints for one use. */
export async function withRpc<T>(rpc_urls: readonly string[], use: (rpc: RpcPool) => Promise<T>): Promise<T> {
  const rpc = new RpcPool(rpc_urls, CALL_MS)
  try {
    return await use(rpc)
  } finally {
    rpc.close()
  }
}
