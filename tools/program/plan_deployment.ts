/** Plans the deployment of an ELF at a program address from public facts; signs nothing. */
import type { Address } from '@solana/kit'
import { addressOf } from '../../engine/chain/client/chain_client'
import type { RpcPool } from '../../engine/chain/client/rpc_pool'
import { decodeBase58 } from '../../protocol/base58'
import { equalBytes } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { programDataAddress } from '../../protocol/vault/addresses'
import { SIGNATURE_LAMPORTS } from './land_transaction'
import {
  BUFFER_HEADER_BYTES,
  decodeProgramData,
  LOADER_V3,
  PROGRAM_BYTES,
  PROGRAM_DATA_HEADER_BYTES,
  type ProgramData,
} from './loader'

/** Bytes of the ELF one v1 transaction carries, with its accounts and two signatures. */
export const CHUNK_BYTES = 3_600
/** The loader extends by no less. */
const EXTENSION_BYTES_MIN = 10_240

export type DeploymentPlan = {
  kind: 'deploy' | 'upgrade' | 'unchanged'
  program: Address
  program_data: Address
  buffer: Address
  elf_bytes: number
  elf_sha256: Uint8Array
  /** The current deployment. */
  deployed: { slot: number; authority: Address | undefined; sha256: Uint8Array } | undefined
  /** Bytes by which the program data account must grow. */
  extension_bytes: number
  /** Offsets of the chunks that the buffer does not hold yet. */
  offsets: number[]
  buffer_exists: boolean
  rent: { buffer: bigint; program: bigint; program_data: bigint }
  /** The most the payer gives away for good or for as long as the program lives; the buffer's rent comes back. */
  cost_lamports: bigint
}

/** @throws Error where the address or the authority makes it impossible; ChainUnavailable */
export async function planDeployment(
  rpc: RpcPool,
  args: { elf: Uint8Array; program: Address; buffer: Address; authority: Address },
): Promise<DeploymentPlan> {
  const { elf, program, buffer, authority } = args
  const program_data = addressOf(programDataAddress(decodeBase58(program, 32)!))
  const [stub, data, half] = await accountsOf(rpc, [program, program_data, buffer])
  const deployed = data && decodeProgramData(data.data)
  if (stub !== undefined && (stub.owner !== LOADER_V3 || deployed === undefined)) {
    throw new Error(`${program} is not a program of the upgradeable loader`)
  }
  if (deployed && deployed.authority !== authority) {
    throw new Error(`${deployed.authority ?? 'nobody'} may upgrade ${program}, not ${authority}`)
  }
  const same = deployed !== undefined && isElf(deployed, elf)
  const kind = deployed === undefined ? 'deploy' : same ? 'unchanged' : 'upgrade'
  const missing = Math.max(0, elf.length - (deployed?.elf.length ?? elf.length))
  const extension_bytes = missing === 0 ? 0 : Math.max(missing, EXTENSION_BYTES_MIN)
  const offsets = kind === 'unchanged' ? [] : missingChunks(elf, half?.data)
  const rent = {
    buffer: await rentOf(rpc, BUFFER_HEADER_BYTES + elf.length),
    program: await rentOf(rpc, PROGRAM_BYTES),
    program_data: await rentOf(rpc, PROGRAM_DATA_HEADER_BYTES + elf.length),
  }
  const kept = kind === 'deploy' ? rent.program + rent.program_data : 0n
  const fees = SIGNATURE_LAMPORTS * BigInt(2 * (offsets.length + 3))
  return {
    kind,
    program,
    program_data,
    buffer,
    elf_bytes: elf.length,
    elf_sha256: sha256(elf),
    deployed: deployed && { ...deployed, sha256: sha256(deployed.elf.subarray(0, codeBytes(deployed, elf))) },
    extension_bytes,
    offsets,
    buffer_exists: half !== undefined,
    rent,
    cost_lamports: kind === 'unchanged' ? 0n : kept + fees,
  }
}

/** The loader pads with zeros: an equal ELF is judged by its own length. */
function isElf(deployed: ProgramData, elf: Uint8Array): boolean {
  const code = deployed.elf.subarray(0, elf.length)
  return equalBytes(code, elf) && deployed.elf.subarray(elf.length).every((byte) => byte === 0)
}

function codeBytes(deployed: ProgramData, elf: Uint8Array): number {
  return isElf(deployed, elf) ? elf.length : deployed.elf.length
}

function missingChunks(elf: Uint8Array, buffer: Uint8Array | undefined): number[] {
  const held = buffer?.subarray(BUFFER_HEADER_BYTES) ?? new Uint8Array()
  const offsets: number[] = []
  for (let offset = 0; offset < elf.length; offset += CHUNK_BYTES) {
    const end = Math.min(elf.length, offset + CHUNK_BYTES)
    if (!equalBytes(held.subarray(offset, end), elf.subarray(offset, end))) offsets.push(offset)
  }
  return offsets
}

async function accountsOf(
  rpc: RpcPool,
  addresses: Address[],
): Promise<({ owner: Address; data: Uint8Array } | undefined)[]> {
  const { value } = await rpc.read((endpoint, abortSignal) =>
    endpoint
      .getMultipleAccounts(addresses, { commitment: 'confirmed', encoding: 'base64' })
      .send({ abortSignal }),
  )
  return value.map((account) =>
    account
      ? { owner: account.owner, data: new Uint8Array(Buffer.from(account.data[0], 'base64')) }
      : undefined,
  )
}

async function rentOf(rpc: RpcPool, bytes: number): Promise<bigint> {
  return rpc.read((endpoint, abortSignal) =>
    endpoint.getMinimumBalanceForRentExemption(BigInt(bytes)).send({ abortSignal }),
  )
}
