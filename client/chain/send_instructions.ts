/** Checks funds, signs vault instructions, sends them until they land and explains failures. */

import {
  appendTransactionMessageInstructions,
  createTransactionMessage,
  getBase64EncodedWireTransaction,
  getSignatureFromTransaction,
  type Instruction,
  isSolanaError,
  pipe,
  type Signature,
  SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM,
  SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE,
  setTransactionMessageComputeUnitLimit,
  setTransactionMessageFeePayerSigner,
  setTransactionMessageLifetimeUsingBlockhash,
  setTransactionMessageLoadedAccountsDataSizeLimit,
  signTransactionMessageWithSigners,
} from '@solana/kit'
import { LOADED_ACCOUNTS_BYTES_MAX } from '../../protocol/limits'
import { TacitError } from '../../protocol/tacit_error'
import { type VaultErrorName, vaultError } from '../../protocol/vault/errors'
import { SEND_COMPUTE_UNITS_MAX, SEND_DISAGREE_POLLS, SEND_POLL_MS, SEND_RESEND_POLLS } from '../limits'
import { formatAmount } from '../session/units'
import { printable } from '../verify/transcript'
import {
  type ChainAccess,
  type ChainNode,
  isPassing,
  nodesOf,
  patientRead,
  type Rehearsal,
  sleep,
} from './chain_access'
import { ownAccount, readMintDecimals, tokenBalance } from './read_vault'

const RUN_AGAIN = 'The vault moved on meanwhile: run it again.'

/** The next step for the owner of a note; errors that only a faulty client meets have none. */
const VAULT_ADVICE: Partial<Record<VaultErrorName, string>> = {
  vault_paused: 'Deposit later; exits work meanwhile.',
  vault_frozen: "'exit status' lists what a frozen vault still does.",
  stale_epoch: 'No venue has opened this vault yet: deposit later.',
  below_min_deposit: "Deposit more; 'audit-chain' and a venue's /info show the mint's bounds.",
  below_min_exit: 'Merge it with other notes at the venue first.',
  unknown_state: RUN_AGAIN,
  unknown_spent_root: RUN_AGAIN,
  deadline_not_reached: "'exit status' shows the deadline.",
  exit_already_requested: "Nothing is lost: 'exit status' shows its deadline.",
  exit_served: "'exit pay' pays it, 'exit close' returns the bond.",
  exit_open: "'exit status' shows the deadline; 'exit close' works once the request is served.",
  payment_not_due: "'exit status' shows from when.",
  destination_unusable: "Name another: 'exit redirect'.",
  payment_short: "Wait until more is available, or take what there is: 'exit claim --accept-less'.",
  refund_not_due: "Leave --refund out: 'exit pay' pays it now.",
}

/** A transaction landed with an error, was rejected before it was sent, or its blockhash expired before it landed. */
export class TransactionFailed extends TacitError<{ refusal: VaultErrorName | undefined }> {
  override readonly name = 'TransactionFailed'
  readonly code = 'transaction_failed'
  /** @param refusal the vault program's error; undefined for every other reason */
  constructor(message: string, refusal?: VaultErrorName) {
    super(message, { refusal })
  }
}

/** The transaction passed its simulation and was not sent. `lamports`: its cost to the payer, bond and rent included. */
export class NotSent extends TacitError<{ payer: string; lamports: bigint }> {
  override readonly name = 'NotSent'
  readonly code = 'not_sent'
  constructor(payer: string, lamports: bigint) {
    super('the transaction was simulated and not sent', { payer, lamports })
  }
}

/** From `err` of a landed transaction: `{InstructionError: [index, {Custom: code}]}` (agave `TransactionError`). */
function landedFailure(err: unknown, message = 'the transaction landed with an error'): TransactionFailed {
  const instruction = (err as { InstructionError?: readonly [unknown, unknown] }).InstructionError
  const code = (instruction?.[1] as { Custom?: bigint | number } | undefined)?.Custom
  return failure(message, code)
}

