/** Lists the JSON-RPC methods of the embedded chain: accounts, slots, fees, landed transactions, sends and simulations. */

import { getCompiledTransactionMessageDecoder, getTransactionDecoder } from '@solana/kit'
import { FailedTransactionMetadata } from 'litesvm'
import { TransactionTooLarge } from '../../engine/chain/client/build_transaction'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, readU64Le } from '../../protocol/bytes'
import type { BankAccount } from './bank'
import type { Commitment, Machine } from './machine'
import {
  addressAt,
  addressesAt,
  type Config,
  commitmentOf,
  configAt,
  encodeJson,
  inContext,
  invalidParams,
  type Method,
  RawJson,
  RPC_CODE,
  RpcError,
  requireBase64,
  textAt,
} from './serve'
import { type DecodedTransaction, decodeTransaction, transactionErrorOf } from './transaction_meta'

/** Rent-exempt accounts never pay rent: nodes return the largest u64. */
const RENT_EPOCH = 0xffff_ffff_ffff_ffffn
const TOKEN_PROGRAM = 'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA'
const TOKEN_2022_PROGRAM = 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'
const STATUSES_MAX = 256
const SIGNATURES_MAX = 1_000

/** An account as RPC JSON, its data in base64. */
function accountJson(account: BankAccount | undefined, config: Config): unknown {
  if (!account) return null
  requireBase64(config)
  const { lamports, owner, executable, data } = account
  const { offset = 0, length = data.length } = (config['dataSlice'] ?? {}) as {
    offset?: number
    length?: number
  }
  const encoded = [Buffer.from(data.subarray(offset, offset + length)).toString('base64'), 'base64']
  return { lamports, owner, executable, rentEpoch: RENT_EPOCH, space: data.length, data: encoded }
}

const isToken = (account: BankAccount | undefined): account is BankAccount =>
  account?.owner === TOKEN_PROGRAM || account?.owner === TOKEN_2022_PROGRAM

/** Decimals of a mint; undefined for anything that is not an initialized mint. */
export function decimalsOf(account: BankAccount | undefined): number | undefined {
  return isToken(account) && account.data[45] === 1 ? account.data[44] : undefined
}

/** `uiTokenAmount` of the RPC; the decimal text is exact. */
function tokenBalance(machine: Machine, address: string, level: Commitment): Record<string, unknown> {
  const account = machine.accountAt(address, level)
  const is_open = isToken(account) && account.data[108] !== 0
  const mint = is_open ? encodeBase58(account.data.subarray(0, 32)) : ''
  const decimals = is_open ? decimalsOf(machine.accountAt(mint, level)) : undefined
  if (!is_open || decimals === undefined) throw invalidParams('not a Token account')
  const amount = readU64Le(account.data, 64).toString()
  const digits = amount.padStart(decimals + 1, '0')
  const at = digits.length - decimals
  const text = `${digits.slice(0, at)}.${digits.slice(at)}`.replace(/\.?0*$/, '')
  return { amount, decimals, uiAmount: Number(text), uiAmountString: text }
}

type Filter = { memcmp?: { offset: number; bytes: string }; dataSize?: number }

/** `bytes` of a `memcmp` in base58. */
function matches({ data }: BankAccount, { memcmp, dataSize }: Filter): boolean {
  if (dataSize !== undefined) return data.length === Number(dataSize)
  if (!memcmp) throw invalidParams('unknown filter')
  for (let width = 1; width <= 128; width++) {
    const wanted = decodeBase58(memcmp.bytes, width)
    const at = Number(memcmp.offset)
    if (wanted) return equalBytes(data.subarray(at, at + width), wanted)
  }
  throw invalidParams('memcmp bytes are not base58')
}

const programAccounts: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const filters = (config['filters'] ?? []) as Filter[]
  const slot = machine.slotAt(commitmentOf(config))
  const value = machine.bank
    .ownedBy(addressAt(params, 0), slot)
    .filter(([, account]) => filters.every((filter) => matches(account, filter)))
    .map(([pubkey, account]) => ({ pubkey, account: accountJson(account, config) }))
  return config['withContext'] === true ? { context: { slot }, value } : value
}

const minimumBalance: Method = ({ bank }, [bytes]) => {
  if (typeof bytes !== 'number' || !Number.isSafeInteger(bytes) || bytes < 0)
    throw invalidParams('expected a size')
  return bank.svm.minimumBalanceForRentExemption(BigInt(bytes))
}

