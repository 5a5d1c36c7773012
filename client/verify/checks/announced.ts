/** Check 6.8: what the vault announces admits this machine, image and build, and what it admits later is expected. */
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes, fromHex, toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { INTEL_ROOT_KEY } from '../../../protocol/tdx/collateral'
import type { TdReport } from '../../../protocol/tdx/quote'
import { MODULE_MAJOR } from '../../../protocol/tdx/td_rules'
import { decodeAnnouncement } from '../../../protocol/vault/accounts'
import {
  type AnnouncedEntry,
  type AnnouncedList,
  announcedEntry,
  holdingAt,
  minimumValue,
  reachesMinimum,
} from '../../../protocol/vault/admin'
import { compressedKey, imageId } from '../../../protocol/vault/epochs'
import { readCertificate } from '../../../protocol/x509/certificate'
import { decodeBase64 } from '../json_document'
import type { VerificationPolicy } from '../policy'
import type { GenuineQuote } from '../tdx/genuine_quote'
import { Refused, requireThat } from '../transcript'
import { chainOf } from './chain'
import { established, type RunCheck, type VerificationCase } from './verification_case'

export const checkAnnounced: RunCheck = (verification) => {
  const { chain, policy } = chainOf(verification)
  const { quote, platform } = established(verification, 'genuine')
  const { compose_hash } = established(verification, 'claims')
  // The vault's own state holds first.
  established(verification, 'config')
  const now_s = Math.floor(verification.now_ms / 1000)
  const entries = chain.announced.map(readEntry)
  const root = requireAdmitted(entries, now_s, verification)
  const accepted = acceptedOf(verification.policy, quote.report)
  const isUnexpected = ({ list, subject }: Admitted): boolean =>
    !policy.pending_actions.includes(list) && !accepted[list]?.includes(subject)
  const later = entries.flatMap(({ list, id, next }) => {
    if (next === undefined || next.from_s <= now_s) return []
    const from = new Date(1000 * next.from_s).toISOString()
    return [{ list, subject: subjectOf(list, id, next.value), from }]
  })
  const unexpected = later.find(isUnexpected)
  if (unexpected !== undefined)
    throw new Refused(
      `the administrator has announced another ${unexpected.list}, ${unexpected.subject} from ${unexpected.from}`,
    )
  const holding = entries.flatMap((one): Admitted[] => {
    const value = holdingAt(one, now_s)
    return value === undefined ? [] : [{ list: one.list, subject: subjectOf(one.list, one.id, value) }]
  })
  const own = [compose_hash, platform.ppid, imageId(quote.report)].map(toHex)
  // Its delay has passed: it may open the next epoch at any moment, or sign its opening.
  const surplus = holding.find(
    (one) => accepted[one.list] !== undefined && !own.includes(one.subject) && isUnexpected(one),
  )
  if (surplus !== undefined)
    throw new Refused(
      `the vault admits another ${surplus.list}, ${surplus.subject}, that the policy does not name`,
    )
  const held = (list: AnnouncedList): string =>
    holding
      .filter((one) => one.list === list)
      .map(({ subject }) => subject)
      .join(' ')
  return {
    attestation_root: equalBytes(root, compressedKey(INTEL_ROOT_KEY))
      ? "Intel's"
      : 'of a development machine',
    builds: held('build'),
    machines: held('platform'),
    images: held('image'),
    epoch_authority: held('epoch_authority'),
    later: later.map(({ list, subject, from }) => `${list} ${subject} from ${from}`).join(', ') || 'none',
  }
}

/** The machine may open an epoch, as far as its quote decides. Returns the root of its platform. @throws Refused, Skipped */
export function requireAdmitted(
  entries: readonly AnnouncedEntry[],
  now_s: number,
  verification: Pick<VerificationCase, 'established'>,
): Uint8Array {
  const genuine = established(verification, 'genuine')
  const { compose_hash, app_id, key_provider } = established(verification, 'claims')
  const { quote, platform } = genuine
  const root = compressedKey(readCertificate(quote.pck_chain[2]!).public_key)
  requireHolding(entries, now_s, {
    attestation_root: { value: root },
    platform: { id: platform.ppid },
    image: { id: imageId(quote.report) },
    build: { id: compose_hash },
    app_id: { value: app_id },
    key_provider: { value: sha256(key_provider) },
    epoch_authority: {},
  })
  requireVersions(entries, now_s, genuine)
  return root
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

/** What an entry admits: a member of a list, else a list's value. */
type Admitted = { list: AnnouncedList; subject: string }

/** As a policy names it. */
const subjectOf = (list: AnnouncedList, id: Uint8Array, value: Uint8Array): string =>
  list === 'epoch_authority' ? encodeBase58(value) : toHex(id.length > 0 ? id : value)

/**
 * What a policy names, by list; undefined for a list of which it names nothing. What this machine is itself is judged by
 * checks 3.1, 4.1 and 7.1. An image is named by its registers: a hash of an image leads to them only with the machine's document.
 */
function acceptedOf(
  { compose_hashes, ppids, registers, os_image_hashes, chain }: VerificationPolicy,
  report: TdReport,
): Partial<Record<AnnouncedList, string[]>> {
  const images = registers?.map(({ mrtd, rtmr0, rtmr1, rtmr2, xfam }) => {
    const register = (text: string) => fromHex(text, 48)!
    const rtmr = [register(rtmr0), register(rtmr1), register(rtmr2), report.rtmr[3]] as const
    const features = xfam === undefined ? report.xfam : fromHex(xfam, 8)!
    return toHex(imageId({ mr_td: register(mrtd), rtmr, xfam: features }))
  })
  const lists = {
    build: compose_hashes,
    platform: ppids,
    image: images ?? (os_image_hashes && []),
    epoch_authority: chain?.epoch_authorities,
  }
  return Object.fromEntries(Object.entries(lists).filter(([, names]) => names !== undefined))
}
