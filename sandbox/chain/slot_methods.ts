/** Serves the RPC methods for slots, blocks, blockhashes and fees. */

import { type CompiledTransactionMessage, getCompiledTransactionMessageDecoder } from '@solana/kit'
import { encodeBase58 } from '../../protocol/base58'
import { SLOTS_PER_EPOCH } from './bank'
import { commitmentOf, configAt, type Method, textAt, withContext } from './rpc'

const LAMPORTS_PER_SIGNATURE = 5_000n

const latestBlockhash: Method = (machine, params) => {
  const config = configAt(machine, params, 0)
  const { blockhash } = machine.blockhashes.at(machine.slotAt(commitmentOf(config)))
  return withContext(machine, config, { blockhash, lastValidBlockHeight: machine.lastValidHeight(blockhash) })
}

const isBlockhashValid: Method = (machine, params) =>
  withContext(machine, configAt(machine, params, 1), machine.isBlockhashValid(textAt(params, 0)))

/** Base fee only: the priority fee is part of the message. */
const feeForMessage: Method = (machine, params) => {
  const bytes = new Uint8Array(Buffer.from(textAt(params, 0), 'base64'))
  const message: CompiledTransactionMessage & { lifetimeToken?: string } =
    getCompiledTransactionMessageDecoder().decode(bytes)
  const valid = machine.isBlockhashValid(message.lifetimeToken ?? '')
  const fee = LAMPORTS_PER_SIGNATURE * BigInt(message.header.numSignerAccounts)
  return withContext(machine, configAt(machine, params, 1), valid ? fee : null)
}

/** Zero for each recent slot: without contention no transaction pays for priority. */
const recentPrioritizationFees: Method = (machine) => {
  const last = machine.slotAt('processed')
  const count = Math.min(150, last + 1)
  return Array.from({ length: count }, (_, at) => ({ slot: last - at, prioritizationFee: 0 }))
}

const slot: Method = (machine, params) => machine.slotAt(commitmentOf(configAt(machine, params, 0)))

const blockHeight: Method = (machine, params) =>
  machine.blockhashes.at(machine.slotAt(commitmentOf(configAt(machine, params, 0)))).height

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

/** Null outside the recent window, like a node for a block it has discarded. */
const blockTime: Method = (machine, params) => machine.blockhashes.exact(Number(params[0]))?.unix_s ?? null

export const slotMethods: Record<string, Method> = {
  getLatestBlockhash: latestBlockhash,
  isBlockhashValid,
  getFeeForMessage: feeForMessage,
  getRecentPrioritizationFees: recentPrioritizationFees,
  getSlot: slot,
  getBlockHeight: blockHeight,
  getEpochInfo: epochInfo,
  getBlockTime: blockTime,
  getHealth: () => 'ok',
  getVersion: () => ({ 'solana-core': '4.2.0', 'feature-set': 0 }),
  getGenesisHash: (machine) => encodeBase58(machine.genesis_hash),
  getFirstAvailableBlock: () => 0,
}
