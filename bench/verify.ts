/**
 * Measures the verification of one TDX quote beside `@phala/dcap-qvl`, in turns on the same bytes: `bun bench/verify.ts
 * [rounds]`. The quote and its collateral are made here under a development root; a real quote has the same structure and
 * the same number of signatures, and a longer revocation list. Prints a table and one JSON line per figure.
 */

import { QuoteVerifier } from '@phala/dcap-qvl'
import { openCollateral, trustedRoots } from '../client/verify/tdx/collateral'
import { verifyTdxQuote, verifyUnderCollateral } from '../client/verify/verify_tdx_quote'
import { pemOfDer } from '../protocol/pem'
import { NO_FAULTS } from '../sandbox/enclave/agent'
import { issueAuthorities } from '../sandbox/enclave/authorities'
import { issueCollateral } from '../sandbox/enclave/collateral'
import { loadKeys } from '../sandbox/enclave/keys'
import { signQuote, startQuotingEnclave } from '../sandbox/enclave/sign_quote'
import { type Figure, inFolder, median, quantile, report } from './kit/figures'

const ROUNDS = Number(process.argv[2]) || 200
const WARM_UP = 30
const now_ms = Date.now()
const policy = { tcb_statuses: ['UpToDate' as const], advisories: [], tcb_evaluation_min: 0 }

const { quote, root, collateral } = await inFolder('verify', (folder) => {
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
  const collateral = issueCollateral(keys, authorities, NO_FAULTS, now_ms)
  return { quote, root: authorities.root, collateral }
})
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

const figures = SUBJECTS.flatMap(([name]): Figure[] => {
  const times = wall.get(name)!
  return [
    { figure: `${name}, p50`, value: median(times), unit: 'ms' },
    { figure: `${name}, p99`, value: quantile(times, 0.99), unit: 'ms' },
    { figure: `${name}, processor time`, value: cpu.get(name)! / ROUNDS, unit: 'ms' },
  ]
})
report('verify', figures)
