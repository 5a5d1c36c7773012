/**
 * Measures the verification of one TDX quote beside `@phala/dcap-qvl`, in turns on the same bytes: `bun bench/verify.ts
 * [rounds]`. The quote and its collateral are made here under a development root; a real quote has the same structure and
 * the same number of signatures, and a longer revocation list. Prints a table and one JSON line per figure.
 */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { QuoteVerifier } from '@phala/dcap-qvl'
import { openCollateral, trustedRoots } from '../client/verify/tdx/collateral'
import { verifyTdxQuote, verifyUnderCollateral } from '../client/verify/verify_tdx_quote'
import { pemOfDer } from '../protocol/pem'
import { NO_FAULTS } from '../sandbox/enclave/agent'
import { issueAuthorities } from '../sandbox/enclave/authorities'
import { issueCollateral } from '../sandbox/enclave/collateral'
import { loadKeys } from '../sandbox/enclave/keys'
import { signQuote, startQuotingEnclave } from '../sandbox/enclave/sign_quote'
import { median, printTable, quantile } from './kit/figures'

const ROUNDS = Number(process.argv[2]) || 200
const WARM_UP = 30
const now_ms = Date.now()
const policy = { tcb_statuses: ['UpToDate' as const], advisories: [], tcb_evaluation_min: 0 }

function makeEvidence() {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-bench-'))
  try {
    const keys = loadKeys(folder, new Uint8Array(32))
    const authorities = issueAuthorities(folder, keys, now_ms)
    const register = new Uint8Array(48)
    const quote = signQuote(startQuotingEnclave(authorities, keys.pck), {
      registers: [register, register, register, register],
      compose_hash: new Uint8Array(32),
      debug: false,
      out_of_date: false,
      report_data: new Uint8Array(64),
    })
    return {
      quote,
      root: authorities.root,
      collateral: issueCollateral(keys, authorities, NO_FAULTS, now_ms),
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const { quote, root, collateral } = makeEvidence()
const roots = trustedRoots(pemOfDer(root, 'CERTIFICATE'))
const opened = await openCollateral(collateral, roots, now_ms)
const oracle = QuoteVerifier.newWithRootCa(Buffer.from(root))

const SUBJECTS: [name: string, verify: () => unknown][] = [
  ['this verifier, collateral opened before', () => verifyUnderCollateral(quote, opened, policy, now_ms)],
  [
    'this verifier, collateral opened each time',
    () => verifyTdxQuote(quote, collateral, roots, policy, now_ms),
  ],
  ['dcap-qvl', () => oracle.verify(Buffer.from(quote), collateral as never, Math.floor(now_ms / 1000))],
]

const wall = new Map<string, number[]>(SUBJECTS.map(([name]) => [name, []]))
const cpu = new Map<string, number>(SUBJECTS.map(([name]) => [name, 0]))
for (let round = -WARM_UP; round < ROUNDS; round++)
  for (const [name, verify] of SUBJECTS) {
    const cpu_before = process.cpuUsage()
    const started = performance.now()
    await verify()
    if (round < 0) continue
    wall.get(name)!.push(performance.now() - started)
    const { user, system } = process.cpuUsage(cpu_before)
    cpu.set(name, cpu.get(name)! + (user + system) / 1000)
  }

const digits = (value: number): number => Number(value.toPrecision(3))
const rows = SUBJECTS.map(([name]) => {
  const times = wall.get(name)!
  return [name, digits(median(times)), digits(quantile(times, 0.99)), digits(cpu.get(name)! / ROUNDS)]
})
printTable(['verification of one quote', 'median ms', 'p99 ms', 'CPU ms'], rows)
for (const [figure, median_ms, p99_ms, cpu_ms] of rows)
  console.log(JSON.stringify({ bench: 'verify', figure, median_ms, p99_ms, cpu_ms, rounds: ROUNDS }))
