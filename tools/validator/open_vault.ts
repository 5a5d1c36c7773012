/** Runs the project's commands against a test cluster: funds accounts, opens the vault, and reports the landed transactions. */

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChainAccess, openChainAccess, toInstruction } from '../../client/chain/chain_access'
import { createAssociatedAccount, ownAccount, tokenBalance } from '../../client/chain/read_vault'
import { sendInstructions } from '../../client/chain/send_instructions'
import { transactionInstructions } from '../../engine/chain/client/transaction_status'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { programDataAddress } from '../../protocol/vault/addresses'
import { instructionName, type VaultInstruction } from '../../protocol/vault/instruction'
import { createMintInstructions, MINT_BYTES, mintToChecked, wrapLamports } from '../../sandbox/chain/faucet'
import { DemoFailed, fact, type MintName } from '../../sandbox/demo/report'
import type { VenueProcess } from '../../sandbox/demo/story'
import type { Trader } from '../../sandbox/demo/trader'
import type { SandboxFacts } from '../../sandbox/open_sandbox'
import type { MachineFacts } from '../machine/main'

const PROJECT = join(import.meta.dir, '../..')
/** Largest page of getSignaturesForAddress. */
const PAGE = 1_000

/** One JSON-RPC call without a client library, so that errors are the node's. @throws Error with the node's message */
export async function callRpc<T>(rpc_url: string, method: string, params: unknown[] = []): Promise<T> {
  const answer = await fetch(rpc_url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  }).catch(() => {
    throw new DemoFailed(`${rpc_url} does not answer`)
  })
  const { result, error } = (await answer.json()) as { result: T; error?: { code: number; message: string } }
  if (error !== undefined) throw new Error(`${method}: ${error.message} (${error.code})`)
  return result
}

/** Runs a command of the project as a process; `typed` is its input. Resolves with its output. @throws Error with the output when it fails */
export async function runProcess(script: string, args: readonly string[], typed = ''): Promise<string> {
  const { SOLANA_RPC_URL: _, ...env } = process.env
  const child = Bun.spawn([process.execPath, join(PROJECT, script), ...args], {
    stdin: new Blob([typed]),
    stdout: 'pipe',
    stderr: 'pipe',
    env,
  })
  const [out, failure] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  if ((await child.exited) !== 0) throw new Error(`${script} ${args[0]}: ${failure}${out}`)
  return out.trim()
}

type Found = {
  version: 'legacy' | number
  transaction: [string, string]
  meta: { err: unknown; computeUnitsConsumed: number; fee: number }
}
type Row = { landed: number; failed: number; bytes_max: number; units_max: number }

/** Counts, largest size and compute units by instruction and version, over all transactions of the program. */
export async function landedReport(rpc_url: string, program_id: string): Promise<Map<string, Row>> {
  const commitment = 'confirmed'
  const signatures: { signature: string }[] = []
  for (let before: string | undefined; ; ) {
    const config = { commitment, limit: PAGE, ...(before === undefined ? {} : { before }) }
    const page = await callRpc<{ signature: string }[]>(rpc_url, 'getSignaturesForAddress', [
      program_id,
      config,
    ])
    signatures.push(...page)
    before = page.at(-1)?.signature
    if (page.length < PAGE) break
  }
  const rows = new Map<string, Row>()
  for (const { signature } of signatures) {
    const config = { commitment, encoding: 'base64', maxSupportedTransactionVersion: 1 }
    const found = await callRpc<Found | null>(rpc_url, 'getTransaction', [signature, config])
    if (found === null) continue
    const bytes = new Uint8Array(Buffer.from(found.transaction[0], 'base64'))
    const ours = transactionInstructions(bytes).find(({ program }) => program === program_id)
    const name = (ours && instructionName(ours.data)) ?? 'deployment'
    const key = `${name} v${found.version}`
    const row = rows.get(key) ?? { landed: 0, failed: 0, bytes_max: 0, units_max: 0 }
    if (found.meta.err === null) row.landed += 1
    else row.failed += 1
    row.bytes_max = Math.max(row.bytes_max, bytes.length)
    row.units_max = Math.max(row.units_max, found.meta.computeUnitsConsumed)
    rows.set(key, row)
  }
  return new Map([...rows].sort(([a], [b]) => (a < b ? -1 : 1)))
}

const PROGRAM = 'tools/program/main.ts'
const FAUCET_MS_MAX = 600_000
const FAUCET_POLL_MS = 250
const START_MS_MAX = 1_200_000
const VENUE_POLL_MS = 500
/** For a trader's transactions, rent and bonds. */
const FEE_LAMPORTS = 2_000_000_000n
/** For the venue's transactions. */
const VENUE_LAMPORTS = 10_000_000_000n

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

