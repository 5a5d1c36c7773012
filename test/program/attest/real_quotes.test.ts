/**
 * Real quotes under Intel's root pass every check up to report data, which binds another key; and open an epoch when nothing
 * but report data and P-256 keys is exchanged and signed again.
 */

import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { equalBytes, toHex, utf8 } from '../../../protocol/bytes'
import { INTEL_ROOT_KEY } from '../../../protocol/tdx/collateral'
import { parseEventLog } from '../../../protocol/tdx/event_log'
import { parseQuote } from '../../../protocol/tdx/quote'
import { decodePlatform } from '../../../protocol/vault/accounts'
import {
  compressedKey,
  epochReportData,
  evidenceOf,
  type LoggedEvent,
  platformOf,
} from '../../../protocol/vault/epochs'
import { platformAddress, registerPlatformInstructions } from '../../../protocol/vault/platforms'
import { readCertificate } from '../../../protocol/x509/certificate'
import { issueAuthorities, signQuote, startQuotingEnclave } from '../../../sandbox/enclave/authorities'
import { loadKeys } from '../../../sandbox/enclave/keys'
import { CPU_SVN, FMSPC, measureBoot, PCE_SVN, PPID } from '../../../sandbox/enclave/machine'
import { AttestedVault } from '../../kit/vault/attested_vault'
import { AUTHORITY, PCK, ROOT, signedChain } from '../../kit/vault/development_chain'
import { bytes32, errorOf, landed, OpenVault } from '../../kit/vault/open_vault'
import type { Machine } from '../../kit/vault/quoting_machine'
import { HAVE_QUOTES, readAnswer, realQuotes } from '../../kit/verify/real_quotes'

/** Events of register 3 as the program takes them. */
const logOf = (text: string): LoggedEvent[] =>
  parseEventLog(text)
    .filter(({ imr }) => imr === 3)
    .map(({ event, event_payload }) => ({ name: new TextEncoder().encode(event), payload: event_payload }))

type Real = { name: string; quote: () => Uint8Array; log?: () => LoggedEvent[] }

const answered = (folder: string): Pick<Real, 'quote' | 'log'> => ({
  quote: () => new Uint8Array(Buffer.from(readAnswer(folder).quote, 'hex')),
  log: () => logOf(readAnswer(folder).event_log),
})
const QUOTES: Real[] = [
  { name: 'the TD 1.0 sample, without a log', quote: () => realQuotes()[0]!.quote },
  { name: 'dstack 0.5', ...answered('dstack-0.5-90c06f') },
  { name: 'dstack 0.6', ...answered('dstack-0.6-lite') },
]

/** What the certificate says, as the program itself reads it under Intel's root. */
function machineOf(chain: Machine['chain']): Machine {
  const own = new AttestedVault()
  own.announce({ list: 'attestation_root' }, chain.root_key)
  landed(own.register(chain))
  const record = own.chain.account(platformAddress(own.vault.program, chain.key))!
  const { ppid, fmspc, components, pce_svn } = decodePlatform(record.data)!
  return { chain, ppid, fmspc, components, pce_svn }
}

/** The bytes with one key for another. */
function exchanged(bytes: Uint8Array, old: Uint8Array, next: Uint8Array): Uint8Array {
  const at = Buffer.from(bytes).indexOf(old)
  expect(at).toBeGreaterThan(0)
  const changed = bytes.slice()
  changed.set(next, at)
  return changed
}

describe.if(HAVE_QUOTES)('a real quote', () => {
  for (const { name, quote, log } of QUOTES) {
    test(`of ${name}, untouched under Intel’s root`, () => {
      const parsed = parseQuote(quote())
      const machine = machineOf(platformOf(parsed.pck_chain))
      const events = log?.() ?? []
      const evidence = { ...evidenceOf(parsed), log: events }
      const { signed, qe_report, auth_data } = evidence
      const own = new AttestedVault({ signed, qe_report, auth_data, log: events }, machine, {
        pck: PCK,
        root: machine.chain.root_key,
      })
      const outcome = own.outcome({ fields: evidence })
      // The sample has no log, and nothing extended its register: everything before the claims passes.
      expect(outcome).toBe(log === undefined ? 'missing_event' : 'wrong_report_data')
      const flipped = { ...evidence, signed: signed.with(60, signed[60]! ^ 1) }
      expect(own.outcome({ fields: flipped })).toBe('custom 2')
    })

    test.if(log !== undefined)(`of ${name}, with report data and keys exchanged`, () => {
      const parsed = parseQuote(quote())
      const real = platformOf(parsed.pck_chain)
      const machine = machineOf(real)
      const [leaf, authority] = parsed.pck_chain.map((der) => readCertificate(der))
      const chain = signedChain(
        exchanged(real.leaf, leaf!.public_key, PCK.point),
        exchanged(real.authority, authority!.public_key, AUTHORITY.point),
      )
      const { signed, qe_report, auth_data } = evidenceOf(parsed)
      const evidence = { signed, qe_report, auth_data, log: log!() }
      const own = new AttestedVault(evidence, { ...machine, chain }, { pck: PCK, root: ROOT.compressed })
      const before = signed.length - 64
      const opened = own.fields().signed
      // Only the report data differs: the log replays to the register as it is.
      expect(equalBytes(opened.slice(0, before), signed.slice(0, before))).toBe(true)
      const { units, bytes } = landed(own.open())
      expect(units).toBeLessThan(250_000n)
      expect(bytes).toBeLessThan(2_900)
    })
  }
})

