#!/usr/bin/env bun
/**
 * `bun run validator-demo`: the whole demo against a validator that is not ours: deployment, vault, trading, a kill,
 * settlement, withdrawals, exits, and the freeze of a vault whose venue is gone.
 */
import { existsSync, mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { type ChainAccess, openChainAccess, payerKey, toInstruction } from '../../client/chain/chain_access'
import { readProofs } from '../../client/chain/exit_note'
import { ownAccount, readExitRequest, tokenBalance } from '../../client/chain/read_vault'
import { sendInstructions } from '../../client/chain/send_instructions'
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { openNote } from '../../client/exit/prepare_exit'
import { nullifierOfNote } from '../../client/wallet/absorb'
import type { Wallet, WalletNote } from '../../client/wallet/wallet'
import { loadWallet } from '../../client/wallet/wallet_file'
import { decodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { deriveTradingKey } from '../../protocol/notes/derive'
import { noteInner } from '../../protocol/notes/notes'
import { requestExitInstruction } from '../../protocol/vault/exits'
import { chapter, check, DemoFailed, fact, short } from '../../sandbox/demo/report'
import { type Cast, playStory, type Stage, tradersDir, VenueProcess } from '../../sandbox/demo/story'
import { mintsOf, solInstrument } from '../../sandbox/environment'
import {
  airdrop,
  callRpc,
  createMint,
  deploy,
  fundTrader,
  landedReport,
  newKey,
  openVault,
  program,
  runProcess,
} from './open_vault'

const TACIT = 'client/cli/tacit.ts'
const WAIT_MS_MAX = 300_000
const POLL_MS = 500

/** A trader whose wallet no process follows any more: the file is all there is. */
type Leaver = { name: string; dir: string; chain: ChainAccess; program_id: string }

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
    if (performance.now() > deadline) throw new DemoFailed(`${what} did not come in time`)
    await Bun.sleep(POLL_MS)
  }
}

const request = (leaver: Leaver, note: WalletNote) =>
  exitCommand(leaver, ['exit', 'request'], ['--note', note.commitment])

