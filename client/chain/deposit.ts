/** Deposits tokens into the vault as a note of the wallet; the program makes the commitment, not the venue. */
import type { Instruction, Signature } from '@solana/kit'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { equalBytes, toHex } from '../../protocol/bytes'
import { deriveDepositBlinding } from '../../protocol/notes/derive'
import { noteInner, openingCommitment } from '../../protocol/notes/notes'
import type { EventOf } from '../../protocol/vault/events'
import { depositInstruction } from '../../protocol/vault/exits'
import { NODE_CALL_MS, NODE_READ_ATTEMPTS_MAX, NODE_READ_WAIT_FIRST_MS } from '../limits'
import { takeDepositBlinding, type Wallet, type WalletNote } from '../wallet/wallet'
import { askNode, type ChainAccess, nodesOf, payerKey, sleep, toInstruction } from './chain_access'
import { eventsOf, listAddress, readEventData, readTransactions } from './read_history'
import { ownAccount, readMintRecord } from './read_vault'
import { requireLamports, requireTokens, sendInstructions, TransactionFailed } from './send_instructions'

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
 * Reads a deposit's inputs before anything is signed.
 * @returns base units that the payer holds, and the transaction's fee
 * @throws TransactionFailed naming the missing input, NotAVault
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
  return { note: addDeposited(wallet, { ...terms, blinding }, event), signature }
}

type Made = { mint: string; amount: bigint; key_index: number; blinding: Uint8Array }

/** @throws TransactionFailed for another note than the one that was asked for */
function addDeposited(
  wallet: Wallet,
  made: Made,
  { commitment, leaf_index }: EventOf<'deposited'>,
): WalletNote {
  const { amount, blinding, key_index } = made
  const opening = {
    owner: wallet.tradingKey(key_index),
    mint: decodeBase58(made.mint, 32)!,
    amount,
    blinding,
    leaf_index,
  }
  if (!equalBytes(openingCommitment(opening), commitment))
    throw new TransactionFailed('the program made another commitment')
  const note: WalletNote = {
    commitment: toHex(commitment),
    key_index,
    mint: made.mint,
    amount: String(amount),
    blinding: toHex(blinding),
    leaf_index,
    state: 'free',
    origin: 'deposit',
  }
  wallet.state.notes.push(note)
  return note
}

/**
 * Looks among the payer's own transactions for deposits of which the wallet has no note, as after a program that ended before
 * theirs were final. A node is believed as `deposit` believes it.
 * @returns a look, with the notes that it added; undefined once none is missing. It throws as `readTransactions`.
 */
export function searchDeposits(chain: ChainAccess, wallet: Wallet, program_id: string) {
  const known = new Set(wallet.state.notes.map(({ blinding }) => blinding))
  const missing = new Map<string, Pick<Made, 'key_index' | 'blinding'>>()
  for (const [key_index, { deposits }] of wallet.state.keys.entries())
    for (let taken = 0; taken < deposits; taken++) {
      const blinding = deriveDepositBlinding(wallet.seed, key_index, taken)
      if (known.has(toHex(blinding))) continue
      missing.set(toHex(noteInner(wallet.tradingKey(key_index), blinding)), { key_index, blinding })
    }
  const read = new Set<string>()
  return async (): Promise<WalletNote[] | undefined> => {
    if (missing.size === 0) return undefined
    const listings = await Promise.all(
      nodesOf(chain).map((node) => listAddress(node, payerKey(chain), 0, {})),
    )
    const listed = [...new Map(listings.flatMap((one) => [...one]))].filter(
      ([signature]) => !read.has(signature),
    )
    const found: WalletNote[] = []
    const unread = listed.map(([signature, slot]) => ({ signature, slot }))
    for await (const transactions of readTransactions(chain, program_id, unread, {}))
      for (const event of transactions.flatMap(({ data }) => eventsOf(data))) {
        const own = event.kind === 'deposited' ? missing.get(toHex(event.inner)) : undefined
        if (event.kind !== 'deposited' || own === undefined) continue
        found.push(
          addDeposited(wallet, { ...own, mint: encodeBase58(event.mint), amount: event.amount }, event),
        )
        missing.delete(toHex(event.inner))
      }
    for (const { signature } of unread) read.add(signature)
    return found
  }
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
