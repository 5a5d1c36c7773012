/** Check 6.8: what the vault announces admits this machine, image and build, and what it admits later is expected. */
import { equalBytes, fromHex, toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { INTEL_ROOT_KEY } from '../../../protocol/tdx/collateral'
import { MODULE_MAJOR } from '../../../protocol/tdx/td_rules'
import { decodeAnnouncement } from '../../../protocol/vault/accounts'
import {
  type AnnouncedEntry,
  type AnnouncedList,
  announcedEntry,
  holdingAt,
  minimumValue,
  reachesMinimum,
} from '../../../protocol/vault/announcements'
import { imageId } from '../../../protocol/vault/attested_epochs'
import { compressedKey } from '../../../protocol/vault/quoted_fields'
import { readCertificate } from '../../../protocol/x509/certificate'
import { decodeBase64 } from '../json_document'
import type { VerificationPolicy } from '../policy'
import type { GenuineQuote } from '../tdx/genuine_quote'
import { Refused, requireThat } from '../transcript'
import { chainOf } from './chain'
import { established, type RunCheck } from './verification_case'

export const checkAnnounced: RunCheck = (verification) => {
  const { chain, policy } = chainOf(verification)
  const genuine = established(verification, 'genuine')
  const { quote, platform } = genuine
  const { compose_hash, app_id, key_provider } = established(verification, 'claims')
  // The vault's own state holds first.
  established(verification, 'config')
  const now_s = Math.floor(verification.now_ms / 1000)
  const entries = chain.announced.map(readEntry)
  const root = compressedKey(readCertificate(quote.pck_chain[2]!).public_key)
  requireHolding(entries, now_s, {
    attestation_root: { value: root },
    platform: { id: platform.ppid },
    image: { id: imageId(quote.report) },
    build: { id: compose_hash },
    app_id: { value: app_id },
    key_provider: { value: sha256(key_provider) },
  })
  requireVersions(entries, now_s, genuine)
  const later = entries.flatMap((one) =>
    one.next !== undefined && one.next.from_s > now_s ? [{ ...one, next: one.next }] : [],
  )
  const isUnexpected = (one: AnnouncedEntry): boolean =>
    !isExpected(one, policy.pending_actions, verification.policy)
  const unexpected = later.find(isUnexpected)
  if (unexpected !== undefined)
    throw new Refused(`the administrator has announced another ${unexpected.list}, ${described(unexpected)}`)
  const holding = entries.filter((one) => holdingAt(one, now_s) !== undefined)
  // Its delay has passed: it may open the next epoch at any moment.
  const surplus = holding.find(
    (one) =>
      isPinned(one.list, verification.policy) && !isOwn(one, genuine, compose_hash) && isUnexpected(one),
  )
  if (surplus !== undefined)
    throw new Refused(
      `the vault admits another ${surplus.list}, ${toHex(surplus.id)}, that the policy does not name`,
    )
  const held = (list: AnnouncedList): string =>
    holding
      .filter((one) => one.list === list)
      .map(({ id }) => toHex(id))
      .join(' ')
  return {
    attestation_root: equalBytes(root, compressedKey(INTEL_ROOT_KEY))
      ? "Intel's"
      : 'of a development machine',
    builds: held('build'),
    machines: held('platform'),
    images: held('image'),
    later: later.map((one) => `${one.list} ${described(one)}`).join(', ') || 'none',
  }
}

function readEntry(data: string): AnnouncedEntry {
  const record = decodeAnnouncement(decodeBase64(data))
  if (record === undefined) throw new Refused('an announcement is malformed')
  return announcedEntry(record)
}

type Wanted = Partial<Record<AnnouncedList, { id?: Uint8Array; value?: Uint8Array }>>

/** The value that holds. @throws Refused when none or another one does */
function requireHeld(
  entries: readonly AnnouncedEntry[],
  now_s: number,
  list: string,
  { id = new Uint8Array(), value }: { id?: Uint8Array; value?: Uint8Array },
): Uint8Array {
  const entry = entries.find((one) => one.list === list && equalBytes(one.id, id))
  const held = entry && holdingAt(entry, now_s)
  requireThat(
    held !== undefined && (value === undefined || equalBytes(held, value)),
    `the vault does not admit the ${list} of this machine any more`,
  )
  return held
}

/** @throws Refused naming the first list without the entry that this machine needs */
function requireHolding(entries: readonly AnnouncedEntry[], now_s: number, wanted: Wanted): void {
  for (const [list, one] of Object.entries(wanted)) requireHeld(entries, now_s, list, one)
}

/** The minima as an opening would be judged by them now: one may have been raised since. @throws Refused */
function requireVersions(
  entries: readonly AnnouncedEntry[],
  now_s: number,
  { quote, platform }: GenuineQuote,
): void {
  const { tee_tcb_svn, tee_tcb_svn_15 = tee_tcb_svn } = quote.report
  const { fmspc, cpu_svn, pce_svn } = platform
  const judged: [AnnouncedList, Uint8Array, { id?: Uint8Array }][] = [
    ['fmspc_minimum', minimumValue(Uint8Array.from(cpu_svn), pce_svn), { id: fmspc }],
    ['tee_tcb_minimum', minimumValue(tee_tcb_svn, 0), {}],
    ['tee_tcb_minimum', minimumValue(tee_tcb_svn_15, 0), {}],
    ['qe_minimum', minimumValue(new Uint8Array(16), quote.qe_report.isv_svn), {}],
  ]
  for (const [list, value, topic] of judged) {
    const minimum = requireHeld(entries, now_s, list, topic)
    // SVNs of different major versions of the module cannot be compared.
    const comparable = list !== 'tee_tcb_minimum' || value[MODULE_MAJOR] === minimum[MODULE_MAJOR]
    requireThat(
      comparable && reachesMinimum(value, minimum),
      `this machine is below the ${list} of the vault`,
    )
  }
}

/** Builds and machines, which a policy can name. */
const acceptedOf = ({ compose_hashes, ppids }: VerificationPolicy) =>
  ({ build: compose_hashes, platform: ppids }) as Partial<Record<AnnouncedList, string[]>>

const isPinned = (list: AnnouncedList, policy: VerificationPolicy): boolean =>
  acceptedOf(policy)[list] !== undefined

/** What this machine rests on itself is judged by checks 3.1 and 7.1. */
const isOwn = ({ list, id }: AnnouncedEntry, { platform }: GenuineQuote, build: Uint8Array): boolean =>
  equalBytes(id, list === 'build' ? build : platform.ppid)

/** Builds and machines that the policy accepts anyway are no surprise. */
function isExpected(
  { list, id }: AnnouncedEntry,
  pending_actions: readonly string[],
  policy: VerificationPolicy,
): boolean {
  if (pending_actions.includes(list)) return true
  const accepted = acceptedOf(policy)[list] ?? []
  return accepted.some((text) => equalBytes(fromHex(text, id.length) ?? new Uint8Array(), id))
}

const described = ({
  id,
  next,
}: AnnouncedEntry & { next: { value: Uint8Array; from_s: number } }): string => {
  const name = toHex(id.length > 0 ? id : next.value)
  return `${name} from ${new Date(1000 * next.from_s).toISOString()}`
}
