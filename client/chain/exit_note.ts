/** Sends the transactions of an exit without the venue: request, freeze after a missed deadline, escape, refusal. */
import { createKeyPairSignerFromPrivateKeyBytes, type KeyPairSigner, type Signature } from '@solana/kit'
import { toHex } from '../../protocol/bytes'
import { ACCOUNT_BYTES, type ExitRequest } from '../../protocol/vault/accounts'
import { freezeInstruction, refuseExitInstruction } from '../../protocol/vault/exits'
import { nullifierOfNote, prepareEscape, prepareExitRequest } from '../exit/prepare_exit'
import { VaultProofs } from '../exit/vault_proofs'
import { takeDepositBlinding, type Wallet, type WalletNote } from '../wallet/wallet'
import { type ChainAccess, type ChainReader, payerKey } from './chain_access'
import { type ReadHistoryOptions, readVaultHistory } from './read_history'
import { programBytes, readExitRequest, readMintRecord, readVaultState } from './read_vault'
import { requireLamports, sendInstructions, TransactionFailed, toInstruction } from './send_instructions'

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

function ownerOf(wallet: Wallet, note: WalletNote): Promise<KeyPairSigner> {
  return createKeyPairSignerFromPrivateKeyBytes(wallet.tradingSeed(note.key_index))
}

/**
 * Demands on chain that the venue pays a note out. Costs the payer a bond of 0.02 SOL and rent, both returned on service,
 * freeze or escape.
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
  await requireLamports(chain, [ACCOUNT_BYTES.exit_request], true)
  const before = note.state
  const { blinding: refund_blinding, giveBack } = takeDepositBlinding(wallet, note.key_index)
  const terms = { program, payer: payerKey(chain), destination: to.destination, refund_blinding }
  let sending = false
  try {
    const request = prepareExitRequest(wallet, note, to.proofs, terms)
    const instruction = toInstruction(request, [await ownerOf(wallet, note), chain.payer])
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
  const { bond_payer } = await openRequest(chain, program_id, nullifier)
  const freeze = freezeInstruction({ program: programBytes(program_id), nullifier, bond_payer })
  return sendInstructions(chain, [toInstruction(freeze, [])], 'confirmed')
}

/** Closes an exit request for a spent note. Any payer may, and gets the bond. @throws ProofUnavailable, TransactionFailed */
export async function refuseExit(
  chain: ChainAccess,
  of: { program_id: string; nullifier: Uint8Array; proofs: VaultProofs },
): Promise<Signature> {
  const { nullifier, program_id, proofs } = of
  await openRequest(chain, program_id, nullifier)
  const proof = proofs.presence(nullifier)
  const terms = { program: programBytes(program_id), refuser: payerKey(chain), nullifier }
  const refuse = refuseExitInstruction({ ...terms, ...proof })
  return sendInstructions(chain, [toInstruction(refuse, [chain.payer])], 'confirmed')
}

async function openRequest(
  chain: ChainReader,
  program_id: string,
  nullifier: Uint8Array,
): Promise<ExitRequest> {
  const request = await readExitRequest(chain, program_id, nullifier)
  if (request !== undefined) return request
  const { config } = await readVaultState(chain, program_id, 'confirmed')
  const fate = config.frozen
    ? "and the vault is frozen: what is in it leaves by 'exit escape'"
    : 'it was served, refused or never made'
  throw new TransactionFailed(`no exit request is open for nullifier ${toHex(nullifier)}: ${fate}`)
}

/**
 * Takes a note's tokens out of a frozen vault and marks the note spent.
 * @param to `destination` is the token account that receives them. @throws ProofUnavailable, TransactionFailed, NotAVault
 */
export async function escapeNote(
  chain: ChainAccess,
  wallet: Wallet,
  note: WalletNote,
  to: { program_id: string; destination: Uint8Array; proofs: VaultProofs },
): Promise<Signature> {
  const { program_id, destination, proofs } = to
  await requireLamports(chain, [ACCOUNT_BYTES.escape_record])
  const { token_program } = await readMintRecord(chain, program_id, note.mint)
  const open = await readExitRequest(chain, program_id, nullifierOfNote(note))
  const terms = { program: programBytes(program_id), payer: payerKey(chain), destination, token_program }
  const bond = open === undefined ? {} : { bond_payer: open.bond_payer }
  const prepared = prepareEscape(wallet, note, proofs, { ...terms, ...bond })
  const instruction = toInstruction(prepared, [await ownerOf(wallet, note), chain.payer])
  const signature = await sendInstructions(chain, [instruction], 'confirmed')
  note.state = 'spent'
  return signature
}
