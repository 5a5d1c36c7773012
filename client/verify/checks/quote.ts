/** Checks 1.1 to 4.1: the quote with its platform, and the machine's measurements: registers, manifest, operating system. */
import { equalBytes, fromAnyHex, fromHex, isZero, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { measuredClaims, parseEventLog, replayRegisters } from '../../../protocol/tdx/event_log'
import { judgeMrConfigId } from '../../../protocol/tdx/mr_config_id'
import { lintManifest } from '../lint_manifest'
import { readImageDocument, requireImage } from '../os_image'
import { onlyIntel, openCollateral } from '../tdx/collateral'
import { requireMachine, verifyGenuine } from '../tdx/genuine_quote'
import { requirePlatform } from '../tdx/platform'
import { Refused, requireThat } from '../transcript'
import { type CheckValues, established, type RunMachineCheck, Skipped } from './verification_case'

/** Check 1.1: the collateral is signed in its roles under a trusted root, and current. */
export const checkCollateral: RunMachineCheck = async (verification) => {
  const { bundle, roots, now_ms } = verification
  if (bundle.collateral === null)
    throw new Refused(`it could not be had: ${bundle.missing.collateral ?? 'none was recorded'}`)
  const opened = await openCollateral(bundle.collateral, roots, now_ms)
  verification.established.collateral = opened
  const next_update_ms = Math.min(
    opened.tcb_info.next_update_ms,
    opened.qe_identity.next_update_ms,
    opened.root_list.next_update_ms,
    opened.pck_list.next_update_ms,
  )
  return {
    root: onlyIntel(roots) ? 'Intel SGX Root CA' : `given by the policy: ${opened.root.common_name}`,
    valid_until: new Date(next_update_ms).toISOString(),
    revoked_pcks: String(opened.pck_list.revoked.size),
  }
}

/** Check 1.2: the quote is genuine. */
export const checkQuote: RunMachineCheck = async (verification) => {
  const { bundle, now_ms } = verification
  const bytes = fromAnyHex(bundle.attestation.quote)
  if (bytes === undefined) throw new Refused('the quote is not hex')
  const genuine = await verifyGenuine(bytes, established(verification, 'collateral'), now_ms)
  verification.established.genuine = genuine
  const { quote, platform } = genuine
  return {
    version: String(quote.version),
    fmspc: toHex(platform.fmspc),
    ppid: toHex(platform.ppid),
    mr_seam: toHex(quote.report.mr_seam),
  }
}

/** Check 1.3: platform, TDX module and quoting enclave are as current as the policy demands. */
export const checkPlatform: RunMachineCheck = (verification) => {
  const genuine = established(verification, 'genuine')
  const collateral = established(verification, 'collateral')
  // Check 7.1 judges the machine.
  const { ppids: _ppids, ...policy } = verification.policy
  const { status, tcb_date, advisories } = requirePlatform(genuine, collateral, policy)
  return {
    tcb_status: status,
    tcb_date,
    advisories: advisories.join(' ') || 'none',
    tcb_evaluation_number: String(collateral.tcb_info.evaluation_number),
  }
}

/** Check 1.4: the trust domain runs without debugging and without a service TD. */
export const checkMachine: RunMachineCheck = (verification) => {
  const { report } = established(verification, 'genuine').quote
  requireMachine(report)
  return { td_attributes: toHex(report.td_attributes), xfam: toHex(report.xfam) }
}

/** Check 1.5: a feature that the guest does not expect, such as AMX, has state that another build may leave behind. */
export const checkXfam: RunMachineCheck = (verification) => {
  const { xfam } = established(verification, 'genuine').quote.report
  const { xfam_mask } = verification.policy
  if (xfam_mask === undefined) throw new Skipped('xfam_unpinned', `; XFAM is ${toHex(xfam)}`)
  const mask = fromHex(xfam_mask, xfam.length)!
  const surplus = xfam.map((byte, at) => byte & ~mask[at]!)
  requireThat(isZero(surplus), `XFAM has bits that the policy does not name: ${toHex(surplus)}`)
  return { xfam: toHex(xfam), mask: xfam_mask }
}

/**
 * Check 1.6: a venue on a simulated enclave says so, and only a policy that names its root accepts it; a venue that says it
 * runs on hardware has a quote under Intel's root. The quote's root decides: the statement can only make a venue fail.
 */
export const checkEnclave: RunMachineCheck = (verification) => {
  // Venues and bundles before this field state nothing.
  const { enclave } = verification.bundle.attestation as { enclave?: string }
  const { policy, roots } = verification
  if (enclave === undefined) return { enclave: 'not stated' }
  requireThat(
    enclave === 'dstack' || enclave === 'development',
    'the venue states an unknown kind of enclave',
  )
  requireThat(
    enclave !== 'development' || (policy.roots_pem !== undefined && !onlyIntel(roots)),
    'the venue runs on a simulated enclave: name its root in the policy to accept it',
  )
  requireThat(
    enclave !== 'dstack' || onlyIntel(roots),
    "the venue states that it runs on hardware, under a root that is not Intel's",
  )
  return { enclave }
}

/** Check 2.1: the event log replays to all four runtime registers of the quote. */
export const checkRegisters: RunMachineCheck = (verification) => {
  const { rtmr } = established(verification, 'genuine').quote.report
  const events = parseEventLog(verification.bundle.attestation.event_log)
  for (const [index, register] of replayRegisters(events).entries())
    requireThat(equalBytes(register, rtmr[index]!), `the event log does not lead to RTMR${index}`)
  verification.established.events = events
  return { events: String(events.length), rtmr3: toHex(rtmr[3]) }
}

/** Check 2.2: the machine measured each claim exactly once before it was ready, and the venue states the same. */
export const checkClaims: RunMachineCheck = (verification) => {
  const claims = measuredClaims(established(verification, 'events'))
  const { info } = verification.bundle
  const [app_id, instance_id] = [toHex(claims.app_id), toHex(claims.instance_id)]
  requireThat(info.app_id === app_id, 'the venue states another app id than it measured')
  requireThat(info.instance_id === instance_id, 'the venue states another instance id than it measured')
  verification.established.claims = claims
  return { app_id, instance_id, key_provider: new TextDecoder().decode(claims.key_provider) }
}

/** Check 2.3: the quote's own commitment to manifest and identity, recomputed from the measured claims. */
export const checkMrConfigId: RunMachineCheck = (verification) => {
  const { report } = established(verification, 'genuine').quote
  const found = judgeMrConfigId(report.mr_config_id, established(verification, 'claims'))
  if (found === 'none') throw new Skipped('mr_config_id_absent')
  requireThat(found !== 'malformed', 'MRCONFIGID has an unknown form or padding')
  requireThat(found !== 'other', 'MRCONFIGID commits to other facts than the measured ones')
  return { form: found }
}

/** Check 3.1: the measured manifest is one that the policy pins. */
export const checkComposeHash: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  const compose_hash = toHex(established(verification, 'claims').compose_hash)
  requireThat(bundle.info.compose_hash === compose_hash, 'the venue states another manifest than it measured')
  if (policy.compose_hashes === undefined)
    throw new Skipped('compose_hash_unpinned', `; measured: ${compose_hash}`)
  requireThat(policy.compose_hashes.includes(compose_hash), `measured manifest ${compose_hash} is not pinned`)
  return { compose_hash }
}

