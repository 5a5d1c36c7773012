/** Funds the accounts of a test cluster and opens the vault with the operator's commands (docs/operator.md). */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChainAccess, openChainAccess } from '../../client/chain/chain_access'
import { sendInstructions, toInstruction } from '../../client/chain/send_instructions'
import { createAssociatedAccount, ownAccount, tokenBalance } from '../../client/chain/token_account'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { concatBytes, toHex, u64Le } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { SYSTEM_PROGRAM, TOKEN_PROGRAM } from '../../protocol/vault/addresses'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import type { MintName } from '../../sandbox/demo/balances'
import { fact } from '../../sandbox/demo/report'
import type { Trader } from '../../sandbox/demo/trader'
import type { SandboxFacts, VenueProcess } from '../../sandbox/demo/venue_process'
import { callRpc, runCommand } from './landed_report'

const PROGRAM = 'tools/program/main.ts'
/** Size of an SPL Token mint account. */
const MINT_BYTES = 82
const FAUCET_MS_MAX = 600_000
const FAUCET_POLL_MS = 250
const START_MS_MAX = 1_200_000
const VENUE_POLL_MS = 500
/** For a trader's transactions, rent and bonds. */
const FEE_LAMPORTS = 2_000_000_000n
/** For the venue's transactions. */
const SIGNER_LAMPORTS = 10_000_000_000n

type Account = VaultInstruction['accounts'][number]
const account = (address: Uint8Array, writable: boolean, signer = false): Account => ({
  address,
  writable,
  signer,
})
const bytesOf = (text: string): Uint8Array => decodeBase58(text, 32)!

/** Resolves once the lamports are finalized. @throws Error when the cluster has no faucet */
export async function airdrop(rpc_url: string, address: string, lamports: bigint): Promise<void> {
  const config = { commitment: 'finalized' }
  const balance = async () =>
    BigInt((await callRpc<{ value: number }>(rpc_url, 'getBalance', [address, config])).value)
  const before = await balance()
  await callRpc(rpc_url, 'requestAirdrop', [address, Number(lamports)])
  const deadline = performance.now() + FAUCET_MS_MAX
  while ((await balance()) < before + lamports) {
    if (performance.now() > deadline) throw new Error('the faucet did not pay')
    await Bun.sleep(FAUCET_POLL_MS)
  }
}

