/** Checks 2.4, 2.5 and 6.1 to 6.8: the app's keys, settlement signer, vault, administrator, and the vault's announcements. */
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { type BindingBody, venueId } from '../../../protocol/bodies/statements'
import { equalBytes, fromHex, toHex } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { INTEL_ROOT_KEY } from '../../../protocol/tdx/collateral'
import { readKeyProvider } from '../../../protocol/tdx/mr_config_id'
import { MODULE_MAJOR, type TdReport } from '../../../protocol/tdx/quote'
import { type ConfigAccount, decodeAnnouncement, decodeConfig } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
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
import { CHAIN_LAG_SLOTS_MAX } from '../../limits'
import { LOADER_V3 } from '../collect/collect_chain'
import type { ChainRecord } from '../evidence_bundle'
import { decodeBase64 } from '../json_document'
import type { ChainPolicy, KmsPolicy, PendingAction, VerificationPolicy } from '../policy'
import type { GenuineQuote } from '../tdx/genuine_quote'
import { Refused, requireThat } from '../transcript'
import {
  established,
  type RunCheck,
  type RunMachineCheck,
  Skipped,
  type VerificationCase,
} from './verification_case'

/** Check 2.4: the app id, which without a KMS the host chooses. */
export const checkAppId: RunMachineCheck = (verification) => {
  const { app_id } = established(verification, 'claims')
  const { app_ids } = verification.policy
  const measured = toHex(app_id)
  if (app_ids === undefined) throw new Skipped('app_unpinned', `; measured: ${measured}`)
  requireThat(app_ids.includes(measured), `app id ${measured} is not pinned`)
  verification.established.pinned_app = app_id
  return { app_id: measured }
}

/** Check 2.5: a provider's name says nothing about who runs it, so name and id are compared. */
export const checkKeyProvider: RunMachineCheck = (verification) => {
  const { key_providers } = verification.policy
  const measured = readKeyProvider(established(verification, 'claims'))
  if (measured === undefined) throw new Refused('the measured key provider is malformed')
  const { name, id } = measured
  if (key_providers === undefined)
    throw new Skipped('key_provider_unpinned', `; measured: ${JSON.stringify(measured)}`)
  const pinned = key_providers.some((one) => one.name === name && one.id === id)
  requireThat(pinned, `key provider ${JSON.stringify(measured)} is not pinned`)
  verification.established.pinned_key_provider = measured
  return { name, id }
}

/**
 * The contract is the one at the app id, and it governs only keys of that contract's KMS: without both pins it says nothing.
 * @throws Skipped without a contract in the policy; Refused when the keys come from elsewhere
 */
function governedBy(verification: VerificationCase): KmsPolicy {
  const { kms } = verification.policy
  if (kms === undefined) {
    const measured = readKeyProvider(established(verification, 'claims'))
    if (measured?.name === 'kms') throw new Skipped('kms_without_contract')
    throw new Skipped('keys_without_kms', ` (key provider ${measured?.name ?? 'unreadable'})`)
  }
  established(verification, 'pinned_app')
  const { name } = established(verification, 'pinned_key_provider')
  requireThat(name === 'kms', `the policy names a KMS contract, and the keys come from ${name}`)
  return kms
}

/** Check 6.4: the contract that governs the app's keys allows the measured manifest. */
export const checkKms: RunCheck = (verification) => {
  const { bundle } = verification
  governedBy(verification)
  requireThat(bundle.kms_allowed !== null, `the KMS contract could not be read: ${bundle.missing.kms ?? ''}`)
  requireThat(bundle.kms_allowed === true, 'the KMS contract does not allow the measured manifest')
  return { contract: `0x${toHex(established(verification, 'pinned_app'))}` }
}

/** Check 6.5: the owner can allow another build; a timelock gives users time to see it. */
export const checkKmsOwner: RunCheck = (verification) => {
  const { bundle } = verification
  const { owners, timelock_min_s } = governedBy(verification)
  if (owners === undefined) throw new Skipped('kms_owner_unpinned')
  const { kms_contract } = bundle
  if (kms_contract === null)
    throw new Refused(`the owner of the KMS contract could not be read: ${bundle.missing.kms_owner ?? ''}`)
  const { owner, min_delay_s } = kms_contract
  requireThat(owners.includes(owner), `${owner} owns the KMS contract`)
  if (timelock_min_s === undefined) return { owner }
  requireThat(min_delay_s !== null, 'the owner of the KMS contract is no timelock')
  requireThat(
    min_delay_s >= timelock_min_s,
    `the timelock waits ${min_delay_s} s, the policy asks for ${timelock_min_s} s`,
  )
  return { owner, min_delay_s: String(min_delay_s) }
}