const signed = (chain: ChainAccess, instructions: VaultInstruction[], ...more: ChainAccess['payer'][]) =>
  instructions.map((one) => toInstruction(one, [chain.payer, ...more]))

/** A new SPL Token mint whose authority is the payer of `chain`. */
export async function createMint(chain: ChainAccess, decimals: number): Promise<string> {
  const { payer: mint } = await openChainAccess(chain.rpc_url, crypto.getRandomValues(new Uint8Array(32)))
  const rent = await chain.rpc.getMinimumBalanceForRentExemption(BigInt(MINT_BYTES)).send()
  const create = createMintInstructions(bytesOf(chain.payer.address), bytesOf(mint.address), rent, decimals)
  await sendInstructions(chain, signed(chain, create, mint), 'finalized')
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
  const own = ownAccount(chain, mint).bytes
  const before = await tokenBalance(chain, own)
  await sendInstructions(chain, [createAssociatedAccount(chain, owner, address)], 'confirmed')
  const payer = wrapped ? chain : authority
  const key = bytesOf(payer.payer.address)
  const paid = wrapped ? wrapLamports(key, own, amount) : [mintToChecked(address, own, key, amount, decimals)]
  await sendInstructions(payer, signed(payer, paid), 'confirmed')
  if ((await tokenBalance(chain, own)) !== before + amount) throw new Error('the tokens did not arrive')
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
export async function program(rpc_url: string, args: readonly string[], typed?: string): Promise<string[]> {
  const out = await runProcess(PROGRAM, [...args, '--rpc', rpc_url, '--execute'], typed)
  const signatures = out.match(/[1-9A-HJ-NP-Za-km-z]{86,88}/g) ?? []
  fact(`program ${args[0]}`, `${signatures.length} transactions, the last ${signatures.at(-1) ?? 'none'}`)
  return signatures
}

/** Key files of a deployment: fee payer and upgrade authority, and the program's address. */
type Deployment = { authority: KeyFile; program: KeyFile }

export async function deploy(rpc_url: string, keys: Deployment): Promise<void> {
  const { authority, program: address } = keys
  const files = ['--payer', authority.path, '--authority', authority.path, '--program', address.path]
  await program(rpc_url, ['deploy', ...files])
}

type VaultTerms = {
  rpc_url: string
  keys: Deployment
  mints: readonly string[]
  exit_delay_s: number
}

/** Starts the venue, reads its announcements from its quote, makes the vault; resolves once the venue serves. */
export async function openVault(
  venue: VenueProcess,
  at: { data_dir: string; url: string },
  terms: VaultTerms,
): Promise<SandboxFacts> {
  const serving = venue.start(START_MS_MAX)
  const machine = await readMachine(at)
  fact('epoch authority', `${machine.epoch_authority}, proven by its quote`)
  const { rpc_url, keys, mints, exit_delay_s } = terms
  const { authority } = keys
  await airdrop(rpc_url, logged(at.data_dir, /"fee_payer":"(\w+)"/), VENUE_LAMPORTS)
  const own = ['--program', keys.program.address]
  const roles = ['--authority', authority.path, '--admin', authority.address]
  await program(rpc_url, ['initialize', ...own, ...roles, '--exit-delay', `${exit_delay_s}`])
  for (const mint of mints) {
    const minimums = ['--min-deposit', '1000', '--min-exit', '1000']
    await program(rpc_url, ['register-mint', ...own, '--admin', authority.path, '--mint', mint, ...minimums])
  }
  for (const { list, id, value } of machine.announcements) {
    const named = [...(id ? ['--id', id] : []), ...(value ? ['--value', value] : [])]
    await program(rpc_url, ['announce', ...own, '--admin', authority.path, '--list', list, ...named])
  }
  // Verifying clients reject a program that has an upgrade authority.
  const code = encodeBase58(programDataAddress(bytesOf(keys.program.address)))
  await program(rpc_url, ['renounce', ...own, '--authority', authority.path], `${code}\n`)
  return serving
}

/** `bun run read-machine`, once the venue answers. */
async function readMachine({ data_dir, url }: { data_dir: string; url: string }): Promise<MachineFacts> {
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
  writeFileSync(path('machine-policy.json'), JSON.stringify(policy))
  const out = await runProcess('tools/machine/main.ts', [
    url,
    ...['--compose-hash', logged(data_dir, /"compose_hash":"([0-9a-f]{64})"/)],
    ...['--collateral', path('stand-in', 'collateral.json')],
    ...['--policy', path('machine-policy.json')],
  ])
  return JSON.parse(out)
}

/** A fact of the venue's log, such as the compose hash that an operator knows from building the manifest. */
function logged(data_dir: string, pattern: RegExp): string {
  const found = pattern.exec(readFileSync(join(data_dir, 'venue.log'), 'utf8'))
  if (found === null) throw new Error('the log of the venue lacks a fact')
  return found[1]!
}
