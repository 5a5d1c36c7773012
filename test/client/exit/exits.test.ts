/** With the venue off: a seed and the public chain recover every note, demand its payout and freeze the vault. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { type ChainAccess, openChainAccess, toInstruction } from '../../../client/chain/chain_access'
import { airdrop } from '../../../client/chain/deposit'
import { closeExit, freezeVault, readProofs, requestExit } from '../../../client/chain/exit_note'
import { readExitRequest, readMintRecord } from '../../../client/chain/read_vault'
import { sendInstructions, TransactionFailed } from '../../../client/chain/send_instructions'
import { createAssociatedAccount, ownAccount, tokenBalance } from '../../../client/chain/token_account'
import { exitRequestFields, nullifierOfNote } from '../../../client/exit/prepare_exit'
import { ProofUnavailable, type VaultProofs } from '../../../client/exit/vault_proofs'
import { adoptRefunds } from '../../../client/wallet/absorb_recovered'
import { recoverWallet } from '../../../client/wallet/recover'
import { leafFinder } from '../../../client/wallet/vault_history'
import type { Wallet, WalletNote } from '../../../client/wallet/wallet'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { deriveTradingKey } from '../../../protocol/notes/derive'
import { type RequestExitFields, requestExitInstruction } from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { seededRandom } from '../../faults/kit/random'
import { EmbeddedSite, JTO, USDC } from '../../kit/venue/embedded_site'
import { bytes } from '../../kit/venue/memory_chain'
import { Followers, notesOf } from '../followers'
import { fundTraders, RandomSession } from '../random_session'
import { WalletTrader } from '../wallet_trader'

const SEED = Number(process.env['SESSION_SEED'] ?? crypto.getRandomValues(new Uint32Array(1))[0])
const ACTIONS = 90
const PARTS = 3
/** A small wallet leaves small gaps. */
const LIMITS = { keys: 2, deposits: 20, commands: 60 }
const EXIT_DELAY_S = 7 * 86_400
const BOND_LAMPORTS = 20_000_000n

const site = new EmbeddedSite()
let followers: Followers
let traders: WalletTrader[] = []
let program_id: string
/** Recovered from seeds alone; everything after the first test is theirs. */
const wallets: Wallet[] = []
/** Pays all fees; a fresh key that no other part uses. */
let chain: ChainAccess
let proofs: VaultProofs

