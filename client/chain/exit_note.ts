/** Leaves without the venue: sends exit requests and their ends, the freeze, and the claims of a frozen vault. */

import type { Signature, SignatureBytes, TransactionPartialSigner } from '@solana/kit'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import {
  ACCOUNT_BYTES,
  type ConfigAccount,
  decodeEscapeClaim,
  type EscapeClaim,
  type ExitRequest,
} from '../../protocol/vault/accounts'
import { escapeClaimAddress } from '../../protocol/vault/addresses'
import {
  challengeEscapeInstruction,
  closeExitInstruction,
  freezeInstruction,
  payEscapeInstruction,
  redirectEscapeInstruction,
  refuseExitInstruction,
} from '../../protocol/vault/exits'
import { payInstruction } from '../../protocol/vault/settle'
import { prepareClaim, prepareExitRequest, VaultProofs } from '../exit/prepare_exit'
import { takeDepositBlinding, type Wallet, type WalletNote } from '../wallet/wallet'
import {
  addressOf,
  bytesOfBase64,
  type ChainAccess,
  type ChainNode,
  type ChainReader,
  nodesOf,
  patientRead,
  payerKey,
  toInstruction,
} from './chain_access'
import { type ReadHistoryOptions, readVaultHistory } from './read_history'
import { programBytes, readAccounts, readExitRequest, readMintRecord, readVaultState } from './read_vault'
import { requireLamports, sendInstructions, TransactionFailed } from './send_instructions'

const EXIT_BOND_LAMPORTS = 20_000_000n

/** Reads the whole public history; the proofs serve any number of exits until the vault changes. */
export async function readProofs(
  chain: ChainReader,
  program_id: string,
  options: ReadHistoryOptions = {},
): Promise<VaultProofs> {
  // The state first: a history read after it covers it.
  const vault = await readVaultState(chain, program_id, options.commitment)
  return new VaultProofs(await readVaultHistory(chain, program_id, options), vault)
}

function ownerOf({ signer }: Wallet, { key_index }: WalletNote): TransactionPartialSigner {
  const owner = addressOf(signer.publicKey(key_index))
  return {
    address: owner,
    signTransactions: async (transactions) =>
      transactions.map(({ messageBytes }) => ({
        [owner]: signer.sign(key_index, new Uint8Array(messageBytes)) as SignatureBytes,
      })),
  }
}

/**
 * Demands on chain that the venue pays a note out. Costs the payer a bond of 0.02 SOL and rent; `closeExit` returns both
 * once the request is served or the vault frozen.
 * @param to `destination` is the token account that receives the whole note; `keep` saves the wallet, called before
 * anything is sent
 * @throws ProofUnavailable, TransactionFailed, NotAVault
 */
export async function requestExit(
  chain: ChainAccess,
  wallet: Wallet,
  note: WalletNote,
  to: { program_id: string; destination: Uint8Array; proofs: VaultProofs; keep?: () => void },
): Promise<Signature> {
  const program = programBytes(to.program_id)
  await requireLamports(chain, [ACCOUNT_BYTES.exit_request], EXIT_BOND_LAMPORTS)
  const before = note.state
  const { blinding: refund_blinding, giveBack } = takeDepositBlinding(wallet, note.key_index)
  const terms = { program, payer: payerKey(chain), destination: to.destination, refund_blinding }
  let sending = false
  try {
    const request = prepareExitRequest(wallet, note, to.proofs, terms)
    const instruction = toInstruction(request, [ownerOf(wallet, note), chain.payer])
    to.keep?.()
    sending = true
    return await sendInstructions(chain, [instruction], 'confirmed')
  } catch (error) {
    // After any other failure while sending, the request may still land.
    if (!sending || error instanceof TransactionFailed) {
      note.state = before
      giveBack()
    }
    throw error
  }
}

/** Freezes the vault over an exit request that missed its deadline. Any payer may. @throws TransactionFailed */
export async function freezeVault(
  chain: ChainAccess,
  program_id: string,
  nullifier: Uint8Array,
): Promise<Signature> {
  await requestOf(chain, program_id, nullifier)
  const freeze = freezeInstruction(programBytes(program_id), nullifier)
  return sendInstructions(chain, [toInstruction(freeze, [])], 'confirmed')
}

