/**
 * Real quotes pass every check up to report data; and a holder of every key can open only announced, late and visible epochs.
 */

import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { VerificationFailed } from '../../../client/verified_venue'
import { KEY_PATHS } from '../../../enclave/contract'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { openChain } from '../../../engine/chain/open_chain'
import type { EngineConfig } from '../../../engine/config'
import type { ChainPort, HashPort } from '../../../engine/ports'
import { PublicFacts } from '../../../engine/reads/public_facts'
import { TransparencyReads } from '../../../engine/reads/transparency'
import { decodeBase58 } from '../../../protocol/base58'
import { equalBytes, toHex, utf8 } from '../../../protocol/bytes'
import { EMPTY_SPENT_SUBTREES } from '../../../protocol/notes/merkle_tree'
import { publicKeyOf } from '../../../protocol/sign'
import { INTEL_ROOT_KEY } from '../../../protocol/tdx/collateral'
import { parseEventLog } from '../../../protocol/tdx/event_log'
import { parseQuote } from '../../../protocol/tdx/quote'
import { decodePlatform } from '../../../protocol/vault/accounts'
import { type AnnouncedTopic, announceInstruction } from '../../../protocol/vault/admin'
import {
  compressedKey,
  epochReportData,
  evidenceOf,
  type LoggedEvent,
  platformAddress,
  platformOf,
  registerPlatformInstructions,
} from '../../../protocol/vault/epochs'
import { readCertificate } from '../../../protocol/x509/certificate'
import { issueAuthorities, signQuote, startQuotingEnclave } from '../../../sandbox/enclave/authorities'
import { CPU_SVN, FMSPC, loadKeys, measureBoot, PCE_SVN, PPID } from '../../../sandbox/enclave/machine'
import { simulatedMachine } from '../../../sandbox/enclave/simulated_machine'
import { openOn } from '../../enclave/machine'
import { AUTHORITY, PCK, ROOT, signedChain } from '../../kit/vault/development_chain'
import { AttestedVault, bytes32, errorOf, landed, OpenVault } from '../../kit/vault/open_vault'
import type { Machine } from '../../kit/vault/quoting_machine'
import { HAVE_QUOTES, readAnswer, realQuotes } from '../../kit/verify/sign_any_quote'
import { landOn, openSite, type Site } from '../../kit/verify/site'

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

/** The certificate's fields, as the program itself reads them under Intel's root. */
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

/** Values that the quote of the next boot must bind. */
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

const EXIT_DELAY_S = 7 * 86_400
const OWN_BUILD = new Uint8Array(32).fill(0xcd)