/** Check 6.1: the vault at the pinned program accepts this settlement key, in this epoch and generation. */
export const checkSettlementSigner: RunCheck = (verification) => {
  const { info } = verification.bundle
  const binding = established(verification, 'binding')
  requireThat(binding.epoch > 0n, 'epoch 0 is of no node that leads')
  const { config, chain } = vaultOf(verification, binding)
  const { generation, epoch, settlement_signer } = config
  const signer = encodeBase58(settlement_signer)
  requireThat(signer === info.tee_pubkey, 'the vault accepts another settlement key')
  requireThat(BigInt(epoch) === binding.epoch, 'the vault is in another epoch')
  const measured = established(verification, 'claims').compose_hash
  requireThat(equalBytes(config.compose_hash, measured), 'the epoch was opened by another build')
  verification.established.config = config
  return {
    config_account: info.config_account,
    settlement_signer: signer,
    epoch: String(epoch),
    generation: String(generation),
    compose_hash: toHex(config.compose_hash),
    read_at_slot: String(chain.slot),
  }
}

/**
 * Check 6.1 of a node that follows: of no epoch, so that nothing it signs is of one, and of the vault and venue of the node
 * that leads, which is judged by all checks but those of a connection.
 */
export const checkFollowing: RunCheck = (verification) => {
  const { info, leader } = verification.bundle
  const binding = established(verification, 'binding')
  requireThat(binding.epoch === 0n, 'the node is of an epoch')
  if (leader === null) throw new Refused('nothing of the leading node was recorded')
  requireThat(leader.info.venue === info.venue, 'the leading node is of another venue')
  const { config, chain } = vaultOf(verification, binding)
  verification.established.config = config
  return { config_account: info.config_account, read_at_slot: String(chain.slot) }
}

/** The vault of the binding's venue. @throws Skipped, Refused */
function vaultOf(
  verification: VerificationCase,
  binding: BindingBody,
): { config: ConfigAccount; chain: ChainRecord } {
  const { chain, policy } = chainOf(verification)
  const { info } = verification.bundle
  const program_id = decodeBase58(policy.program_id, 32)!
  const genesis_hash = decodeBase58(chain.genesis_hash, 32)
  if (genesis_hash === undefined) throw new Refused('the genesis hash is malformed')
  const config_account = vaultAddresses(program_id).config
  requireThat(
    policy.genesis_hash === undefined || policy.genesis_hash === chain.genesis_hash,
    'the chain is another cluster than the pinned one',
  )
  requireThat(info.genesis_hash === chain.genesis_hash, 'the venue settles on another cluster')
  requireThat(info.program_id === policy.program_id, 'the venue settles with another program')
  requireThat(info.config_account === encodeBase58(config_account), 'the venue settles in another vault')
  requireThat(chain.config.owner === policy.program_id, 'the vault is not owned by the pinned program')
  requireThat(
    BigInt(chain.slot + CHAIN_LAG_SLOTS_MAX) >= binding.slot,
    'the chain was read at an older slot than the venue states',
  )
  const config = decodeConfig(decodeBase64(chain.config.data))
  if (config === undefined) throw new Refused('the vault account is malformed')
  const { generation } = config
  requireThat(generation === info.generation, 'the vault is in another generation')
  const venue = venueId({ genesis_hash, program_id, config_account, generation })
  requireThat(equalBytes(venue, binding.venue), 'the venue id is of another vault')
  requireThat(equalBytes(venue, config.venue), 'the vault was initialized for another cluster')
  return { config, chain }
}

