/** Measures the cost of a settled order, withdrawal or exit in the relayer's v1 and v0 transactions, as Markdown rows. */

import { type Blockhash, createKeyPairSignerFromPrivateKeyBytes, getTransactionDecoder } from '@solana/kit'
import { FailedTransactionMetadata } from 'litesvm'
import {
  buildTransaction,
  type TransactionVersion,
  toInstruction,
} from '../../../engine/chain/client/build_transaction'
import { utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { type SettleFields, settleInstruction } from '../../../protocol/vault/settle'
import type { OpenVault } from '../../kit/vault/open_vault'
import { readyVault, SHAPES, type Shape } from './settle_shapes'

const BASE_FEE_LAMPORTS = 5_000
/** The relayer's floor for a whole transaction. */
const PRIORITY_LAMPORTS = 1_000n
/** Order parts a batch of each transaction version has room for. */
const PARTS = { 1: 28, 0: 6 } as const
const UNITS_ASKED = 1_400_000
/** The key whose name the vault of the program's tests gives to its settlement signer. */
const signer = await createKeyPairSignerFromPrivateKeyBytes(sha256(utf8('vault test signer')))

async function bytesOf(
  vault: OpenVault,
  batch: SettleFields,
  version: TransactionVersion,
  compute_units: number,
) {
  const lifetime = { blockhash: vault.chain.svm.latestBlockhash() as Blockhash, lastValidBlockHeight: 1n }
  const instructions = [toInstruction(settleInstruction(batch), [signer])]
  const draft = { payer: signer, instructions, lifetime, compute_units, version }
  return (await buildTransaction({ ...draft, priority_fee_lamports: PRIORITY_LAMPORTS })).wire
}

type Cost = { count: number; bytes: number; units: number }

async function costOf(shape: Shape, count: number, version: TransactionVersion): Promise<Cost> {
  const vault = readyVault()
  const wire = await bytesOf(vault, shape.batchOf(vault, count), version, UNITS_ASKED)
  const result = vault.chain.svm.sendTransaction(getTransactionDecoder().decode(wire))
  if (result instanceof FailedTransactionMetadata) throw new Error(`${shape.name}: ${result}`)
  return { count, bytes: wire.length, units: Number(result.computeUnitsConsumed()) }
}

const shown = (value: number): string => Math.ceil(value).toLocaleString('en')
/** As full as the engine packs them and with one of a kind, in the order of program/README.md. */
export async function settlementCosts(): Promise<string[]> {
  const rows: string[] = []
  for (const shape of SHAPES) {
    for (const version of [1, 0] as const) {
      const full = Math.floor((PARTS[version] - shape.batch_parts) / shape.parts)
      for (const amount of [full, 1]) {
        const { count, bytes, units } = await costOf(shape, amount, version)
        const each = [BASE_FEE_LAMPORTS / count, bytes / count, units / count].map(shown).join(' | ')
        rows.push(`| ${shape.name} | v${version} | ${count} | ${shown(bytes)} | ${shown(units)} | ${each} |`)
      }
    }
  }
  return rows
}
