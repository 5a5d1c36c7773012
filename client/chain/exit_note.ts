/** Sends the transactions of an exit without the venue: request, payment, return of the bond, refusal, freeze. */
import type { Signature, SignatureBytes, TransactionPartialSigner } from '@solana/kit'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { ACCOUNT_BYTES, type ExitRequest } from '../../protocol/vault/accounts'
import { closeExitInstruction, freezeInstruction, refuseExitInstruction } from '../../protocol/vault/exits'
import { payInstruction } from '../../protocol/vault/settle'
import { prepareExitRequest } from '../exit/prepare_exit'
import { VaultProofs } from '../exit/vault_proofs'
import { takeDepositBlinding, type Wallet, type WalletNote } from '../wallet/wallet'
import { addressOf, type ChainAccess, type ChainReader, payerKey, toInstruction } from './chain_access'
import { type ReadHistoryOptions, readVaultHistory } from './read_history'
import { programBytes, readExitRequest, readMintRecord, readVaultState } from './read_vault'
import { requireLamports, sendInstructions, TransactionFailed } from './send_instructions'

const BOND_LAMPORTS = 20_000_000n

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

export function ownerOf({ signer }: Wallet, { key_index }: WalletNote): TransactionPartialSigner {
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
  await requireLamports(chain, [ACCOUNT_BYTES.exit_request], BOND_LAMPORTS)
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
