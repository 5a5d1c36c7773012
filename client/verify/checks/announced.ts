/** Check 6.8: what the vault announces admits this machine, image and build, and what it admits later is expected. */
import { equalBytes, fromHex, toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { INTEL_ROOT_KEY } from '../../../protocol/tdx/collateral'
import { decodeAnnouncement } from '../../../protocol/vault/accounts'
import {
  type AnnouncedEntry,
  type AnnouncedList,
  announcedEntry,
  holdingAt,
} from '../../../protocol/vault/announcements'
import { imageId } from '../../../protocol/vault/attested_epochs'
import { compressedKey } from '../../../protocol/vault/quoted_fields'
import { readCertificate } from '../../../protocol/x509/certificate'
import { decodeBase64 } from '../json_document'
import type { VerificationPolicy } from '../policy'
import { Refused, requireThat } from '../transcript'
import { chainOf } from './chain'
import { established, type RunCheck } from './verification_case'

export const checkAnnounced: RunCheck = (verification) => {
  const { chain, policy } = chainOf(verification)
  const { quote, platform } = established(verification, 'genuine')
  const { compose_hash, app_id, key_provider } = established(verification, 'claims')
  // The vault's own state holds first.
  established(verification, 'config')
  const now_s = Math.floor(verification.now_ms / 1000)
  const entries = chain.announced.map(readEntry)
  const root = compressedKey(readCertificate(quote.pck_chain[2]!).public_key)
  requireHolding(entries, now_s, {
    attestation_root: { value: root },
    platform: { id: platform.ppid },
    fmspc_minimum: { id: platform.fmspc },
    image: { id: imageId(quote.report) },
    build: { id: compose_hash },
    app_id: { value: app_id },
    key_provider: { value: sha256(key_provider) },
  })
  const later = entries.flatMap((one) =>
    one.next !== undefined && one.next.from_s > now_s ? [{ ...one, next: one.next }] : [],
  )
  const unexpected = later.find((one) => !isExpected(one, policy.pending_actions, verification.policy))
  if (unexpected !== undefined)
    throw new Refused(`the administrator has announced another ${unexpected.list}, ${described(unexpected)}`)
  const held = (list: AnnouncedList) =>
    entries.filter((one) => one.list === list && holdingAt(one, now_s) !== undefined)
  return {
    attestation_root: equalBytes(root, compressedKey(INTEL_ROOT_KEY))
      ? "Intel's"
      : 'of a development machine',
    builds: held('build')
      .map(({ id }) => toHex(id))
      .join(' '),
    machines: String(held('platform').length),
    images: String(held('image').length),
    later: later.map((one) => `${one.list} ${described(one)}`).join(', ') || 'none',
  }
}

function readEntry(data: string): AnnouncedEntry {
  const record = decodeAnnouncement(decodeBase64(data))
  if (record === undefined) throw new Refused('an announcement is malformed')
  return announcedEntry(record)
}

type Wanted = Partial<Record<AnnouncedList, { id?: Uint8Array; value?: Uint8Array }>>

/** @throws Refused naming the first list without the entry that this machine needs */
function requireHolding(entries: readonly AnnouncedEntry[], now_s: number, wanted: Wanted): void {
  for (const [list, { id = new Uint8Array(), value }] of Object.entries(wanted)) {
    const entry = entries.find((one) => one.list === list && equalBytes(one.id, id))
    const held = entry && holdingAt(entry, now_s)
    requireThat(
      held !== undefined && (value === undefined || equalBytes(held, value)),
      `the vault does not admit the ${list} of this machine any more`,
    )
  }
}

/** Builds and machines that the policy accepts anyway are no surprise. */
function isExpected(
  { list, id }: AnnouncedEntry,
  pending_actions: readonly string[],
  { compose_hashes = [], ppids = [] }: VerificationPolicy,
): boolean {
  if (pending_actions.includes(list)) return true
  const accepted = { build: compose_hashes, platform: ppids } as Partial<Record<AnnouncedList, string[]>>
  return (accepted[list] ?? []).some((text) => equalBytes(fromHex(text, id.length) ?? new Uint8Array(), id))
}

const described = ({
  id,
  next,
}: AnnouncedEntry & { next: { value: Uint8Array; from_s: number } }): string => {
  const name = toHex(id.length > 0 ? id : next.value)
  return `${name} from ${new Date(1000 * next.from_s).toISOString()}`
}