/** Check 3.2: the manifest's text is the measured one and passes the linter. */
export const checkManifest: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  const { compose_hash } = established(verification, 'claims')
  if (bundle.app_compose === null) throw new Skipped('manifest_absent')
  const text = utf8(bundle.app_compose)
  requireThat(equalBytes(sha256(text), compose_hash), 'the manifest text is not the measured one')
  const { faults, environment } = lintManifest(bundle.app_compose, policy.environment_names)
  if (faults.length > 0) throw new Refused(faults.join('; '))
  verification.established.settings = environment
  return { bytes: String(text.length) }
}

/**
 * Check 3.3: the RPC operators in the measured manifest. Two hosts of one operator can withhold the chain together, so
 * operators are counted and not hosts.
 */
export const checkRpcOperators: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  established(verification, 'claims')
  const { rpc_operators } = policy
  if (rpc_operators === undefined) throw new Skipped('rpc_operators_unpinned')
  if (bundle.app_compose === null) throw new Refused('the policy names RPC operators: give the manifest text')
  // The linter has admitted a list of https URLs only.
  const urls = String(established(verification, 'settings').get('SOLANA_RPC_URL')).split(',')
  const used = new Set<string>()
  for (const url of urls) {
    const { host } = new URL(url)
    const operator = rpc_operators.operators.find(({ hosts }) => hosts.includes(host))
    if (operator === undefined)
      throw new Refused(`the manifest reads the chain from ${host}, which is no accepted host`)
    used.add(operator.name)
  }
  requireThat(
    used.size >= rpc_operators.minimum,
    `the manifest names ${used.size} RPC operators, the policy asks for ${rpc_operators.minimum}`,
  )
  return { operators: [...used].join(' ') }
}

/**
 * Check 4.1: firmware, kernel, command line and initial disk are those of an operating system that the policy names,
 * recomputed from the image's own document or compared with pinned registers.
 */
export const checkOsImage: RunMachineCheck = (verification) => {
  const { bundle, policy } = verification
  const { mr_td, rtmr, xfam } = established(verification, 'genuine').quote.report
  const events = established(verification, 'events')
  const { registers: tuples = [], os_image_hashes } = policy
  if (policy.registers === undefined && os_image_hashes === undefined) throw new Skipped('os_image_unpinned')
  const [mrtd, rtmr0, rtmr1, rtmr2] = [mr_td, ...rtmr].map(toHex)
  const registers: CheckValues = { mrtd: mrtd!, rtmr0: rtmr0!, rtmr1: rtmr1!, rtmr2: rtmr2! }
  const machine: CheckValues = { ...registers, xfam: toHex(xfam) }
  const pinned = tuples.some((tuple) =>
    Object.entries(tuple).every(([name, value]) => machine[name] === value),
  )
  if (pinned) return { ...registers, by: 'pinned registers' }
  if (os_image_hashes === undefined)
    throw new Refused('the registers are of no operating system the policy names')
  const image = readImageDocument(bundle.attestation.vm_config)
  if (image === undefined) throw new Refused('the machine does not describe its image: pin its registers')
  requireThat(
    os_image_hashes.includes(image.os_image_hash),
    `OS image ${image.os_image_hash} is not one the policy names`,
  )
  requireImage(image, mr_td, events)
  const memory_size = String(image.memory_size)
  return { ...registers, os_image_hash: image.os_image_hash, memory_size, by: 'recomputation' }
}
