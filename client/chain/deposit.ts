/** Deposits tokens into the vault as a note of the wallet; the program makes the commitment, not the venue. */
import type { Instruction, Signature } from '@solana/kit'
import { decodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import { noteInner, openingCommitment } from '../../protocol/notes/notes'
import { depositInstruction } from '../../protocol/vault/deposit'
import type { EventOf } from '../../protocol/vault/events'
import { NODE_CALL_MS, NODE_READ_ATTEMPTS_MAX, NODE_READ_WAIT_FIRST_MS } from '../limits'
import { takeDepositBlinding, type Wallet, type WalletNote } from '../wallet/wallet'
import { askNode } from './ask_node'
import { type ChainAccess, nodesOf, payerKey, sleep, toInstruction } from './chain_access'
import { eventsOf, readEventData } from './read_history'
import { readMintRecord } from './read_vault'
import { requireLamports, requireTokens, sendInstructions, TransactionFailed } from './send_instructions'
import { ownAccount } from './token_account'

export type DepositTerms = {
  /** Base58. */
  program_id: string
  /** Base58. */
  mint: string
  /** Base units. */
  amount: bigint
  /** The trading key that owns the note. */
  key_index: number
  /** Saves the wallet; called before anything is sent, so that a crash never reuses a blinding. */
  keep?: () => void
}

/**
 * Everything that a deposit needs, looked at before anything is signed.
 * @returns base units that the payer holds, and the transaction's fee
 * @throws TransactionFailed naming what is missing, NotAVault
 */
export async function planDeposit(
  chain: ChainAccess,
  { program_id, mint, amount }: Pick<DepositTerms, 'program_id' | 'mint' | 'amount'>,
): Promise<{ token_program: Uint8Array; held: bigint; fee_lamports: bigint }> {
  const { token_program, min_deposit } = await readMintRecord(chain, program_id, mint)
  if (amount < min_deposit)
    throw new TransactionFailed(`a deposit of ${mint} is at least ${min_deposit} units`)
  const fee_lamports = await requireLamports(chain, [])
  const held = await requireTokens(chain, mint, token_program, amount)
  return { token_program, held, fee_lamports }
}

async function depositOf(chain: ChainAccess, terms: DepositTerms, inner: Uint8Array): Promise<Instruction> {
  const { token_program } = await planDeposit(chain, terms)
  const built = depositInstruction({
    program: decodeBase58(terms.program_id, 32)!,
    depositor: payerKey(chain),
    source: ownAccount(chain, terms.mint, token_program).bytes,
    mint: decodeBase58(terms.mint, 32)!,
    token_program,
    amount: terms.amount,
    inner,
  })
  return toInstruction(built, [chain.payer])
}

/** The `deposited` event of our program in a landed transaction; a node serves it later than its status. */
async function readDeposited(
  chain: ChainAccess,
  program_id: string,
  signature: Signature,
  inner: Uint8Array,
): Promise<EventOf<'deposited'>> {
  for (let attempt = 0; attempt < NODE_READ_ATTEMPTS_MAX; attempt++) {
    for (const node of nodesOf(chain)) {
      const data = await readEventData(node, program_id, signature, 'finalized')
      for (const event of eventsOf(data ?? []))
        if (event.kind === 'deposited' && equalBytes(event.inner, inner)) return event
    }
    await sleep(NODE_READ_WAIT_FIRST_MS * 2 ** attempt)
  }
  throw new TransactionFailed(
    `the deposit ${signature} is final, but no node shows its event: 'wallet sync' finds the note`,
  )
}

/**
 * Sends the deposit, waits for `finalized`, and adds the note to the wallet.
 * @throws TransactionFailed when it did not land or the program made another commitment; NotAVault
 */
export async function deposit(
  chain: ChainAccess,
  wallet: Wallet,
  terms: DepositTerms,
): Promise<{ note: WalletNote; signature: string }> {
  const { key_index } = terms
  const { blinding, giveBack } = takeDepositBlinding(wallet, key_index)
  const owner = wallet.tradingKey(key_index)
  const inner = noteInner(owner, blinding)
  let sending = false
  const send = async (): Promise<Signature> => {
    const instruction = await depositOf(chain, terms, inner)
    terms.keep?.()
    sending = true
    return sendInstructions(chain, [instruction], 'finalized')
  }
  const signature = await send().catch((error: unknown) => {
    // After any other failure while sending, the deposit may still land.
    if (!sending || error instanceof TransactionFailed) giveBack()
    throw error
  })
  const event = await readDeposited(chain, terms.program_id, signature, inner)
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

async function ask(rpc_url: string, method: string, params: unknown): Promise<string> {
  const payload = { jsonrpc: '2.0', id: 1, method, params }
  const answer = await askNode(rpc_url, payload, NODE_CALL_MS)
  if ('error' in answer) throw new TransactionFailed(`${method}: ${Object(answer.error).message}`)
  return answer.result as string
}

/** Gives the payer lamports for fees. @throws TransactionFailed */
export function airdrop(chain: ChainAccess, lamports: bigint): Promise<string> {
  return ask(chain.rpc_url, 'requestAirdrop', [chain.payer.address, Number(lamports)])
}

/**
 * Mints base units into the payer's associated account. @param mint base58
 * @throws TransactionFailed
 */
export function mintTo(chain: ChainAccess, mint: string, amount: bigint): Promise<string> {
  return ask(chain.rpc_url, 'tacit_mintTo', [{ mint, owner: chain.payer.address, amount: String(amount) }])
}
