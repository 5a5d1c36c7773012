/** Deposits tokens into the vault as a note of the wallet; the program, not the venue, makes the commitment. */
import { AccountRole, type Instruction, type Signature } from '@solana/kit'
import bs58 from 'bs58'
import { decodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import { deriveDepositBlinding } from '../../protocol/derive'
import { noteInner, openingCommitment } from '../../protocol/notes'
import { depositInstruction } from '../../protocol/vault/deposit'
import { type DepositedEvent, decodeEvent } from '../../protocol/vault/events'
import { TOKEN_PROGRAM } from '../../protocol/vault/programs'
import type { Wallet, WalletNote } from '../wallet/wallet'
import { addressOf, type ChainAccess } from './chain_access'
import { sendInstructions, TransactionFailed } from './send_instructions'
import { ownAccount } from './token_account'

export type DepositTerms = { program_id: string; mint: string; amount: bigint; key_index: number }

function depositOf(chain: ChainAccess, terms: DepositTerms, inner: Uint8Array): Instruction {
  const built = depositInstruction({
    program: decodeBase58(terms.program_id, 32)!,
    depositor: decodeBase58(chain.payer.address, 32)!,
    source: ownAccount(chain, terms.mint).bytes,
    mint: decodeBase58(terms.mint, 32)!,
    token_program: TOKEN_PROGRAM,
    amount: terms.amount,
    inner,
  })
  const accounts = built.accounts.map(({ address, signer, writable }) => {
    if (signer) return { address: addressOf(address), role: AccountRole.WRITABLE_SIGNER, signer: chain.payer }
    return { address: addressOf(address), role: writable ? AccountRole.WRITABLE : AccountRole.READONLY }
  })
  return { programAddress: addressOf(built.program), accounts, data: built.data }
}

/** The `deposited` event of our program in a landed transaction. */
async function readDeposited(
  chain: ChainAccess,
  program_id: string,
  signature: Signature,
  inner: Uint8Array,
) {
  const landed = await chain.rpc
    .getTransaction(signature, {
      commitment: 'finalized',
      encoding: 'json',
      maxSupportedTransactionVersion: 1,
    })
    .send()
  if (landed === null || landed.meta === null)
    throw new TransactionFailed('the deposit is not on the finalized chain')
  const keys = landed.transaction.message.accountKeys
  for (const group of landed.meta.innerInstructions ?? []) {
    for (const one of group.instructions) {
      if (keys[one.programIdIndex] !== program_id) continue
      const event = decodeEvent(bs58.decode(one.data))
      if (event?.kind === 'deposited' && equalBytes(event.inner, inner)) return event
    }
  }
  throw new TransactionFailed('the transaction carries no deposit event')
}

/**
 * Sends the deposit, waits for `finalized`, and adds the note to the wallet.
 * @throws TransactionFailed when it did not land, or the program made another commitment than the one recomputed here.
 */
export async function deposit(
  chain: ChainAccess,
  wallet: Wallet,
  terms: DepositTerms,
): Promise<{ note: WalletNote; signature: string }> {
  const { key_index } = terms
  const blinding = deriveDepositBlinding(wallet.seed, key_index, wallet.counters(key_index).deposits++)
  const owner = wallet.tradingKey(key_index)
  const inner = noteInner(owner, blinding)
  const signature = await sendInstructions(chain, [depositOf(chain, terms, inner)], 'finalized')
  const event: DepositedEvent = await readDeposited(chain, terms.program_id, signature, inner)
  const { leaf_index } = event
  const mint = decodeBase58(terms.mint, 32)!
  const commitment = openingCommitment({ owner, mint, amount: terms.amount, blinding, leaf_index })
  if (!equalBytes(commitment, event.commitment))
    throw new TransactionFailed('the program made another commitment')
  const note: WalletNote = {
    commitment: toHex(commitment),
    key_index,
    mint: terms.mint,
    amount: String(terms.amount),
    blinding: toHex(blinding),
    leaf_index,
    state: 'free',
    origin: 'deposit',
  }
  wallet.state.notes.push(note)
  return { note, signature }
}