/** The venue pays a requested note out in an ordinary batch. */
async function servedExit(leaver: Leaver): Promise<void> {
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
async function refusedExit(leaver: Leaver): Promise<void> {
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
async function frozenVault(leaver: Leaver): Promise<void> {
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

/** Unix seconds of the newest block, which the program compares a deadline with. */
async function clockOf({ rpc }: ChainAccess): Promise<number> {
  const slot = await rpc.getSlot({ commitment: 'confirmed' }).send()
  return Number((await rpc.getBlockTime(slot).send()) ?? 0)
}

const USAGE = `usage: bun run validator-demo --rpc URL [--data data/validator]
  --rpc   JSON-RPC of a validator on this machine, with a faucet; it may keep what is left there
Keys and mints are new with every run, so the folder must be: nothing of an earlier run is read.`
const NATIVE_MINT = 'So11111111111111111111111111111111111111112'
const LAMPORTS = 1_000_000_000n
/** Long enough for a venue on a slow machine to serve a request, short enough to wait for. */
const EXIT_DELAY_S = 90

async function play(rpc_url: string, data_dir: string): Promise<void> {
  const keys_dir = join(data_dir, 'keys')
  const venue_dir = join(data_dir, 'venue')
  const traders_dir = tradersDir(data_dir)
  for (const dir of [keys_dir, venue_dir, traders_dir]) mkdirSync(dir, { recursive: true, mode: 0o700 })
  chapter('An independent validator')
  fact('version', JSON.stringify(await callRpc(rpc_url, 'getVersion')))
  fact('genesis', await callRpc<string>(rpc_url, 'getGenesisHash'))

  chapter('Program, mint and vault, by the commands of an operator')
  const authority = newKey(keys_dir, 'authority')
  const keys = { authority, program: newKey(keys_dir, 'program') }
  const program_id = keys.program.address
  await airdrop(rpc_url, authority.address, 50n * LAMPORTS)
  await deploy(rpc_url, keys)
  const chain = await openChainAccess(rpc_url, authority.seed)
  const usdc = await createMint(chain, 6)
  const mints = {
    sol: { mint: NATIVE_MINT, name: 'SOL', decimals: 9 },
    usdc: { mint: usdc, name: 'USDC', decimals: 6 },
  }
  const listen = await freeAddress()
  const environment = venueEnvironment({ rpc_url, program_id, usdc, listen })
  const venue_process = new VenueProcess(venue_dir, environment)
  venue = venue_process
  const at = { data_dir: venue_dir, url: `https://${listen}` }
  const mint_ids = [mints.sol.mint, mints.usdc.mint]
  const terms = { rpc_url, keys, mints: mint_ids, exit_delay_s: EXIT_DELAY_S }
  const facts = await openVault(venue_process, at, terms)

  chapter('The venue is verified before a word is said to it')
  const fund: Stage['fund'] = (trader, mint, amount) => fundTrader(chain, NATIVE_MINT, trader, mint, amount)
  const stage: Stage = { venue_process, facts, traders_dir, mints, fund }
  const cast = await playStory(stage)

  for (const trader of [cast.ada, cast.bob]) trader.close()

  await leave(cast, chain, program_id, stage)
  await administer(rpc_url, program_id, authority.path)
  await report(rpc_url, program_id)
}

/** A sandbox on the validator with one instrument: wrapped SOL against a mint of this run. */
function venueEnvironment(on: {
  rpc_url: string
  program_id: string
  usdc: string
  /** ADDRESS:PORT */
  listen: string
}): Record<string, string> {
  return {
    TACIT_ENCLAVE: 'development',
    TACIT_LISTEN: on.listen,
    TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
    SOLANA_RPC_URL: on.rpc_url,
    TACIT_PROGRAM_ID: on.program_id,
    TACIT_MINTS: JSON.stringify(mintsOf(on.usdc)),
    TACIT_INSTRUMENTS: JSON.stringify([solInstrument(on.usdc)]),
  }
}

async function leave(
  cast: Cast,
  chain: ChainAccess,
  program_id: string,
  { traders_dir, venue_process }: Stage,
): Promise<void> {
  const leavers: Leaver[] = [cast.bob, cast.ada].map(({ name, chain: own }) => {
    return { name, dir: traders_dir, chain: own, program_id }
  })
  for (const { chain: own } of leavers) await airdrop(chain.rpc_url, own.payer.address, LAMPORTS)
  chapter('An exit is asked for on chain, and the venue serves it')
  await servedExit(leavers[0]!)
  chapter('An exit of a spent note is refused')
  await refusedExit(leavers[0]!)
  chapter('The venue is gone; an owner freezes the vault')
  check((await venue_process.stop()) === 0, 'SIGTERM: the venue drains, anchors and exits with 0')
  await frozenVault(leavers[1]!)
}

/** The admin's instructions that the story has not used; a frozen vault takes them too. */
async function administer(rpc_url: string, program_id: string, admin: string): Promise<void> {
  chapter("The admin's instructions")
  const own = ['--program', program_id, '--admin', admin]
  for (const name of ['pause', 'unpause', 'announce-restore', 'cancel-restore'])
    await program(rpc_url, [name, ...own])
}

async function report(rpc_url: string, program_id: string): Promise<void> {
  chapter('What the validator ran')
  console.log(
    await runProcess('client/cli/tacit.ts', ['audit-chain', '--rpc', rpc_url, '--program', program_id]),
  )
  console.table(Object.fromEntries(await landedReport(rpc_url, program_id)))
}

/** A free port: the venue's URL must be known before the venue starts. */
async function freeAddress(): Promise<string> {
  const probe = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { port } = probe
  probe.stop(true)
  return `127.0.0.1:${port}`
}

let venue: VenueProcess | undefined

await runCommand(USAGE, async (args) => {
  const options = new Options(args, { texts: ['rpc', 'data'] })
  const rpc_url = options.text('rpc')
  const data_dir = resolve(options.text('data', 'data/validator'))
  if (existsSync(data_dir)) throw new UsageFault(`${data_dir} exists`)
  try {
    await play(rpc_url, data_dir)
    console.log('\nThe run ends: everything it promised was seen to hold on this validator.')
  } catch (error) {
    if (!(error instanceof DemoFailed)) console.error(error)
    throw new Error(`\nThe run stopped: ${(error as Error).message}`)
  } finally {
    await venue?.kill()
  }
})
