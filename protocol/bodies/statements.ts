/**
 * Describes the venue's signed statements: the certificate of its statement key, the binding of one TLS connection
 * (attestation.md "/attestation"), and receipts (engine.md "Receipts"); and an authority's statement about a machine's place.
 */
import { fromHex, toHex, u64Le, utf8 } from '../bytes'
import { ascii, bool, domain, fixed, struct, text, u64, uint, type ValueOf, word } from '../codec'
import { sha256 } from '../sha256'
import type { StatisticsPeriod, StatisticsRow } from '../wire/public'

/** SHA-256("tacit/venue/v1" ‖ genesis hash ‖ program id ‖ config account ‖ generation u64 LE), all raw 32-byte values. */
export function venueId(parts: {
  genesis_hash: Uint8Array
  program_id: Uint8Array
  config_account: Uint8Array
  generation: number
}): Uint8Array {
  const { genesis_hash, program_id, config_account } = parts
  for (const value of [genesis_hash, program_id, config_account]) {
    if (value.length !== 32) throw new RangeError('expected 32 bytes')
  }
  return sha256(utf8('tacit/venue/v1'), genesis_hash, program_id, config_account, u64Le(parts.generation))
}

/** Signed once per boot by the settlement key. */
export const STATEMENT_BODY = struct({
  domain: domain('tacit/statement1'),
  venue: fixed(32),
  statement_key: fixed(32),
  epoch: u64,
})
export type StatementBody = ValueOf<typeof STATEMENT_BODY>
export const STATEMENT_BYTES = STATEMENT_BODY.size!

/** Ties one connection's TLS key to the attested venue. */
export const BINDING_BODY = struct({
  domain: domain('tacit/binding/v1'),
  venue: fixed(32),
  /** The caller's nonce; zeros when none was sent. */
  nonce: fixed(32),
  /** SHA-256 of the TLS leaf's SubjectPublicKeyInfo. */
  spki_sha256: fixed(32),
  instance_id: fixed(20),
  epoch: u64,
  slot: u64,
})
export type BindingBody = ValueOf<typeof BINDING_BODY>
export const BINDING_BYTES = BINDING_BODY.size!

/** States that a command is in the journal. */
export const RECEIPT_BODY = struct({
  domain: domain('tacit/receipt/v1'),
  venue: fixed(32),
  epoch: u64,
  /** Journal seq of the last record of the group. */
  seq: u64,
  /** Journal hash-chain head after the group. */
  head: fixed(32),
  root: fixed(32),
})

/** `registry`: the provider lists the host as its own. `inspected`: a person has looked at the machine. */
export const LOCATION_LEVELS = ['registry', 'inspected'] as const
export type LocationLevel = (typeof LOCATION_LEVELS)[number]

/**
 * The statement of an authority about the place of one machine (attestation.md "Location"), keyed by PPID, so that
 * it is about hardware, and bound to the instance, so that it is about this deployment on it.
 */
const LOCATION = struct({
  domain: domain('tacit/location/1'),
  ppid: fixed(16),
  /** Zeros when the machine has none. */
  instance_id: fixed(20),
  level: word(LOCATION_LEVELS, 1),
  /** Unix seconds; the statement holds from `issued_s` up to and including `expires_s`. */
  issued_s: u64,
  expires_s: u64,
  site: ascii(32),
})
export type LocationBody = ValueOf<typeof LOCATION>
export const LOCATION_BYTES = LOCATION.size!
export const { encode: encodeLocation, decode: decodeLocation } = LOCATION

const LOG_HEAD = struct({
  domain: domain('tacit/loc-log/1'),
  /** Number of statements. */
  size: u64,
  /** Root of the tree over them. */
  root: fixed(32),
})
export const LOG_HEAD_BYTES = LOG_HEAD.size!
export const { encode: encodeLogHead, decode: decodeLogHead } = LOG_HEAD

const ROW = struct({
  domain: domain('tacit/statrow/v1'),
  venue: fixed(32),
  symbol: text,
  /** Seconds that the row covers. */
  period_s: uint,
  start_unix_s: uint,
  /** False where too few accounts took part; every number is 0 then. */
  shown: bool,
  /** Quote units per whole base token. */
  open: u64,
  high: u64,
  low: u64,
  close: u64,
  /** Base units. */
  volume: u64,
  auctions: uint,
  /** Hash of the row before; zeros for the first. */
  previous: fixed(32),
})

export const PERIOD_S = { hour: 3_600, day: 86_400 } as const satisfies Record<StatisticsPeriod, number>

/** The bytes that are hashed, and signed with the statement key. @throws RangeError for a number that is none */
export function statisticsRowBody(
  venue: Uint8Array,
  symbol: string,
  period: StatisticsPeriod,
  row: Omit<StatisticsRow, 'hash'>,
): Uint8Array {
  const { auctions, close, high, low, open, previous, start_unix_s, volume } = row
  return ROW.encode({
    venue,
    symbol,
    period_s: PERIOD_S[period],
    start_unix_s,
    shown: auctions !== null,
    open: BigInt(open ?? 0),
    high: BigInt(high ?? 0),
    low: BigInt(low ?? 0),
    close: BigInt(close ?? 0),
    volume: BigInt(volume ?? 0),
    auctions: auctions ?? 0,
    previous: fromHex(previous, 32)!,
  })
}

/** The row with its hash. */
export function sealStatisticsRow(
  venue: Uint8Array,
  symbol: string,
  period: StatisticsPeriod,
  row: Omit<StatisticsRow, 'hash'>,
): StatisticsRow {
  return { ...row, hash: toHex(sha256(statisticsRowBody(venue, symbol, period, row))) }
}