async function reasons(site: Site, unixMs = Date.now): Promise<string[]> {
  const error = await site.connect({}, { unixMs }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (error === undefined) return []
  if (!(error instanceof VerificationFailed)) throw error
  return error.transcript.checks
    .filter(({ result }) => result === 'fail')
    .map(({ name, reason }) => `${name}: ${reason}`)
}

/** The route's answer over this reading of the chain. */
async function transparencyOf(chain: ChainPort, folder: string) {
  const first = { config: await chain.readConfig(), mints: [] }
  const settings = { instruments: [], mints: [], auditor_key: '' } as unknown as EngineConfig
  const clock = { monotonicMs: () => 0, unixMs: () => chain.view().unix_ms }
  const facts = new PublicFacts(folder, new Uint8Array(32).fill(5))
  const parts = { settings, venue: new Uint8Array(32), chain, clock, facts, exits: () => [] }
  const answer = await new TransparencyReads(parts, first).read()
  facts.close()
  return answer
}

/** The builds that hold, and whether another build and root are announced for later. */
async function shownOf(chain: ChainPort, folder: string) {
  const { admin, announced } = await transparencyOf(chain, folder)
  const later = admin.pending.map(({ action }) => action)
  const builds = announced.filter(({ list }) => list === 'build').map(({ id }) => id)
  return { later: later.includes('build') && later.includes('attestation_root'), builds }
}

/** An opening with the port's keys and quote, and the end of it. */
const openerOf = (port: ChainPort) => async (): Promise<string> => {
  const { epoch, journal_seq: seq, journal_head: head } = await port.readConfig()
  const boot_nonce = crypto.getRandomValues(new Uint8Array(16))
  const boot = { epoch: epoch + 1, boot_nonce, compose_hash: OWN_BUILD, seq, head, restore: false }
  const spentRoot = async () => EMPTY_SPENT_SUBTREES.at(-1)
  return port
    .openEpoch({ ...boot, spentRoot, passes: async () => true }, async () => {})
    .then(
      () => 'opened',
      (error: Error) => error.message,
    )
}

/** By the admin key, but for the epoch authority, which is the venue's own. */
async function announceAll({ chain }: Site, topics: (AnnouncedTopic & { value?: Uint8Array })[]) {
  const admin = await createKeyPairSignerFromPrivateKeyBytes(chain.admin_seed)
  const key = decodeBase58(admin.address, 32)!
  const fields = { program: chain.program_id!, admin: key, payer: key, action: 'announce' } as const
  for (const one of topics.filter(({ list }) => list !== 'epoch_authority'))
    await landOn(chain, admin, toInstruction(announceInstruction({ ...fields, ...one }), [admin]))
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(10)
}

test('KMS keys and admin key open an epoch only twice the exit delay after clients refuse the venue for it', async () => {
  const site = await openSite()
  const { chain } = site
  const folder = mkdtempSync(join(tmpdir(), 'tacit-governed-'))
  const program = chain.program_id!
  // Every key that the KMS derives is the same for another build of this app.
  const kms = await openOn(site.machine.agent)
  const own = simulatedMachine(OWN_BUILD)
  const settlement_seed = crypto.getRandomValues(new Uint8Array(32))
  const port = await openChain({
    rpc_urls: [chain.url],
    program_id: program,
    settlement_seed,
    authority_seed: await kms.deriveKey(KEY_PATHS.epoch_authority),
    fee_seed: await kms.deriveKey(KEY_PATHS.fees),
    quoteEpoch: own.quoteEpoch(settlement_seed),
    slot_ms: 10,
    hash: {} as HashPort,
  })
  const open = openerOf(port)
  expect(await reasons(site)).toEqual([])
  expect(await open()).toContain('wrong_root')

  await announceAll(site, own.announced)
  const [refused] = await reasons(site)
  expect(refused).toMatch(/^announced: the administrator has announced another /)
  // The lists of `/transparency` and `tacit watch-venue`.
  const now_s = port.view().unix_ms / 1_000
  const shown = () => shownOf(port, folder)
  const own_build = toHex(OWN_BUILD)
  const { builds } = await shown()
  expect(await shown()).toEqual({ later: true, builds })
  expect(builds).not.toContain(own_build)
  const later = (await port.readConfig()).announced.flatMap(({ list, next }) =>
    next ? [{ list, ...next }] : [],
  )
  for (const { from_s } of later) expect(from_s - now_s).toBeGreaterThan(2 * EXIT_DELAY_S - 600)
  expect(await open()).toContain('wrong_root')

  chain.warpTime(2 * EXIT_DELAY_S - 600)
  chain.advance(10)
  expect(await open()).toContain('wrong_root')
  await until(async () => port.view().unix_ms / 1_000 > now_s + 2 * EXIT_DELAY_S - 1_200)
  expect(await shown()).toEqual({ later: true, builds })
  chain.warpTime(1_200)
  chain.advance(10)
  await until(async () => port.view().unix_ms / 1_000 > now_s + 2 * EXIT_DELAY_S)
  // Between the end of the delay and the opening.
  const held = await shown()
  expect(held.later).toBe(false)
  expect(held.builds.toSorted()).toEqual([...builds, own_build].toSorted())
  const at_opening = () => Date.now() + (2 * EXIT_DELAY_S + 600) * 1_000
  expect(await reasons(site, at_opening)).toEqual([
    expect.stringMatching(/^announced: the vault does not admit/),
  ])
  expect(await open()).toBe('opened')
  expect((await port.readConfig()).settlement_signer).toEqual(publicKeyOf(settlement_seed))
  expect(await reasons(site)).toContain('settlement_signer: the vault accepts another settlement key')
  await port.close()
  await kms.close()
  await site.close()
  rmSync(folder, { recursive: true })
}, 240_000)
