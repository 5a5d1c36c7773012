/**
 * Checks 2.1 to 4.1: runtime registers, the machine's claims, MRCONFIGID, the measured manifest with its RPC operators, and
 * the operating system.
 */
import { equalBytes, toHex, utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { measuredClaims, parseEventLog, replayRegisters } from '../../../protocol/tdx/event_log'
import { judgeMrConfigId } from '../../../protocol/tdx/mr_config_id'
import { lintManifest } from '../manifest/lint_manifest'
import { requireImage } from '../os_image/expected_digests'
import { readImageDocument } from '../os_image/image_document'
import { Refused, requireThat } from '../transcript'
import { type CheckValues, established, type RunMachineCheck, Skipped } from './verification_case'

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
