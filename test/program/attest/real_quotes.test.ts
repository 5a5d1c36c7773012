/**
 * Real quotes under Intel's root pass every check up to report data, which binds another key; and open an epoch when nothing
 * but report data and P-256 keys is exchanged and signed again.
 */
import { describe, expect, test } from 'bun:test'
import { equalBytes, toHex } from '../../../protocol/bytes'
import { parseEventLog } from '../../../protocol/tdx/event_log'
import { parseQuote } from '../../../protocol/tdx/quote'
import { decodePlatform } from '../../../protocol/vault/accounts'
import type { LoggedEvent } from '../../../protocol/vault/epochs'
import { platformAddress, registerPlatformInstructions } from '../../../protocol/vault/platforms'
import { compressedKey, evidenceOf, platformOf } from '../../../protocol/vault/quoted_fields'
import { readCertificate } from '../../../protocol/x509/certificate'
import { AttestedVault } from '../../kit/vault/attested_vault'
import { AUTHORITY, PCK, ROOT, signedChain } from '../../kit/vault/development_chain'
import { landed, OpenVault } from '../../kit/vault/open_vault'
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
