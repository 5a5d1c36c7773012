/** Checks, plans, deploys or upgrades a program, resuming an interrupted run; without a key the upgrade is a proposal. */

import {
  appendTransactionMessageInstruction,
  compileTransaction,
  createTransactionMessage,
  getBase64EncodedWireTransaction,
  pipe,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayer,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
} from '@solana/kit'
import { readInput, readInputText } from '../../client/cli/command'
import { Refused } from '../../client/verify/transcript'
import { COMPUTE_UNITS_MAX } from '../../engine/chain/client/build_transaction'
import { addressOf } from '../../engine/chain/client/chain_client'
import { type Reader, RpcPool } from '../../engine/chain/client/rpc_pool'
import { failureOf, isPayerShort } from '../../engine/chain/client/transaction_status'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex, utf8 } from '../../protocol/bytes'
import { LOADED_ACCOUNTS_BYTES_MAX } from '../../protocol/limits'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import {
  COMPUTE_BUDGET_PROGRAM,
  programDataAddress,
  UPGRADEABLE_LOADER,
} from '../../protocol/vault/addresses'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import {
  CALL_MS,
  landTransaction,
  requireLamports,
  SIGNATURE_LAMPORTS,
  WRITES_PARALLEL_MAX,
} from './land_transaction'
import {
  BUFFER_HEADER_BYTES,
  type Code,
  createLoaderAccount,
  decodeCode,
  deployProgram as deployInstruction,
  extendProgram,
  initializeBuffer,
  PROGRAM_BYTES,
  PROGRAM_DATA_HEADER_BYTES,
  setAuthority,
  upgradeProgram,
  writeBuffer,
} from './loader'

/** Bytes of the ELF one v1 transaction carries, with its accounts and two signatures. */
const CHUNK_BYTES = 3_600
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
  /** The payer's balance that it takes now, the buffer's rent included. */
  needed_lamports: bigint
}

/** @throws Error where the address or the authority makes it impossible; ChainUnavailable */
async function planDeployment(
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
  // A first deployment pays the program data from the lamports that the buffer returns.
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
    throw new Error(`${encodeBase58(program_data)} has no code of the upgradeable loader`)
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

/** A public key, with its 32-byte seed where this command holds it. */
export type Key = { address: Uint8Array; seed?: Uint8Array }

type DeployOptions = {
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

/**
 * Has every provider run an empty v1 transaction without landing it. Resolves with the hosts that reject it.
 * @throws Error when none takes it: where `open_attested_epoch` cannot land, a vault never takes deposits
 */
export async function refusingV1(rpc: RpcPool, payer: Uint8Array): Promise<string[]> {
  const outcomes = await Promise.all(rpc.each.map((reader) => takesV1(reader, payer)))
  if (!outcomes.includes(true)) throw new Error('no provider takes v1 transactions, which the vault needs')
  return rpc.hosts.filter((_, at) => !outcomes[at])
}

async function takesV1(reader: Reader, payer: Uint8Array): Promise<boolean> {
  try {
    const { value: lifetime } = await reader.read((endpoint, abortSignal) =>
      endpoint.getLatestBlockhash({ commitment: 'confirmed' }).send({ abortSignal }),
    )
    const wire = getBase64EncodedWireTransaction(
      pipe(
        createTransactionMessage({ version: 1 }),
        (m) => setTransactionMessageFeePayer(addressOf(payer), m),
        (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
        (m) => setTransactionMessageComputeUnitLimit(COMPUTE_UNITS_MAX, m),
        (m) => setTransactionMessageLoadedAccountsDataSizeLimit(LOADED_ACCOUNTS_BYTES_MAX, m),
        (m) => appendTransactionMessageInstruction(nothing, m),
        compileTransaction,
      ),
    )
    const { value } = await reader.read((endpoint, abortSignal) =>
      endpoint
        .simulateTransaction(wire, { encoding: 'base64', sigVerify: false, commitment: 'confirmed' })
        .send({ abortSignal }),
    )
    // Who pays is judged when it pays.
    return value.err === null || isPayerShort(failureOf(value.err))
  } catch {
    return false
  }
}

/** A heap frame of 256 KiB: needs no account and changes nothing. */
const nothing = { programAddress: addressOf(COMPUTE_BUDGET_PROGRAM), data: Uint8Array.of(1, 0, 0, 4, 0) }

/** The binary at a path, which must have the committed hash in the file of that name with `.sha256`. @throws Refused */
export function testedBinary(path: string): Uint8Array {
  const binary = readInput(path)
  const [hash] = readInputText(`${path}.sha256`).split(' ')
  if (toHex(sha256(binary)) !== hash) throw new Refused(`${path} is not the binary that ${path}.sha256 names`)
  return binary
}

/**
 * Reads the finalized code of a program or a buffer back from the chain; the next step is final, so one provider is not
 * believed.
 * @throws Refused unless a quorum of the providers shows the tested binary; ChainUnavailable
 */
export async function requireTestedCode(rpc: RpcPool, account: Uint8Array, path: string): Promise<void> {
  const binary = testedBinary(path)
  const isTested = async (reader: Reader): Promise<boolean> => {
    const code = await readCode(reader, account, 'finalized')
    return code !== undefined && isElf(code, binary)
  }
  if (!(await rpc.agree(isTested, String)))
    throw new Refused(`the code on chain is not the one of ${path}.sha256`)
}