/**
 * Returns rent and bond of a served request, or of any in a frozen vault, to the key that paid them. Any payer may.
 * @throws TransactionFailed
 */
export async function closeExit(
  chain: ChainAccess,
  program_id: string,
  nullifier: Uint8Array,
): Promise<Signature> {
  const { bond_payer } = await requestOf(chain, program_id, nullifier)
  const close = closeExitInstruction({ program: programBytes(program_id), nullifier, bond_payer })
  return sendInstructions(chain, [toInstruction(close, [])], 'confirmed')
}

/**
 * Closes a request, not served, for a spent note. Any payer may, and gets the bond.
 * @throws ProofUnavailable, TransactionFailed
 */
export async function refuseExit(
  chain: ChainAccess,
  of: { program_id: string; nullifier: Uint8Array; proofs: VaultProofs },
): Promise<Signature> {
  const { nullifier, program_id, proofs } = of
  await requestOf(chain, program_id, nullifier)
  const proof = proofs.spending(nullifier)
  const terms = { program: programBytes(program_id), refuser: payerKey(chain), nullifier }
  const refuse = refuseExitInstruction({ ...terms, ...proof })
  return sendInstructions(chain, [toInstruction(refuse, [chain.payer])], 'confirmed')
}

async function requestOf(
  chain: ChainReader,
  program_id: string,
  nullifier: Uint8Array,
): Promise<ExitRequest> {
  const request = await readExitRequest(chain, program_id, nullifier)
  if (request !== undefined) return request
  const fate = 'it was closed, refused or never made'
  throw new TransactionFailed(`there is no exit request for nullifier ${toHex(nullifier)}: ${fate}`)
}

/**
 * Closes an entry of the payout queue: its destination receives the amount, or, where it cannot, the refund note is
 * appended. Any payer may, also while the vault is paused or frozen.
 * @param of `refund` appends the note without a transfer, 7 days after the entry was queued
 * @throws TransactionFailed, NotAVault
 */
export async function payPayout(
  chain: ChainAccess,
  of: { program_id: string; number: number; refund: boolean },
): Promise<Signature> {
  const { program_id, number, refund } = of
  const { queue } = await readVaultState(chain, program_id, 'confirmed')
  const entry = queue.entries.find((one) => one.number === number)
  if (entry === undefined)
    throw new TransactionFailed(`payout ${number} is not in the queue: it was paid, refunded or never queued`)
  const { token_program } = await readMintRecord(chain, program_id, encodeBase58(entry.mint))
  const program = programBytes(program_id)
  const pay = payInstruction({ program, refund, entries: [{ ...entry, token_program }] })
  return sendInstructions(chain, [toInstruction(pay, [])], 'confirmed')
}

const CLAIM_BOND_LAMPORTS = 50_000_000n

/** The claim of a note, open or closed; undefined when it has none. */
export async function readClaim(
  node: ChainNode,
  program_id: string,
  nullifier: Uint8Array,
): Promise<EscapeClaim | undefined> {
  const address = escapeClaimAddress(programBytes(program_id), nullifier)
  const { data } = await readAccounts(node, program_id, [address], 'confirmed')
  return data[0] && decodeEscapeClaim(data[0])
}

/** The claim of a note as the node that shows least of it does, so that no node hides a step that is left; undefined for none. */
export async function readEarliestClaim(
  chain: ChainReader,
  program_id: string,
  nullifier: Uint8Array,
): Promise<EscapeClaim | undefined> {
  const shown = await Promise.all(nodesOf(chain).map((node) => readClaim(node, program_id, nullifier)))
  if (shown.includes(undefined)) return undefined
  return shown.find((claim) => claim?.state === 'open') ?? shown[0]
}

/**
 * Every claim that any of the nodes shows open: one that hides or closes it changes nothing. Two that show another mint of it
 * give two. @param nullifier restricts it to the claim of one note
 */
export async function readOpenClaims(
  chain: ChainReader,
  program_id: string,
  nullifier?: Uint8Array,
): Promise<EscapeClaim[]> {
  const open = new Map<string, EscapeClaim>()
  for (const node of nodesOf(chain)) {
    const shown =
      nullifier === undefined
        ? await listClaims(node, program_id)
        : [await readClaim(node, program_id, nullifier)]
    for (const claim of shown)
      if (claim?.state === 'open') open.set(`${toHex(claim.nullifier)} ${toHex(claim.mint)}`, claim)
  }
  return [...open.values()]
}

