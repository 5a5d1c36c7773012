/** Brings program and vault to a cluster by the operator's own commands, keys by file, as docs/operator.md tells. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fact } from '../../client/demo/report'
import type { LaptopFacts, VenueProcess } from '../../client/demo/venue_process'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { runCommand } from './run_command'
import { airdrop } from './test_money'

const PROGRAM = 'tools/program/main.ts'
/** For the venue's own transactions. */
const SIGNER_LAMPORTS = 10_000_000_000n
const START_MS_MAX = 1_200_000
const POLL_MS = 500

export type KeyFile = { path: string; address: string; seed: Uint8Array }

/** A fresh key in a file only its owner reads. */
export function newKey(dir: string, name: string): KeyFile {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  const path = join(dir, `${name}.hex`)
  writeFileSync(path, toHex(seed), { mode: 0o600 })
  return { path, address: encodeBase58(publicKeyOf(seed)), seed }
}

/** One command of `bun run program`, carried out; resolves with the signatures it printed. */
export async function program(rpc_url: string, args: readonly string[]): Promise<string[]> {
  const out = await runCommand(PROGRAM, [...args, '--rpc', rpc_url, '--execute'])
  const signatures = out.match(/[1-9A-HJ-NP-Za-km-z]{86,88}/g) ?? []
  fact(`program ${args[0]}`, `${signatures.length} transactions, the last ${signatures.at(-1) ?? 'none'}`)
  return signatures
}

/** The files of a deployment: who pays and may upgrade, and the program's address. */
export type Deployment = { authority: KeyFile; program: KeyFile }

export async function deploy(rpc_url: string, keys: Deployment, more: string[] = []): Promise<void> {
  const { authority, program: address } = keys
  const files = ['--payer', authority.path, '--authority', authority.path, '--program', address.path]
  await program(rpc_url, ['deploy', ...files, ...more])
}

export type VaultTerms = {
  rpc_url: string
  keys: Deployment
  mints: readonly string[]
  exit_delay_s: number
}

/** Starts the venue, reads its key as an outsider must, opens the vault for it; resolves once the venue serves. */
export async function openVault(
  venue: VenueProcess,
  at: { data_dir: string; url: string },
  terms: VaultTerms,
): Promise<LaptopFacts> {
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
  // A client that verifies refuses a program somebody may replace.
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
    await Bun.sleep(POLL_MS)
  }
  const path = (...names: string[]) => join(data_dir, ...names)
  const policy = {
    ...{ compose_hashes: [], tcb_statuses: ['UpToDate'] },
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

/** What this stand-in machine runs; an operator has it from building the manifest. */
function composeHash(log: string): string {
  const found = /"compose_hash":"([0-9a-f]{64})"/.exec(readFileSync(log, 'utf8'))
  if (found === null) throw new Error('the venue did not say what it runs')
  return found[1]!
}
