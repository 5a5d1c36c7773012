/** Checks before a step: that the cluster takes v1 transactions, and that a program's code is the tested binary. */
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
import type { Reader, RpcPool } from '../../engine/chain/client/rpc_pool'
import { failureOf, isPayerShort } from '../../engine/chain/client/transaction_status'
import { toHex } from '../../protocol/bytes'
import { LOADED_ACCOUNTS_BYTES_MAX } from '../../protocol/limits'
import { sha256 } from '../../protocol/sha256'
import { COMPUTE_BUDGET_PROGRAM } from '../../protocol/vault/addresses'
import { isElf, readCode } from './deploy_program'

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

/**
 * The binary at a path, which must have the hash that is committed beside it, in the file of that name with `.sha256`.
 * @throws Refused
 */
export function testedBinary(path: string): Uint8Array {
  const binary = readInput(path)
  const [hash] = readInputText(`${path}.sha256`).split(' ')
  if (toHex(sha256(binary)) !== hash) throw new Refused(`${path} is not the binary that ${path}.sha256 names`)
  return binary
}

/**
 * Reads the finalized code of a program or a buffer back from the chain; what follows is final, so one provider is not believed.
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