beforeAll(async () => {
  await site.openChain()
  await site.openVenue()
  program_id = encodeBase58(site.chain.program_id!)
  traders = await Promise.all(['ada', 'bob'].map((name) => WalletTrader.open(site, name)))
  await fundTraders(traders)
  const good = { [USDC]: await site.payee(USDC), [JTO]: await site.payee(JTO) }
  const unusable = encodeBase58(crypto.getRandomValues(new Uint8Array(32)))
  const session = new RandomSession(traders, seededRandom(SEED), { good, unusable })
  const seeds = traders.map(({ wallet }) => wallet.seed)
  followers = new Followers({ seeds, rpc_url: site.chain.url, program_id, limits: LIMITS })
  for (let part = 0; part < PARTS; part++) {
    await session.play(ACTIONS / PARTS)
    await followers.follow()
  }
  console.log(`session seed ${SEED}:`, session.tally)
  for (const trader of traders) await session.windUp(trader)
  await site.venue.drain()
  await site.venue.close()
  chain = await openChainAccess(site.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await airdrop(chain, 10_000_000_000n)
  site.chain.advance(2)
  const accounts = [USDC, JTO].map((mint) => createAssociatedAccount(chain, payer(), decodeBase58(mint, 32)!))
  await sendInstructions(chain, accounts, 'confirmed')
}, 180_000)
afterAll(async () => {
  await site.chain?.close()
  followers?.remove()
})

const payer = (): Uint8Array => decodeBase58(chain.payer.address, 32)!
const destinationOf = (note: WalletNote): Uint8Array => ownAccount(chain, note.mint).bytes
const unspent = (wallet: Wallet): WalletNote[] => wallet.state.notes.filter(({ state }) => state !== 'spent')

/** The vault's refusal of an instruction the owner of `signer`'s key signs, or `landed`. */
async function verdictOn(instruction: VaultInstruction, signer: Uint8Array): Promise<string> {
  const owner = await createKeyPairSignerFromPrivateKeyBytes(new Uint8Array(signer))
  return refusalOf(sendInstructions(chain, [toInstruction(instruction, [owner, chain.payer])], 'confirmed'))
}
async function refusalOf(answer: Promise<unknown>): Promise<string> {
  try {
    await answer
    return 'landed'
  } catch (error) {
    if (error instanceof TransactionFailed) return error.facts.refusal ?? error.message
    if (error instanceof ProofUnavailable) return error.facts.reason
    throw error
  }
}

test('a wallet recovered from its seed has exactly the notes it had', async () => {
  proofs = await readProofs(chain, program_id)
  const { history, vault } = proofs
  for (const { wallet } of traders) {
    await adoptRefunds(wallet, leafFinder(history))
    const recovered = recoverWallet(wallet.seed, history, vault.config.generation, LIMITS)
    expect(notesOf(recovered)).toEqual(notesOf(wallet))
    wallets.push(recovered)
  }
  // The same from a history read piece by piece, and from nothing again once that is lost.
  const whole = wallets.map(notesOf)
  const rest = await followers.follow()
  expect(followers.wallets.map(notesOf)).toEqual(whole)
  followers.forget()
  expect(await followers.follow()).toBeGreaterThan(rest)
  expect(followers.wallets.map(notesOf)).toEqual(whole)
  const origins = wallets.flatMap(({ state }) => state.notes.map(({ origin }) => origin))
  expect(new Set(origins).size).toBeGreaterThan(1)
}, 120_000)

test('an exit request shows its own note, its owner and a true path', async () => {
  const [wallet, other] = wallets as [Wallet, Wallet]
  const note = unspent(wallet)[0]!
  const terms = {
    program: site.chain.program_id!,
    payer: payer(),
    destination: destinationOf(note),
    refund_blinding: bytes(32),
  }
  const good = exitRequestFields(wallet, note, proofs, terms)
  const verdict = (
    change: Partial<RequestExitFields>,
    signer = deriveTradingKey(wallet.seed, note.key_index),
  ) => verdictOn(requestExitInstruction({ ...good, ...change }), signer)
  const forged = [...good.path.slice(1), good.refund_inner]
  expect(await verdict({ path: forged })).toBe('invalid_inclusion')
  expect(await verdict({ opening: { ...good.opening, amount: 1n << 40n } })).toBe('invalid_inclusion')
  expect(await verdict({ owner: other.tradingKey(0) }, deriveTradingKey(other.seed, 0))).toBe(
    'invalid_inclusion',
  )
  expect(await verdict({ cited_root: good.refund_inner })).toBe('unknown_state')
  const spent = wallet.state.notes.find(({ state }) => state === 'spent')!
  const to = { program_id, destination: destinationOf(spent), proofs }
  expect(await refusalOf(requestExit(chain, wallet, spent, to))).toBe('spent')
}, 120_000)

test('a request can freeze the vault only after its deadline', async () => {
  const [wallet] = wallets as [Wallet]
  const requested = unspent(wallet)[0]!
  const nullifier = nullifierOfNote(requested)
  expect(await refusalOf(freezeVault(chain, program_id, nullifier))).toContain('there is no exit request')
  const to = { program_id, destination: destinationOf(requested), proofs }
  await requestExit(chain, wallet, requested, to)
  expect(requested.state).toBe('pending')
  expect(await refusalOf(requestExit(chain, wallet, requested, to))).toBe('exit_already_requested')
  const open = await readExitRequest(chain, program_id, nullifier)
  expect(open).toMatchObject({ nullifier, amount: BigInt(requested.amount), destination: to.destination })
  expect(await refusalOf(freezeVault(chain, program_id, nullifier))).toBe('deadline_not_reached')
  expect(await refusalOf(closeExit(chain, program_id, nullifier))).toBe('exit_open')
  site.chain.warpTime(EXIT_DELAY_S + 60)
  // The clock is that of the newest slot.
  site.chain.advance(1)
  const { value: before } = await chain.rpc
    .getBalance(chain.payer.address, { commitment: 'confirmed' })
    .send()
  await freezeVault(chain, program_id, nullifier)
  await closeExit(chain, program_id, nullifier)
  const { value: after } = await chain.rpc.getBalance(chain.payer.address, { commitment: 'confirmed' }).send()
  expect(after - before).toBeGreaterThan(BOND_LAMPORTS - 100_000n)
  const fresh = await readProofs(chain, program_id, { commitment: 'confirmed' })
  expect(fresh.vault.config.frozen).toBe(true)
  const second = unspent(wallet)[1]!
  expect(await refusalOf(requestExit(chain, wallet, second, { ...to, proofs: fresh }))).toBe('vault_frozen')
  proofs = fresh
}, 120_000)

test('what the notes hold and the fees that were never issued are what the vault owes and has', async () => {
  for (const mint of [USDC, JTO]) {
    const paid = traders.flatMap(({ wallet }) => wallet.state.fees.filter((fee) => fee.mint === mint))
    const fees = paid.reduce((sum, fee) => sum + BigInt(fee.amount), 0n)
    const owned = wallets.reduce((sum, wallet) => sum + wallet.balance(mint), 0n)
    const record = await readMintRecord(chain, program_id, mint)
    expect([record.liabilities, record.queued]).toEqual([owned + fees, 0n])
    expect(await tokenBalance(chain, record.vault_token)).toBe(owned + fees)
  }
}, 120_000)