function levelOf(machine: Machine, slot: number): Commitment {
  if (slot <= machine.slotAt('finalized')) return 'finalized'
  return slot <= machine.slotAt('confirmed') ? 'confirmed' : 'processed'
}

const signatureStatuses: Method = (machine, params) => {
  const list = params[0]
  if (!Array.isArray(list) || list.length > STATUSES_MAX)
    throw invalidParams(`at most ${STATUSES_MAX} signatures`)
  const statuses = list.map((_, at) => {
    const found = machine.store.transaction(textAt(list, at))
    if (!found) return null
    const confirmationStatus = levelOf(machine, found.slot)
    const confirmations = confirmationStatus === 'finalized' ? null : machine.tip - found.slot
    const status = found.error === 'null' ? { Ok: null } : { Err: new RawJson(found.error) }
    return { slot: found.slot, confirmations, err: new RawJson(found.error), status, confirmationStatus }
  })
  return { context: { slot: machine.tip }, value: statuses }
}

const signaturesForAddress: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const limit = Math.min(Number(config['limit'] ?? SIGNATURES_MAX), SIGNATURES_MAX)
  const edge = (name: string): string | undefined =>
    config[name] === undefined ? undefined : textAt([config[name]], 0)
  const slot = machine.slotAt(commitmentOf(config))
  const rows = machine.store.history(addressAt(params, 0), slot, edge('before'), edge('until'), limit)
  return rows.map((row) => ({
    signature: row.signature,
    slot: row.slot,
    err: new RawJson(row.error),
    memo: null,
    blockTime: row.unix_s,
    confirmationStatus: levelOf(machine, row.slot),
  }))
}

const transaction: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const found = machine.store.transaction(textAt(params, 0))
  if (!found || found.slot > machine.slotAt(commitmentOf(config))) return null
  requireBase64(config)
  const { messageBytes } = getTransactionDecoder().decode(new Uint8Array(found.bytes))
  const { version } = getCompiledTransactionMessageDecoder().decode(messageBytes)
  const supported = config['maxSupportedTransactionVersion']
  if (version !== 'legacy' && (typeof supported !== 'number' || supported < version)) {
    throw new RpcError(
      RPC_CODE.unsupported_transaction_version,
      `Transaction version (${version}) is not supported by the requesting client`,
    )
  }
  return {
    slot: found.slot,
    blockTime: found.unix_s,
    version,
    meta: new RawJson(found.meta),
    transaction: [Buffer.from(found.bytes).toString('base64'), 'base64'],
  }
}

/** Zero for each recent slot: without contention no transaction pays for priority. */
const recentPrioritizationFees: Method = ({ tip }) =>
  Array.from({ length: Math.min(150, tip + 1) }, (_, at) => ({ slot: tip - at, prioritizationFee: 0 }))

const SLOTS_PER_EPOCH = 432_000

const epochInfo: Method = (machine, params) => {
  const absoluteSlot = machine.slotAt(commitmentOf(configAt(machine, params, 0)))
  return {
    absoluteSlot,
    blockHeight: machine.blockhashes.at(absoluteSlot).height,
    epoch: Math.floor(absoluteSlot / SLOTS_PER_EPOCH),
    slotIndex: absoluteSlot % SLOTS_PER_EPOCH,
    slotsInEpoch: SLOTS_PER_EPOCH,
    transactionCount: null,
  }
}

