/** Measures what a settled order, withdrawal or exit costs in the relayer's transactions, as Markdown rows. */

import { type Blockhash, createKeyPairSignerFromPrivateKeyBytes, getTransactionDecoder } from '@solana/kit'
import { FailedTransactionMetadata } from 'litesvm'
import { buildTransaction, toInstruction } from '../../../engine/chain/client/build_transaction'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { type SettleFields, settleInstruction } from '../../../protocol/vault/settle'
import type { OpenVault } from '../../kit/vault/open_vault'
import { readyVault, SHAPES, type Shape } from './settle_shapes'

/** The relayer's floor for a whole transaction. */
const PRIORITY_LAMPORTS = 1_000n
/** Order parts that a batch has room for. */
const PARTS = 28
const UNITS_ASKED = 1_400_000
/** The keys whose names the vault of the program's tests gives to its settlement signer and its fee payer. */
const [signer, payer] = await Promise.all(
  ['settlement 1', 'payer'].map((name) =>
    createKeyPairSignerFromPrivateKeyBytes(sha256(utf8(`vault test ${name}`))),
  ),
)

async function bytesOf(vault: OpenVault, batch: SettleFields): Promise<Uint8Array> {
  const lifetime = { blockhash: vault.chain.svm.latestBlockhash() as Blockhash, lastValidBlockHeight: 1n }
  const instructions = [toInstruction(settleInstruction(batch), [signer!])]
  const limits = { compute_units: UNITS_ASKED, priority_fee_lamports: PRIORITY_LAMPORTS }
  return (await buildTransaction({ payer: payer!, instructions, lifetime, ...limits })).wire
}

export type SettlementCost = {
  name: string
  count: number
  bytes: number
  units: number
  /** What the fee payer is charged: a base fee for each of its two signatures, and the priority fee. */
  lamports: number
}

async function costOf(shape: Shape, count: number): Promise<SettlementCost> {
  const vault = readyVault()
  const wire = await bytesOf(vault, shape.batchOf(vault, count))
  const balance = () => vault.chain.svm.getBalance(addressOf(vault.chain.payer.key))!
  const before = balance()
  const result = vault.chain.svm.sendTransaction(getTransactionDecoder().decode(wire))
  if (result instanceof FailedTransactionMetadata) throw new Error(`${shape.name}: ${result}`)
  const { name } = shape
  const lamports = Number(before - balance())
  return { name, count, bytes: wire.length, units: Number(result.computeUnitsConsumed()), lamports }
}

/** As full as the engine packs them and with one of a kind. */
export async function settlementCosts(): Promise<SettlementCost[]> {
  const costs: SettlementCost[] = []
  for (const shape of SHAPES) {
    const full = Math.floor((PARTS - shape.batch_parts) / shape.parts)
    for (const count of [full, 1]) costs.push(await costOf(shape, count))
  }
  return costs
}

/** In the order of program/README.md. */
export function rowOf({ name, count, bytes, units, lamports }: SettlementCost): string {
  const shown = (value: number): string => Math.ceil(value).toLocaleString('en')
  const each = [lamports, bytes, units].map((value) => shown(value / count))
  return `| ${[name, count, shown(bytes), shown(units), shown(lamports), ...each].join(' | ')} |`
}
