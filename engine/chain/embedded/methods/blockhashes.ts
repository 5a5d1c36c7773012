/** RPC methods about blockhashes and fees. */
import { type CompiledTransactionMessage, getCompiledTransactionMessageDecoder } from '@solana/kit'
import { commitmentOf, configAt, type Method, textAt, withContext } from '../params'

const LAMPORTS_PER_SIGNATURE = 5_000n

const latestBlockhash: Method = (machine, params) => {
  const config = configAt(machine, params, 0)
  const { blockhash } = machine.blockhashes.at(machine.slotAt(commitmentOf(config)))
  return withContext(machine, config, { blockhash, lastValidBlockHeight: machine.lastValidHeight(blockhash) })
}

const isBlockhashValid: Method = (machine, params) =>
  withContext(machine, configAt(machine, params, 1), machine.isBlockhashValid(textAt(params, 0)))

/** Base fee only: what a message pays in priority stands in the message itself. */
const feeForMessage: Method = (machine, params) => {
  const bytes = new Uint8Array(Buffer.from(textAt(params, 0), 'base64'))
  const message: CompiledTransactionMessage & { lifetimeToken?: string } =
    getCompiledTransactionMessageDecoder().decode(bytes)
  const valid = machine.isBlockhashValid(message.lifetimeToken ?? '')
  const fee = LAMPORTS_PER_SIGNATURE * BigInt(message.header.numSignerAccounts)
  return withContext(machine, configAt(machine, params, 1), valid ? fee : null)
}

/** This chain has no contention, so nobody pays for priority: zero for each recent slot. */
const recentPrioritizationFees: Method = (machine) => {
  const last = machine.slotAt('processed')
  const count = Math.min(150, last + 1)
  return Array.from({ length: count }, (_, at) => ({ slot: last - at, prioritizationFee: 0 }))
}

export const blockhashMethods: Record<string, Method> = {
  getLatestBlockhash: latestBlockhash,
  isBlockhashValid,
  getFeeForMessage: feeForMessage,
  getRecentPrioritizationFees: recentPrioritizationFees,
}
