/** Plans the deployment of an ELF at a program address from public facts, and reads deployed code back; signs nothing. */
import { addressOf } from '../../engine/chain/client/chain_client'
import type { Reader, RpcPool } from '../../engine/chain/client/rpc_pool'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { programDataAddress, UPGRADEABLE_LOADER } from '../../protocol/vault/addresses'
import type { Key } from './deploy_program'
import { SIGNATURE_LAMPORTS } from './land_transaction'
import {
  BUFFER_HEADER_BYTES,
  type Code,
  decodeCode,
  PROGRAM_BYTES,
  PROGRAM_DATA_HEADER_BYTES,
} from './loader'

/** Bytes of the ELF one v1 transaction carries, with its accounts and two signatures. */
export const CHUNK_BYTES = 3_600
/** The loader extends by no less. */
const EXTENSION_BYTES_MIN = 10_240

export type DeploymentPlan = {
  kind: 'deploy' | 'upgrade' | 'unchanged'
  program_data: Uint8Array
  buffer: Uint8Array
  elf_sha256: Uint8Array
  /** The current deployment. */
  deployed: Code | undefined
  /** Bytes by which the program data account must grow. */
  extension_bytes: number
  /** Offsets of the chunks that the buffer does not hold yet. */
  offsets: number[]
  /** Undefined while there is no buffer. */
  buffer_authority: Uint8Array | undefined
  rent: { buffer: bigint; program: bigint; program_data: bigint }
  /** The most the payer gives away for good or for as long as the program lives; the buffer's rent comes back. */
  cost_lamports: bigint
  /** What the payer must hold now to carry it out, the buffer's rent included. */
  needed_lamports: bigint
}

/** @throws Error where the address or the authority makes it impossible; ChainUnavailable */
export async function planDeployment(
  rpc: RpcPool,
  args: { elf: Uint8Array; program: Key; buffer: Uint8Array; authority: Key },
): Promise<DeploymentPlan> {
  const { elf, program, buffer, authority } = args
  const program_data = programDataAddress(program.address)
  const deployed = await readCode(rpc, program_data)
  if (deployed === undefined && (program.seed === undefined || authority.seed === undefined))
    throw new Error('a first deployment needs the keys of the program and of its authority')
  if (deployed === undefined && (await readAccounts(rpc, [program.address], 'confirmed'))[0] !== undefined)
    throw new Error(
      `${encodeBase58(program.address)} is an account already: a program needs a key of its own`,
    )
  if (deployed && !equalBytes(deployed.authority ?? new Uint8Array(), authority.address)) {
    const holder = deployed.authority ? encodeBase58(deployed.authority) : 'no key'
    throw new Error(`${holder} may upgrade the program, not ${encodeBase58(authority.address)}`)
  }
  const kind = deployed === undefined ? 'deploy' : isElf(deployed, elf) ? 'unchanged' : 'upgrade'
  const missing = Math.max(0, elf.length - (deployed?.elf.length ?? elf.length))
  const extension_bytes = missing === 0 ? 0 : Math.max(missing, EXTENSION_BYTES_MIN)
  const half = kind === 'unchanged' ? undefined : await readCode(rpc, buffer)
  const offsets = kind === 'unchanged' ? [] : missingChunks(elf, half?.elf ?? new Uint8Array())
  const rent = {
    buffer: await rentOf(rpc, BUFFER_HEADER_BYTES + elf.length),
    program: await rentOf(rpc, PROGRAM_BYTES),
    program_data: await rentOf(rpc, PROGRAM_DATA_HEADER_BYTES + elf.length),
  }
  const grown = extension_bytes === 0 ? 0n : await rentOf(rpc, extension_bytes)
  const kept = kind === 'deploy' ? rent.program + rent.program_data : grown
  const fees = SIGNATURE_LAMPORTS * BigInt(2 * (offsets.length + 3))
  const cost_lamports = kind === 'unchanged' ? 0n : kept + fees
  // A first deployment pays the program data from what the buffer returns.
  const lent = (kind === 'upgrade' ? rent.buffer : 0n) - (half === undefined ? 0n : rent.buffer)
  return {
    kind,
    program_data,
    buffer,
    elf_sha256: sha256(elf),
    deployed,
    extension_bytes,
    offsets,
    buffer_authority: half?.authority,
    rent,
    cost_lamports,
    needed_lamports: cost_lamports + lent,
  }
}

/**
 * Code and upgrade authority at an address of program data or of a buffer; undefined where there is no account.
 * @throws Error when the address holds something else; ChainUnavailable
 */
export async function readCode(
  rpc: Reader,
  program_data: Uint8Array,
  commitment: 'confirmed' | 'finalized' = 'confirmed',
): Promise<Code | undefined> {
  const [account] = await readAccounts(rpc, [program_data], commitment)
  if (account === undefined) return undefined
  const code = decodeCode(account.data)
  if (!equalBytes(account.owner, UPGRADEABLE_LOADER) || code === undefined)
    throw new Error(`${encodeBase58(program_data)} holds no code of the upgradeable loader`)
  return code
}

/** The loader pads with zeros: an equal ELF is judged by its own length. */
export function isElf(deployed: Code, elf: Uint8Array): boolean {
  const code = deployed.elf.subarray(0, elf.length)
  return equalBytes(code, elf) && deployed.elf.subarray(elf.length).every((byte) => byte === 0)
}

function missingChunks(elf: Uint8Array, held: Uint8Array): number[] {
  const offsets: number[] = []
  for (let offset = 0; offset < elf.length; offset += CHUNK_BYTES) {
    const end = Math.min(elf.length, offset + CHUNK_BYTES)
    if (!equalBytes(held.subarray(offset, end), elf.subarray(offset, end))) offsets.push(offset)
  }
  return offsets
}

/** Undefined for an address without account. @throws ChainUnavailable */
export async function readAccounts(
  rpc: Reader,
  addresses: readonly Uint8Array[],
  commitment: 'confirmed' | 'finalized',
): Promise<({ owner: Uint8Array; data: Uint8Array } | undefined)[]> {
  const { value } = await rpc.read((endpoint, abortSignal) =>
    endpoint
      .getMultipleAccounts(addresses.map(addressOf), { commitment, encoding: 'base64' })
      .send({ abortSignal }),
  )
  return value.map((account) =>
    account
      ? {
          owner: decodeBase58(account.owner, 32)!,
          data: new Uint8Array(Buffer.from(account.data[0], 'base64')),
        }
      : undefined,
  )
}

/** Rent-exempt lamports of an account. @throws ChainUnavailable */
export async function rentOf(rpc: RpcPool, bytes: number): Promise<bigint> {
  return rpc.read((endpoint, abortSignal) =>
    endpoint.getMinimumBalanceForRentExemption(BigInt(bytes)).send({ abortSignal }),
  )
}