/** A rejection by the node's simulation; undefined for any other failure, such as a node that does not answer. */
function preflightFailure(error: unknown): TransactionFailed | undefined {
  if (!isSolanaError(error, SOLANA_ERROR__JSON_RPC__SERVER_ERROR_SEND_TRANSACTION_PREFLIGHT_FAILURE))
    return undefined
  const { cause } = error
  const custom = isSolanaError(cause, SOLANA_ERROR__INSTRUCTION_ERROR__CUSTOM)
    ? cause.context.code
    : undefined
  const reason = cause instanceof Error ? cause.message : 'no reason given'
  return failure(`the transaction was refused before it was sent: ${printable(reason)}`, custom)
}

function failure(message: string, code: bigint | number | undefined): TransactionFailed {
  const known = code === undefined ? undefined : vaultError(Number(code))
  if (known === undefined) return new TransactionFailed(message)
  const advice = VAULT_ADVICE[known.name]
  const sentence = `the vault refuses: ${known.name}. ${known.meaning}`
  return new TransactionFailed(advice === undefined ? sentence : `${sentence} ${advice}`, known.name)
}

/** Solana's base fee of two signatures (Solana documentation, "Transaction fees"). */
const FEE_LAMPORTS = 10_000n

/**
 * Checks the payer's lamports before anything is signed.
 * @param account_bytes sizes of the accounts that the transaction creates
 * @param bond_lamports of the bond that it pays too
 * @returns lamports that the transaction takes. @throws TransactionFailed naming the missing amount
 */
export async function requireLamports(
  chain: ChainAccess,
  account_bytes: readonly number[],
  bond_lamports = 0n,
): Promise<bigint> {
  const { rpc, payer } = chain
  let needed = FEE_LAMPORTS + bond_lamports
  for (const bytes of account_bytes)
    needed += await patientRead(() => rpc.getMinimumBalanceForRentExemption(BigInt(bytes)).send())
  const { value: held } = await patientRead(() =>
    rpc.getBalance(payer.address, { commitment: 'confirmed' }).send(),
  )
  if (chain.rehearsal !== undefined) chain.rehearsal.lamports = needed
  if (held >= needed) return needed
  const why = bond_lamports > 0n ? 'fee, rent and a bond that returns' : 'fee and rent'
  throw new TransactionFailed(
    `the payer ${payer.address} holds ${held} lamports and needs ${needed} (${why}): send it SOL`,
  )
}

/**
 * Checks the payer's tokens before anything is signed.
 * @param mint base58
 * @returns base units that it holds. @throws TransactionFailed naming the missing amount
 */
export async function requireTokens(
  chain: ChainAccess,
  mint: string,
  token_program: Uint8Array,
  amount: bigint,
): Promise<bigint> {
  const { bytes, text } = ownAccount(chain, mint, token_program)
  const held = await tokenBalance(chain, bytes)
  if (held >= amount) return held
  const decimals = await readMintDecimals(chain, mint)
  const shown = (units: bigint) =>
    decimals === undefined ? `${units} units` : `${formatAmount(units, decimals)} tokens`
  throw new TransactionFailed(
    `the payer's token account ${text} holds ${shown(held)} of ${mint}, less than ${shown(amount)}: fund it first`,
  )
}

/**
 * Signs instructions as one transaction with the payer and the signers they carry, sends it until it lands, and waits for
 * more than half of the nodes to show it at `commitment`. Version 1 (4,096 bytes): an exit request needs 2.0 KB, a refusal up to 3.4 KB, and every cluster on which a
 * vault opened an epoch has v1 because `open_attested_epoch` fits no other.
 * @returns the signature. @throws TransactionFailed; NotSent in a rehearsal
 */
