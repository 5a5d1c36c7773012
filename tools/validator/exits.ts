/** Leaves the vault by the trader's own commands: an exit the venue serves, one it refuses, and a freeze without it. */

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type ChainAccess, openChainAccess, payerKey, toInstruction } from '../../client/chain/chain_access'
import { readProofs } from '../../client/chain/exit_note'
import { readExitRequest } from '../../client/chain/read_vault'
import { sendInstructions } from '../../client/chain/send_instructions'
import { ownAccount, tokenBalance } from '../../client/chain/token_account'
import { nullifierOfNote, openNote } from '../../client/exit/prepare_exit'
import type { Wallet, WalletNote } from '../../client/wallet/wallet'
import { loadWallet } from '../../client/wallet/wallet_file'
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { deriveTradingKey } from '../../protocol/notes/derive'
import { noteInner } from '../../protocol/notes/notes'
import { requestExitInstruction } from '../../protocol/vault/exits'
import { check, DemoFailed, fact, short } from '../../sandbox/demo/report'
import { runProcess } from './landed_report'

const TACIT = 'client/cli/tacit.ts'
const WAIT_MS_MAX = 300_000
const POLL_MS = 500

/** A trader whose wallet no process follows any more: the file is all there is. */
export type Leaver = { name: string; dir: string; chain: ChainAccess; program_id: string }

const walletPath = ({ dir, name }: Leaver): string => join(dir, `${name}-wallet.json`)

async function exitCommand(leaver: Leaver, words: string[], more: string[]): Promise<void> {
  const { dir, name, chain, program_id } = leaver
  const payer = ['--payer', join(dir, `${name}-payer.hex`)]
  const target = ['--rpc', chain.rpc_url, '--program', program_id, '--wallet', walletPath(leaver)]
  const out = await runProcess(TACIT, [...words, ...target, ...payer, ...more])
  for (const line of out.split('\n')) console.log(`   ${line}`)
}

function walletOf(leaver: Leaver): Wallet {
  const path = walletPath(leaver)
  const wallet = existsSync(path) ? loadWallet(path) : undefined
  if (wallet === undefined) throw new DemoFailed(`${leaver.name} has no wallet`)
  return wallet
}

const freeNotes = (leaver: Leaver): WalletNote[] =>
  walletOf(leaver).state.notes.filter(({ state }) => state === 'free')

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WAIT_MS_MAX
  while (!(await holds())) {
    if (performance.now() > deadline) throw new DemoFailed(`waited in vain for ${what}`)
    await Bun.sleep(POLL_MS)
  }
}

const request = (leaver: Leaver, note: WalletNote) =>
  exitCommand(leaver, ['exit', 'request'], ['--note', note.commitment])

/** The venue pays a requested note out in an ordinary batch. */
export async function servedExit(leaver: Leaver): Promise<void> {
  const note = freeNotes(leaver)[0]
  if (note === undefined) throw new DemoFailed(`${leaver.name} has no note to leave with`)
  const own = ownAccount(leaver.chain, note.mint).bytes
  const before = await tokenBalance(leaver.chain, own)
  await request(leaver, note)
  const paid = before + BigInt(note.amount)
  await until('the exit to be served', async () => (await tokenBalance(leaver.chain, own)) === paid)
  check(true, 'the venue served the exit: the token account received the whole note', note.amount)
}

/** The wallet refuses to ask for a spent note, so the request is built by hand; the venue proves it wrong on chain. */
export async function refusedExit(leaver: Leaver): Promise<void> {
  const { chain, program_id } = leaver
  const wallet = walletOf(leaver)
  const proofs = await readProofs(chain, program_id)
  const note = wallet.state.notes.find(({ state }) => state === 'spent')
  if (note === undefined) throw new DemoFailed(`${leaver.name} has no spent note`)
  const { leaf_index, siblings: path, ...cited } = proofs.inclusion(fromHex(note.commitment, 32)!)
  const { owner, mint, opening, nullifier } = openNote(wallet, note, leaf_index)
  const instruction = requestExitInstruction({
    ...cited,
    owner,
    mint,
    opening,
    nullifier,
    path,
    program: decodeBase58(program_id, 32)!,
    payer: payerKey(chain),
    destination: ownAccount(chain, note.mint).bytes,
    refund_inner: noteInner(owner, fromHex(note.blinding, 32)!),
  })
  const signers = [
    (await openChainAccess(chain.rpc_url, deriveTradingKey(wallet.seed, note.key_index))).payer,
    chain.payer,
  ]
  const signature = await sendInstructions(chain, [toInstruction(instruction, signers)], 'finalized')
  fact('requested a spent note', short(signature))
  const open = async () => (await readExitRequest(chain, program_id, nullifier)) !== undefined
  await until('the request to be refused', async () => !(await open()))
  check(true, 'the venue refused it with a proof from the spent log; the bond is lost')
}

/** No venue runs: after the deadline anyone freezes the vault, and the bond returns. */
export async function frozenVault(leaver: Leaver): Promise<void> {
  const [note] = freeNotes(leaver)
  if (note === undefined) throw new DemoFailed(`${leaver.name} has no note left`)
  await request(leaver, note)
  const { chain, program_id } = leaver
  const nullifier = nullifierOfNote(note)
  const { deadline_s } = (await readExitRequest(chain, program_id, nullifier))!
  await until('the deadline', async () => (await clockOf(chain)) > deadline_s)
  for (const step of ['freeze', 'close'])
    await exitCommand(leaver, ['exit', step], ['--note', note.commitment])
  const closed = (await readExitRequest(chain, program_id, nullifier)) === undefined
  check(closed, 'the vault is frozen and the bond is back')
}

/** Unix seconds of the newest block: what the program compares a deadline with. */
async function clockOf({ rpc }: ChainAccess): Promise<number> {
  const slot = await rpc.getSlot({ commitment: 'confirmed' }).send()
  return Number((await rpc.getBlockTime(slot).send()) ?? 0)
}