export const READ_METHODS: Record<string, Method> = {
  getBalance: inContext(1, (machine, params, level) => {
    return machine.accountAt(addressAt(params, 0), level)?.lamports ?? 0n
  }),
  getAccountInfo: inContext(1, (machine, params, level, config) =>
    accountJson(machine.accountAt(addressAt(params, 0), level), config),
  ),
  getMultipleAccounts: inContext(1, (machine, params, level, config) =>
    addressesAt(params, 0, 100).map((address) => accountJson(machine.accountAt(address, level), config)),
  ),
  getProgramAccounts: programAccounts,
  getMinimumBalanceForRentExemption: minimumBalance,
  getTokenAccountBalance: inContext(1, (machine, params, level) =>
    tokenBalance(machine, addressAt(params, 0), level),
  ),
  getSignatureStatuses: signatureStatuses,
  getSignaturesForAddress: signaturesForAddress,
  getTransaction: transaction,
  getLatestBlockhash: inContext(0, (machine, _, level) => {
    const { blockhash } = machine.blockhashes.at(machine.slotAt(level))
    return { blockhash, lastValidBlockHeight: machine.lastValidHeight(blockhash) }
  }),
  isBlockhashValid: inContext(1, (machine, params) => machine.isBlockhashValid(textAt(params, 0))),
  getRecentPrioritizationFees: recentPrioritizationFees,
  getSlot: (machine, params) => machine.slotAt(commitmentOf(configAt(machine, params, 0))),
  getBlockHeight: (machine, params) =>
    machine.blockhashes.at(machine.slotAt(commitmentOf(configAt(machine, params, 0)))).height,
  getEpochInfo: epochInfo,
  /** Null outside the recent window, like a node for a block it has discarded. */
  getBlockTime: (machine, params) => machine.blockhashes.exact(Number(params[0]))?.unix_s ?? null,
  getHealth: () => 'ok',
  getVersion: () => ({ 'solana-core': '4.2.0', 'feature-set': 0 }),
  getGenesisHash: (machine) => encodeBase58(machine.genesis_hash),
}

/** @throws RpcError unless the bytes are a transaction */
function decodeParam({ faults }: Machine, params: unknown[], config: Config): DecodedTransaction {
  requireBase64(config)
  const refused = invalidParams('failed to deserialize the transaction')
  let decoded: DecodedTransaction
  try {
    decoded = decodeTransaction(new Uint8Array(Buffer.from(textAt(params, 0), 'base64')))
  } catch (error) {
    throw error instanceof TransactionTooLarge ? invalidParams(error.message) : refused
  }
  if (faults.refuse_v1 === true && decoded.message.version === 1) throw refused
  return decoded
}

type Simulation = { err: unknown; value: Record<string, unknown> }

const UNRUN = { logs: [], unitsConsumed: 0, returnData: null, accounts: null, innerInstructions: null }

function simulate({ bank }: Machine, decoded: DecodedTransaction, verify: boolean): Simulation {
  bank.svm.withSigverify(verify)
  const result = bank.svm.simulateTransaction(decoded.transaction)
  bank.svm.withSigverify(true)
  const err = result instanceof FailedTransactionMetadata ? transactionErrorOf(result.toString()) : null
  const meta = result.meta()
  const ran = { logs: meta.logs(), unitsConsumed: meta.computeUnitsConsumed() }
  return { err, value: { ...UNRUN, ...ran, err: new RawJson(encodeJson(err)) } }
}

const simulateTransaction = inContext(1, (machine, params, _, config) => {
  const decoded = decodeParam(machine, params, config)
  if (!machine.isAlive(decoded)) return { ...UNRUN, err: 'BlockhashNotFound' }
  return simulate(machine, decoded, config['sigVerify'] === true).value
})

function preflight(machine: Machine, decoded: DecodedTransaction): void {
  if (machine.store.transaction(decoded.signature!))
    throw preflightFailure('This transaction has already been processed', 'AlreadyProcessed')
  if (!machine.isAlive(decoded)) throw preflightFailure('Blockhash not found', 'BlockhashNotFound')
  const { err, value } = simulate(machine, decoded, true)
  if (err === null) return
  if (err === 'SignatureFailure') throw unsigned()
  throw preflightFailure(`Error processing transaction: ${JSON.stringify(err)}`, err, value)
}

const unsigned = () =>
  new RpcError(RPC_CODE.signature_verification_failure, 'Transaction signature verification failure')

function preflightFailure(message: string, err: unknown, value: Record<string, unknown> = {}): RpcError {
  const data = { ...UNRUN, ...value, err }
  return new RpcError(RPC_CODE.preflight_failure, `Transaction simulation failed: ${message}`, data)
}

/** Queues the transaction; the reply does not promise that it lands. */
const sendTransaction: Method = (machine, params) => {
  const config = configAt(machine, params, 1)
  const decoded = decodeParam(machine, params, config)
  if (!decoded.signature) throw unsigned()
  if (config['skipPreflight'] !== true) preflight(machine, decoded)
  try {
    machine.enqueue(decoded)
  } catch {
    throw new RpcError(RPC_CODE.node_unhealthy, 'Node is behind: too many pending transactions')
  }
  return decoded.signature
}

export const SEND_METHODS: Record<string, Method> = { simulateTransaction, sendTransaction }
