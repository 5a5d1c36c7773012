/** Deploys or upgrades a program, resuming an interrupted run, and sends the vault's administrative instructions. */

import { createKeyPairSignerFromPrivateKeyBytes, type KeyPairSigner } from '@solana/kit'
import { toInstruction } from '../../engine/chain/client/build_transaction'
import { RpcPool } from '../../engine/chain/client/rpc_pool'
import { equalBytes, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { landTransaction } from './land_transaction'
import { CALL_MS, WRITES_PARALLEL_MAX } from './limits'
import {
  BUFFER_HEADER_BYTES,
  createLoaderAccount,
  deployProgram as deployInstruction,
  extendProgram,
  initializeBuffer,
  PROGRAM_BYTES,
  renounceUpgrades,
  upgradeProgram,
  writeBuffer,
} from './loader'
import { CHUNK_BYTES, type DeploymentPlan, planDeployment } from './plan_deployment'

/**
 * Sends one instruction of the vault's deployer or admin. Resolves with the signature once finalized.
 * @param seeds of all signers; the first one pays
 * @throws Error with the chain's reason; ChainUnavailable
 */
export async function administerVault(
  rpc_urls: readonly string[],
  seeds: readonly [Uint8Array, ...Uint8Array[]],
  instruction: VaultInstruction,
  priority_fee_lamports: bigint,
): Promise<string> {
  return withRpc(rpc_urls, async (rpc) => {
    const signers = await Promise.all(seeds.map((seed) => createKeyPairSignerFromPrivateKeyBytes(seed)))
    const instructions = [toInstruction(instruction, signers)]
    return landTransaction(rpc, { payer: signers[0]!, instructions, priority_fee_lamports })
  })
}

type DeployKeys = {
  /** 32-byte Ed25519 seeds: fee payer, upgrade authority, and the program's address. */
  payer: Uint8Array
  authority: Uint8Array
  program: Uint8Array
}
type DeployOptions = { rpc_urls: readonly string[]; elf: Uint8Array; keys: DeployKeys }
export type DeployRun = DeployOptions & {
  priority_fee_lamports: bigint
  /** Renounces the right to upgrade once the code is in place; this is final. */
  renounce: boolean
  /** Called after each step with its transaction signature. */
  step: (name: string, signature: string) => void
}

/** Dry run: the plan that `deployProgram` would carry out now. @throws Error, ChainUnavailable */
export async function planProgram({ rpc_urls, elf, keys }: DeployOptions): Promise<DeploymentPlan> {
  return withRpc(rpc_urls, async (rpc) => planWith(rpc, elf, await signersOf(keys, elf)))
}

/** Resolves with the plan it carried out. @throws Error with the chain's reason; ChainUnavailable */
export async function deployProgram(run: DeployRun): Promise<DeploymentPlan> {
  const { rpc_urls, elf, keys } = run
  return withRpc(rpc_urls, async (rpc) => {
    const signers = await signersOf(keys, elf)
    const plan = await planWith(rpc, elf, signers)
    if (plan.kind !== 'unchanged') {
      await fillBuffer(rpc, run, plan, signers)
      await putInPlace(rpc, run, plan, signers)
    }
    if (run.renounce)
      await landed(rpc, run, signers, 'renounce', [renounceUpgrades(plan.program_data, signers.authority)])
    return plan
  })
}

type Signers = Record<'payer' | 'authority' | 'program' | 'buffer', KeyPairSigner>

/** The buffer's key is derived from the authority's key and the code, so a second run finds the first run's buffer. */
async function signersOf(keys: DeployKeys, elf: Uint8Array): Promise<Signers> {
  const signer = createKeyPairSignerFromPrivateKeyBytes
  const buffer = sha256(utf8('tacit/deploy-buffer/v1'), keys.authority, sha256(elf))
  const authority = await signer(keys.authority)
  return {
    // Payer and authority may be one key: a transaction takes one signer per address.
    payer: equalBytes(keys.payer, keys.authority) ? authority : await signer(keys.payer),
    authority,
    program: await signer(keys.program),
    buffer: await signer(buffer),
  }
}

function planWith(rpc: RpcPool, elf: Uint8Array, signers: Signers): Promise<DeploymentPlan> {
  const { program, buffer, authority } = signers
  return planDeployment(rpc, {
    elf,
    program: program.address,
    buffer: buffer.address,
    authority: authority.address,
  })
}

async function fillBuffer(
  rpc: RpcPool,
  run: DeployRun,
  plan: DeploymentPlan,
  signers: Signers,
): Promise<void> {
  const { buffer, authority, payer } = signers
  if (!plan.buffer_exists) {
    const space = BUFFER_HEADER_BYTES + run.elf.length
    const create = createLoaderAccount(payer, buffer, space, plan.rent.buffer)
    await landed(rpc, run, signers, 'create buffer', [
      create,
      initializeBuffer(buffer.address, authority.address),
    ])
  }
  for (let at = 0; at < plan.offsets.length; at += WRITES_PARALLEL_MAX) {
    const sent = plan.offsets.slice(at, at + WRITES_PARALLEL_MAX).map((offset) => {
      const bytes = run.elf.subarray(offset, offset + CHUNK_BYTES)
      const writes = writeBuffer(buffer.address, authority, offset, bytes)
      return landed(rpc, run, signers, `write ${offset}`, writes)
    })
    await Promise.all(sent)
  }
}

async function putInPlace(
  rpc: RpcPool,
  run: DeployRun,
  plan: DeploymentPlan,
  signers: Signers,
): Promise<void> {
  const { payer, program, authority } = signers
  const { program_data, buffer, extension_bytes } = plan
  if (plan.kind === 'deploy') {
    const bytes_max = run.elf.length
    await landed(rpc, run, signers, 'deploy', [
      createLoaderAccount(payer, program, PROGRAM_BYTES, plan.rent.program),
      deployInstruction({ payer, program: program.address, program_data, buffer, authority, bytes_max }),
    ])
    return
  }
  if (extension_bytes > 0) {
    const extend = extendProgram(program.address, program_data, payer, extension_bytes)
    await landed(rpc, run, signers, `extend by ${extension_bytes}`, [extend])
  }
  const spill = payer.address
  await landed(rpc, run, signers, 'upgrade', [
    upgradeProgram({ program: program.address, program_data, buffer, spill, authority }),
  ])
}

async function landed(
  rpc: RpcPool,
  { priority_fee_lamports, step }: DeployRun,
  { payer }: Signers,
  name: string,
  instructions: Parameters<typeof landTransaction>[1]['instructions'],
): Promise<void> {
  step(name, await landTransaction(rpc, { payer, instructions, priority_fee_lamports }))
}

async function withRpc<T>(rpc_urls: readonly string[], use: (rpc: RpcPool) => Promise<T>): Promise<T> {
  const rpc = new RpcPool(rpc_urls, CALL_MS)
  try {
    return await use(rpc)
  } finally {
    rpc.close()
  }
}
