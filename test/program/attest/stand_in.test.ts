/** Quotes of the sandbox machine open an epoch by the same code of the program, under the development root only. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { utf8 } from '../../../protocol/bytes'
import { INTEL_ROOT_KEY } from '../../../protocol/tdx/collateral'
import { parseEventLog } from '../../../protocol/tdx/event_log'
import { parseQuote } from '../../../protocol/tdx/quote'
import { epochReportData } from '../../../protocol/vault/epochs'
import { evidenceOf, platformOf } from '../../../protocol/vault/quoted_fields'
import { issueAuthorities } from '../../../sandbox/enclave/authorities'
import { loadKeys } from '../../../sandbox/enclave/keys'
import { CPU_SVN, FMSPC, measureBoot, PCE_SVN, PPID } from '../../../sandbox/enclave/machine'
import { signQuote, startQuotingEnclave } from '../../../sandbox/enclave/sign_quote'
import { AttestedVault } from '../../kit/vault/attested_vault'
import { PCK } from '../../kit/vault/development_chain'
import { bytes32, errorOf, landed } from '../../kit/vault/open_vault'

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