async function listClaims({ rpc }: ChainNode, program_id: string): Promise<(EscapeClaim | undefined)[]> {
  const config = {
    commitment: 'confirmed',
    encoding: 'base64',
    filters: [{ dataSize: BigInt(ACCOUNT_BYTES.escape_claim) }],
  } as const
  const program = addressOf(programBytes(program_id))
  const accounts = await patientRead(() => rpc.getProgramAccounts(program, config).send())
  return accounts.map(({ account }) => decodeEscapeClaim(bytesOfBase64(account.data[0])))
}

/** Unix seconds from which a claim can be paid; until it is paid, it can be challenged. */
export const claimDueS = (
  config: ConfigAccount,
  { claimed_at_s }: Pick<EscapeClaim, 'claimed_at_s'>,
): number => Math.max(config.frozen_at_s + 2 * config.exit_delay_s, claimed_at_s + config.exit_delay_s)

/**
 * Claims a note of a frozen vault. Costs the payer rent, which stays, and a bond of 0.05 SOL, which the payment returns; a
 * claim for a spent note loses it, and is not sent. @throws ProofUnavailable, TransactionFailed
 */
export async function claimNote(
  chain: ChainAccess,
  wallet: Wallet,
  note: WalletNote,
  to: { program_id: string; destination: Uint8Array; proofs: VaultProofs },
): Promise<Signature> {
  const { program_id, destination, proofs } = to
  const terms = { program: programBytes(program_id), payer: payerKey(chain), destination }
  const claim = prepareClaim(wallet, note, proofs, terms)
  await requireLamports(chain, [ACCOUNT_BYTES.escape_claim], CLAIM_BOND_LAMPORTS)
  const signers = [ownerOf(wallet, note), chain.payer]
  return sendInstructions(chain, [toInstruction(claim, signers)], 'confirmed')
}

/** Names another destination for the payment of an open claim. @throws TransactionFailed */
export async function redirectClaim(
  chain: ChainAccess,
  wallet: Wallet,
  note: WalletNote,
  to: { program_id: string; claim: EscapeClaim; destination: Uint8Array },
): Promise<Signature> {
  const { program_id, claim, destination } = to
  const { owner, nullifier } = claim
  const fields = { program: programBytes(program_id), owner, nullifier, destination }
  const redirect = redirectEscapeInstruction({ ...fields, sequence: claim.sequence + 1 })
  return sendInstructions(chain, [toInstruction(redirect, [ownerOf(wallet, note)])], 'confirmed')
}

/**
 * Pays a claim that is due; its bond returns to the key that paid it.
 * @param of `less_for`: the wallet and note of the claim's owner, who accepts the rest that is left for a late claim
 * @throws TransactionFailed, NotAVault
 */
export async function payClaim(
  chain: ChainAccess,
  program_id: string,
  claim: EscapeClaim,
  less_for?: { wallet: Wallet; note: WalletNote },
): Promise<Signature> {
  const { token_program } = await readMintRecord(chain, program_id, encodeBase58(claim.mint))
  const program = programBytes(program_id)
  const pay = payEscapeInstruction({ ...claim, program, token_program, accepts_less: less_for !== undefined })
  const signers = less_for === undefined ? [] : [ownerOf(less_for.wallet, less_for.note)]
  return sendInstructions(chain, [toInstruction(pay, signers)], 'confirmed')
}

/**
 * Cancels an open claim whose note a batch spent; the payer gets its bond.
 * @throws ProofUnavailable when no batch did, TransactionFailed
 */
export async function challengeClaim(
  chain: ChainAccess,
  of: { program_id: string; claim: EscapeClaim; proofs: VaultProofs },
): Promise<Signature> {
  const { mint, nullifier } = of.claim
  const terms = { program: programBytes(of.program_id), challenger: payerKey(chain), mint, nullifier }
  const challenge = challengeEscapeInstruction({ ...terms, ...of.proofs.spending(nullifier) })
  return sendInstructions(chain, [toInstruction(challenge, [chain.payer])], 'confirmed')
}