export async function sendInstructions(
  chain: ChainAccess,
  instructions: Instruction[],
  commitment: 'confirmed' | 'finalized',
): Promise<Signature> {
  const { rpc } = chain
  const { value: lifetime } = await patientRead(() =>
    rpc.getLatestBlockhash({ commitment: 'confirmed' }).send(),
  )
  const message = pipe(
    createTransactionMessage({ version: 1 }),
    (m) => setTransactionMessageFeePayerSigner(chain.payer, m),
    (m) => setTransactionMessageLifetimeUsingBlockhash(lifetime, m),
    (m) => setTransactionMessageComputeUnitLimit(SEND_COMPUTE_UNITS_MAX, m),
    (m) => setTransactionMessageLoadedAccountsDataSizeLimit(LOADED_ACCOUNTS_BYTES_MAX, m),
    (m) => appendTransactionMessageInstructions(instructions, m),
  )
  const signed = await signTransactionMessageWithSigners(message)
  const signature = getSignatureFromTransaction(signed)
  const wire = getBase64EncodedWireTransaction(signed)
  if (chain.rehearsal !== undefined) throw await simulated(chain, wire, chain.rehearsal)
  const nodes = nodesOf(chain)
  const majority = Math.floor(nodes.length / 2) + 1
  for (let poll = 0, late = 0; ; poll++) {
    if (poll % SEND_RESEND_POLLS === 0) await send(chain, wire, poll > 0)
    const statuses = await Promise.all(nodes.map((node) => statusAt(node, signature)))
    const shown = statuses.flatMap(({ status }) => (status && reached(status, commitment) ? [status] : []))
    const failed = shown.filter(({ err }) => err)
    if (failed.length >= majority) throw landedFailure(failed[0]!.err)
    if (shown.length - failed.length >= majority) return signature
    const unknown = statuses.filter(({ status, height }) => !status && height > lifetime.lastValidBlockHeight)
    if (unknown.length === nodes.length)
      throw new TransactionFailed('the transaction expired before it landed, and never will: run it again')
    if (unknown.length > 0 && ++late > SEND_DISAGREE_POLLS) throw disagreement(signature, nodes, statuses)
    await sleep(SEND_POLL_MS)
  }
}

async function simulated(
  { rpc, payer }: ChainAccess,
  wire: ReturnType<typeof getBase64EncodedWireTransaction>,
  { lamports }: Rehearsal,
): Promise<Error> {
  const { value } = await patientRead(() =>
    rpc.simulateTransaction(wire, { encoding: 'base64', commitment: 'confirmed' }).send(),
  )
  if (value.err !== null) return landedFailure(value.err, 'the transaction fails in its simulation')
  return new NotSent(payer.address, lamports === 0n ? FEE_LAMPORTS : lamports)
}

type Shown = { err: unknown; confirmationStatus: string | null }
type NodeStatus = { height: bigint; status: Shown | null }

function reached({ confirmationStatus }: Shown, commitment: 'confirmed' | 'finalized'): boolean {
  return confirmationStatus === 'finalized' || confirmationStatus === commitment
}

/** By the nodes' answers neither landed nor expired: sending it again as another transaction could act twice. */
function disagreement(signature: string, nodes: readonly ChainNode[], statuses: readonly NodeStatus[]) {
  const hosts = (shows: boolean) =>
    nodes.filter((_, at) => (statuses[at]!.status !== null) === shows).map(({ rpc_url }) => rpc_url)
  return new TransactionFailed(
    `nodes disagree on ${signature}: ${hosts(true).join(', ') || 'none'} shows it, ${hosts(false).join(', ')} not. ` +
      'Ask another node before you run it again.',
  )
}

/** The height first: a transaction that a node does not know after its lifetime is over never lands. */
async function statusAt({ rpc }: ChainNode, signature: Signature): Promise<NodeStatus> {
  const height = await patientRead(() => rpc.getBlockHeight({ commitment: 'confirmed' }).send())
  const { value } = await patientRead(() => rpc.getSignatureStatuses([signature]).send())
  return { height, status: value[0] ?? null }
}

/**
 * Only the first send is simulated: the simulation of a landed transaction fails. The next send covers for a node that
 * is briefly unreachable; equal bytes land at most once.
 */
async function send(
  chain: ChainAccess,
  wire: ReturnType<typeof getBase64EncodedWireTransaction>,
  again: boolean,
): Promise<void> {
  try {
    await chain.rpc.sendTransaction(wire, { encoding: 'base64', skipPreflight: again }).send()
  } catch (error) {
    const refused = preflightFailure(error)
    if (refused !== undefined || !isPassing(error)) throw refused ?? error
  }
}