/** A new SPL Token mint whose authority is the payer of `chain`. */
export async function createMint(chain: ChainAccess, decimals: number): Promise<string> {
  const { payer: mint } = await openChainAccess(chain.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const rent = await chain.rpc.getMinimumBalanceForRentExemption(BigInt(MINT_BYTES)).send()
  const [authority, address] = [bytesOf(chain.payer.address), bytesOf(mint.address)]
  const create = {
    program: SYSTEM_PROGRAM,
    accounts: [account(authority, true, true), account(address, true, true)],
    data: concatBytes(new Uint8Array(4), u64Le(rent), u64Le(MINT_BYTES), TOKEN_PROGRAM),
  }
  // InitializeMint2: decimals, authority, no freeze authority.
  const initialize = {
    program: TOKEN_PROGRAM,
    accounts: [account(address, true)],
    data: concatBytes(Uint8Array.of(20, decimals), authority, Uint8Array.of(0)),
  }
  const instructions = [create, initialize].map((one) => toInstruction(one, [chain.payer, mint]))
  await sendInstructions(chain, instructions, 'finalized')
  return mint.address
}

/** Sends a trader SOL for fees, and tokens: lamports are wrapped for the native mint, the other mint's authority mints. */
export async function fundTrader(
  authority: ChainAccess,
  native_mint: string,
  trader: Trader,
  { mint, decimals }: MintName,
  amount: bigint,
): Promise<void> {
  const { chain } = trader
  const wrapped = mint === native_mint
  await airdrop(chain.rpc_url, chain.payer.address, FEE_LAMPORTS + (wrapped ? amount : 0n))
  const [owner, address] = [bytesOf(chain.payer.address), bytesOf(mint)]
  const own = ownAccount(chain, mint)
  const before = await tokenBalance(chain, own.bytes)
  await sendInstructions(chain, [createAssociatedAccount(chain, owner, address)], 'confirmed')
  if (wrapped) await wrap(chain, own.bytes, amount)
  else await mintTo(authority, address, own.bytes, amount, decimals)
  if ((await tokenBalance(chain, own.bytes)) !== before + amount) throw new Error('the tokens did not arrive')
}

async function wrap(chain: ChainAccess, own: Uint8Array, amount: bigint): Promise<void> {
  const owner = bytesOf(chain.payer.address)
  const transfer = {
    program: SYSTEM_PROGRAM,
    accounts: [account(owner, true, true), account(own, true)],
    data: concatBytes(Uint8Array.of(2, 0, 0, 0), u64Le(amount)),
  }
  const sync_native = { program: TOKEN_PROGRAM, accounts: [account(own, true)], data: Uint8Array.of(17) }
  const instructions = [transfer, sync_native].map((one) => toInstruction(one, [chain.payer]))
  await sendInstructions(chain, instructions, 'confirmed')
}

async function mintTo(
  authority: ChainAccess,
  mint: Uint8Array,
  to: Uint8Array,
  amount: bigint,
  decimals: number,
): Promise<void> {
  const mint_to_checked = {
    program: TOKEN_PROGRAM,
    accounts: [
      account(mint, true),
      account(to, true),
      account(bytesOf(authority.payer.address), false, true),
    ],
    data: concatBytes(Uint8Array.of(14), u64Le(amount), Uint8Array.of(decimals)),
  }
  await sendInstructions(authority, [toInstruction(mint_to_checked, [authority.payer])], 'confirmed')
}

type KeyFile = { path: string; address: string; seed: Uint8Array }

/** Generates a key in a file that only its owner can read. */
export function newKey(dir: string, name: string): KeyFile {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const path = join(dir, `${name}.hex`)
  writeFileSync(path, toHex(seed), { mode: 0o600 })
  return { path, address: encodeBase58(publicKeyOf(seed)), seed }
}

/** Runs one command of `bun run program` with --execute; resolves with the printed signatures. */
export async function program(rpc_url: string, args: readonly string[]): Promise<string[]> {
  const out = await runCommand(PROGRAM, [...args, '--rpc', rpc_url, '--execute'])
  const signatures = out.match(/[1-9A-HJ-NP-Za-km-z]{86,88}/g) ?? []
  fact(`program ${args[0]}`, `${signatures.length} transactions, the last ${signatures.at(-1) ?? 'none'}`)
  return signatures
}

/** Key files of a deployment: fee payer and upgrade authority, and the program's address. */
type Deployment = { authority: KeyFile; program: KeyFile }

export async function deploy(rpc_url: string, keys: Deployment, more: string[] = []): Promise<void> {
  const { authority, program: address } = keys
  const files = ['--payer', authority.path, '--authority', authority.path, '--program', address.path]
  await program(rpc_url, ['deploy', ...files, ...more])
}

type VaultTerms = {
  rpc_url: string
  keys: Deployment
  mints: readonly string[]
  exit_delay_s: number
}

/** Starts the venue, reads its settlement signer from its quote, opens the vault; resolves once the venue serves. */
export async function openVault(
  venue: VenueProcess,
  at: { data_dir: string; url: string },
  terms: VaultTerms,
): Promise<SandboxFacts> {
  const serving = venue.start(START_MS_MAX)
  const signer = await readSigner(at)
  fact('settlement signer', `${signer}, proven by its quote`)
  const { rpc_url, keys, mints, exit_delay_s } = terms
  const { authority } = keys
  await airdrop(rpc_url, signer, SIGNER_LAMPORTS)
  const own = ['--program', keys.program.address]
  const roles = ['--authority', authority.path, '--admin', authority.address, '--signer', signer]
  await program(rpc_url, ['initialize', ...own, ...roles, '--exit-delay', `${exit_delay_s}`])
  for (const mint of mints) {
    const minimums = ['--min-deposit', '1000', '--min-exit', '1000']
    await program(rpc_url, ['register-mint', ...own, '--admin', authority.path, '--mint', mint, ...minimums])
  }
  // Verifying clients reject a program that has an upgrade authority.
  await deploy(rpc_url, keys, ['--renounce'])
  return serving
}

/** `bun run read-signer`, once the venue answers. */
async function readSigner({ data_dir, url }: { data_dir: string; url: string }): Promise<string> {
  const deadline = performance.now() + START_MS_MAX
  const health = () => fetch(`${url}/health`, { tls: { rejectUnauthorized: false } })
  while (
    !(await health().then(
      ({ ok }) => ok,
      () => false,
    ))
  ) {
    if (performance.now() > deadline) throw new Error('the venue does not answer')
    await Bun.sleep(VENUE_POLL_MS)
  }
  const path = (...names: string[]) => join(data_dir, ...names)
  const policy = {
    tcb_statuses: ['UpToDate'],
    roots_pem: readFileSync(path('stand-in', 'development-root.pem'), 'utf8'),
  }
  writeFileSync(path('signer-policy.json'), JSON.stringify(policy))
  const out = await runCommand('tools/signer/main.ts', [
    url,
    ...['--compose-hash', composeHash(path('venue.log'))],
    ...['--collateral', path('stand-in', 'collateral.json')],
    ...['--policy', path('signer-policy.json')],
  ])
  return (JSON.parse(out) as { tee_pubkey: string }).tee_pubkey
}

/** The compose hash that the simulated machine measured; an operator knows it from building the manifest. */
function composeHash(log: string): string {
  const found = /"compose_hash":"([0-9a-f]{64})"/.exec(readFileSync(log, 'utf8'))
  if (found === null) throw new Error('the venue did not say what it runs')
  return found[1]!
}
