/** The machine of the fuzzer's worlds. Only what it signed is genuine: its certificates, and the quotes that it issued. */
import { concatBytes, toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { developmentChain, PlatformKey } from '../../kit/vault/development_chain'
import { QuotingMachine } from '../../kit/vault/quoting_machine'

export const MACHINE = new QuotingMachine()
/** Certificates of the machine: the one that quotes, and a second one. */
export const CERTIFICATES = [
  MACHINE.machine.chain,
  developmentChain({}, {}, new PlatformKey('second certificate')),
]

/** Report data (hex) by the evidence that carries it. */
const issued = new Map<string, string>()

/** Bytes of an opening behind its auth data and before its log. */
const OPENING_BYTES = 217
const SIGNED_AT = 613

/** Where the fields of venue and journal begin in an opening's data; its length where there are none. */
export function openingAt(data: Uint8Array): number {
  const auth_at = SIGNED_AT + data[611]! + 256 * data[612]!
  const at = auth_at + 1 + data[auth_at]!
  return Number.isNaN(at) || at + OPENING_BYTES > data.length ? data.length : at
}

/** What hardware and log say in an opening's data. */
function evidenceIn(data: Uint8Array): string {
  const at = openingAt(data)
  return toHex(concatBytes(sha256(data.slice(0, at)), sha256(data.slice(at + OPENING_BYTES))))
}

export const issue = (data: Uint8Array, report_data: Uint8Array): void =>
  void issued.set(evidenceIn(data), toHex(report_data))

export const isIssued = (data: Uint8Array, report_data: Uint8Array): boolean =>
  issued.get(evidenceIn(data)) === toHex(report_data)