/** @throws Skipped when the policy names no chain; Refused when it does and the chain was not read. */
function chainOf({ bundle, policy }: VerificationCase): { chain: ChainRecord; policy: ChainPolicy } {
  if (policy.chain === undefined) throw new Skipped('chain_unnamed')
  if (bundle.chain === null)
    throw new Refused(`the chain could not be read: ${bundle.missing.chain ?? 'nothing was recorded'}`)
  return { chain: bundle.chain, policy: policy.chain }
}

/** Check 6.2: the vault is open, and every announced change is one that the policy expects. */
export const checkVaultState: RunCheck = (verification) => {
  const { policy } = chainOf(verification)
  const config = established(verification, 'config')
  requireThat(!config.frozen, 'the vault is frozen: it only pays queued payouts')
  requireThat(!config.paused || policy.paused_allowed, 'the vault is paused')
  const pending = pendingActions(config)
  const unexpected = pending.find((action) => !policy.pending_actions.includes(action))
  if (unexpected !== undefined) throw new Refused(`the administrator has announced ${unexpected}`)
  return {
    admin: encodeBase58(config.admin),
    paused: String(config.paused),
    pending: pending.join(' ') || 'none',
    exit_delay_s: String(config.exit_delay_s),
  }
}

function pendingActions(config: ConfigAccount): PendingAction[] {
  const pending: PendingAction[] = []
  if (config.pending_admin !== undefined) pending.push('set_admin')
  if (config.pending_restore_at_s !== 0) pending.push('authorize_restore')
  return pending
}

/** Check 6.3: the vault program is the expected one, and only an expected authority can replace it. */
export const checkProgram: RunCheck = (verification) => {
  const { chain, policy } = chainOf(verification)
  const { program, program_data } = chain
  const { upgrade_authority, sha256 } = program_data
  requireThat(program.owner === LOADER_V3, 'the program is not of the upgradeable loader')
  requireThat(program_data.owner === LOADER_V3, "the program's data is not of the upgradeable loader")
  requireThat(
    upgrade_authority === null || policy.upgrade_authorities.includes(upgrade_authority),
    `${upgrade_authority} may replace the program`,
  )
  requireThat(
    policy.program_sha256 === undefined || policy.program_sha256 === sha256,
    'the program is another build than the pinned one',
  )
  // A pinned address alone identifies a program only when no authority can replace it.
  requireThat(
    policy.program_sha256 !== undefined || upgrade_authority === null,
    'a program that can be replaced needs a pinned hash',
  )
  return { program_sha256: sha256, upgrade_authority: upgrade_authority ?? 'none: it can never change' }
}

/** Check 6.6: an announced change takes effect after twice this delay, in which users can leave. */
export const checkExitDelay: RunCheck = (verification) => {
  const { policy } = chainOf(verification)
  const config = established(verification, 'config')
  const { exit_delay_s } = verification.bundle.info
  requireThat(exit_delay_s === config.exit_delay_s, 'the venue states another exit delay than the vault has')
  const minimum = policy.exit_delay_min_s
  if (minimum === undefined) throw new Skipped('exit_delay_unpinned', `; it is ${exit_delay_s} s`)
  requireThat(
    exit_delay_s >= minimum,
    `the exit delay is ${exit_delay_s} s, the policy asks for ${minimum} s`,
  )
  return { exit_delay_s: String(exit_delay_s) }
}

/** Check 6.7: key or multisig that administers the vault. */
export const checkAdmin: RunCheck = (verification) => {
  const { policy } = chainOf(verification)
  const admin = encodeBase58(established(verification, 'config').admin)
  if (policy.admins === undefined) throw new Skipped('admin_unpinned', `; it is ${admin}`)
  requireThat(policy.admins.includes(admin), `${admin} administers the vault`)
  return { admin }
}

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

/** The value in force. @throws Refused when none or another one is */
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

/** An admitted entry: a member of its list, else the list's value. */
type Admitted = { list: AnnouncedList; subject: string }

/** As a policy names it. */
const subjectOf = (list: AnnouncedList, id: Uint8Array, value: Uint8Array): string =>
  list === 'epoch_authority' ? encodeBase58(value) : toHex(id.length > 0 ? id : value)

/**
 * The entries that a policy names, by list; undefined for a list of which it names none. This machine's own values are judged
 * by checks 3.1, 4.1 and 7.1. An image is named by its registers: a hash of an image leads to them only with the machine's
 * document.
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