test.if(HAVE_QUOTES)('every certificate names one root, whose key the operator announces', () => {
  const roots = QUOTES.map(({ quote }) =>
    toHex(compressedKey(readCertificate(parseQuote(quote()).pck_chain[2]!).public_key)),
  )
  expect(new Set(roots).size).toBe(1)
  const vault = new OpenVault()
  const chain = platformOf(parseQuote(QUOTES[0]!.quote()).pck_chain)
  const fields = { ...chain, program: vault.program, payer: vault.chain.payer.key }
  const [verify, registration] = registerPlatformInstructions(fields)
  vault.chain.before = [verify]
  expect(vault.chain.outcome(registration)).toBe('wrong_owner')
})

const folder = mkdtempSync(join(tmpdir(), 'stand-in-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const compose_hash = bytes32('stand-in build')
const keys = loadKeys(folder, compose_hash)
const authorities = issueAuthorities(folder, keys, Date.now())
const enclave = startQuotingEnclave(authorities, keys.pck)
const boot = measureBoot(keys.app_id, compose_hash, keys.instance_id)

/** As the guest agent answers: a whole quote and its log. */
function evidence(report_data: Uint8Array, machine: { debug?: boolean; out_of_date?: boolean } = {}) {
  const facts = { registers: boot.registers, compose_hash, report_data, debug: false, out_of_date: false }
  const quote = parseQuote(signQuote(enclave, { ...facts, ...machine }))
  const log = parseEventLog(boot.stripped_log)
    .filter(({ imr }) => imr === 3)
    .map(({ event, event_payload }) => ({ name: utf8(event), payload: event_payload }))
  return { quote, fields: { ...evidenceOf(quote), log } }
}

function standIn() {
  const { quote, fields } = evidence(new Uint8Array(64))
  const chain = platformOf(quote.pck_chain)
  const machine = { chain, ppid: PPID, fmspc: FMSPC, components: CPU_SVN, pce_svn: PCE_SVN }
  return new AttestedVault(fields, machine, { pck: PCK, root: chain.root_key })
}

/** What the quote of the next boot must bind. */
function reportData(own: AttestedVault): Uint8Array {
  const { settlement_signer, boot_nonce, epoch } = own.fields()
  return epochReportData({ venue: own.chain.config().venue, epoch, settlement_signer, boot_nonce })
}

test('an epoch opens with the quote as the machine answered it', () => {
  const own = standIn()
  for (const epoch of [1, 2]) {
    const { fields } = evidence(reportData(own))
    landed(own.open({ fields }))
    expect(own.chain.config()).toMatchObject({ epoch, compose_hash })
  }
})

test('its debugging, an outdated module and another purpose are refused', () => {
  const own = standIn()
  const refusal = (data: Uint8Array, machine = {}): string =>
    own.outcome({ fields: evidence(data, machine).fields })
  expect(refusal(reportData(own), { debug: true })).toBe('wrong_td_attributes')
  expect(refusal(reportData(own), { out_of_date: true })).toBe('tee_tcb_below_minimum')
  expect(refusal(new Uint8Array(64))).toBe('wrong_report_data')
})

test('no vault under Intel’s root registers the machine', () => {
  const own = new AttestedVault()
  const root = Uint8Array.of(2 + (INTEL_ROOT_KEY.at(-1)! & 1), ...INTEL_ROOT_KEY.slice(-64, -32))
  own.announce({ list: 'attestation_root' }, root)
  const { quote } = evidence(new Uint8Array(64))
  expect(errorOf(own.register(platformOf(quote.pck_chain)))).toBe('wrong_root')
})
