/** Words the expectation of each check: the policy's demand, or the statement that the check compares. */
import type { EvidenceBundle } from '../verify/evidence_bundle'
import type { VerificationPolicy } from '../verify/policy'
import type { CheckName } from '../verify/transcript'

/** One line each; a line is a value or a short phrase. */
export function expectedOf(name: CheckName, policy: VerificationPolicy, bundle: EvidenceBundle): string[] {
  return EXPECTED[name](policy, bundle)
}

type Expected = (policy: VerificationPolicy, bundle: EvidenceBundle) => string[]
const NOT_NAMED = 'your policy names none'

const EXPECTED: Record<CheckName, Expected> = {
  collateral: (policy) => [
    policy.roots_pem === undefined
      ? 'signed under Intel SGX Root CA'
      : 'signed under the root of your policy',
    'not expired, nothing revoked',
  ],
  quote: () => ['a valid chain, quoting enclave and signature'],
  platform: (policy) => [
    `status ${policy.tcb_statuses.join(' or ') || 'none allowed'}`,
    `advisories ${policy.advisories.join(' ') || 'none'}`,
    `evaluation number from ${policy.tcb_evaluation_min ?? 0}`,
  ],
  machine: () => ['debug off, not migratable, no service TD'],
  xfam: ({ xfam_mask }) => [xfam_mask === undefined ? NOT_NAMED : `no bit outside ${xfam_mask}`],
  enclave: ({ roots_pem }) => [
    roots_pem === undefined ? 'hardware' : 'simulated, as your policy names its root',
  ],
  registers: () => ['the log replays to RTMR0 to RTMR3'],
  claims: (_policy, { info }) => [
    stated('app_id', info.app_id),
    stated('instance_id', info.instance_id),
    'each exactly once',
  ],
  mr_config_id: () => ['a commitment to the measured manifest'],
  app: ({ app_ids }) => listed(app_ids),
  key_provider: ({ key_providers }) => listed(key_providers?.map(({ name, id }) => `${name} ${id}`)),
  compose_hash: ({ compose_hashes }) => listed(compose_hashes),
  manifest: (_policy, { info }) => [
    stated('hash', info.compose_hash),
    'images by digest, no shell, no script, listed names only',
  ],
  rpc_operators: ({ rpc_operators }) =>
    rpc_operators === undefined
      ? [NOT_NAMED]
      : [
          `at least ${rpc_operators.minimum} of ${rpc_operators.operators.map(({ name }) => name).join(', ')}`,
        ],
  os_image: (policy) =>
    listed([
      ...(policy.os_image_hashes ?? []),
      ...(policy.registers ?? []).map(({ mrtd }) => `mrtd ${mrtd}`),
    ]),
  report_data: (_policy, { nonce, info }) => [`nonce ${nonce}`, stated('key', info.tee_pubkey)],
  binding: (_policy, { info, nonce }) => [
    stated('venue', info.venue),
    stated('epoch', String(info.epoch)),
    `nonce ${nonce}`,
  ],
  tls_key: () => ['the key of this connection'],
  evidence: () => ['the same machine, the same TLS key'],
  settlement_signer: (policy, { info }) =>
    policy.chain === undefined
      ? [NOT_NAMED]
      : [
          `program ${policy.chain.program_id}`,
          stated('signer', info.tee_pubkey),
          stated('epoch', String(info.epoch)),
        ],
  vault_state: ({ chain }) =>
    chain === undefined
      ? [NOT_NAMED]
      : [
          chain.paused_allowed ? 'open or paused' : 'open, not paused',
          `announced changes: ${chain.pending_actions.join(' ') || 'none'}`,
        ],
  program: ({ chain }) =>
    chain === undefined
      ? [NOT_NAMED]
      : [
          chain.program_sha256 ?? 'any program at the pinned address',
          `upgrade authority ${chain.upgrade_authorities.join(' ') || 'none'}`,
        ],
  kms: ({ kms }) => [kms === undefined ? NOT_NAMED : 'the contract allows the measured build'],
  kms_owner: ({ kms }) => [
    ...listed(kms?.owners),
    ...(kms?.timelock_min_s === undefined ? [] : [`a timelock of at least ${kms.timelock_min_s} s`]),
  ],
  exit_delay: ({ chain }) => [
    chain?.exit_delay_min_s === undefined ? NOT_NAMED : `at least ${chain.exit_delay_min_s} s`,
  ],
  admin: ({ chain }) => listed(chain?.admins),
  announced: ({ chain, compose_hashes = [], ppids = [] }) =>
    chain === undefined
      ? [NOT_NAMED]
      : ['this machine, image and build', ...compose_hashes, ...ppids, ...(chain.epoch_authorities ?? [])],
  machine_list: ({ ppids }) => listed(ppids),
  location: ({ location }) =>
    location === undefined
      ? [NOT_NAMED]
      : [`at least ${location.minimum} of ${location.authorities.map(({ name }) => name).join(', ')}`],
}

/** The venue's own statement, which the check compares with its proof. */
const stated = (name: string, value: string): string => `stated ${name} ${value}`
const listed = (values: readonly string[] = []): string[] => (values.length === 0 ? [NOT_NAMED] : [...values])
