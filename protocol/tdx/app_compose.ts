/** Writes the exact text of a dstack app-compose.json. */

export type AppComposeDecisions = {
  name: string
  /** Text of the compose file, byte for byte. */
  docker_compose_file: string
  /** Guest OS line: `0.5` reads a numeric manifest version, `0.6` a textual one with requirements. */
  os: '0.5' | '0.6'
  /** `kms` keeps keys across machines and upgrades; `local` seals to one host; `none` makes new keys at every deployment. */
  key_provider: 'kms' | 'local' | 'none'
  /** DER public key of the KMS root, hex; a deployment under another KMS then fails instead of getting other keys. */
  key_provider_id?: string
  /** Names the encrypted environment may deliver. */
  allowed_envs: readonly string[]
  /** TCP ports the gateway may forward to; all others, including the agent's dashboard, stay closed. */
  ports: readonly number[]
  /** Synchronizes time by NTS before the containers start; an image whose chrony lacks NTS never finishes booting. */
  secure_time: boolean
}

/**
 * Equal decisions give equal bytes: keys sorted at every level, no white space, no final newline. Other tools
 * canonicalize to this form too, so a rewritten object keeps its hash. The compose hash is SHA-256 of these bytes.
 */
export function appComposeText(decisions: AppComposeDecisions): string {
  const { name, docker_compose_file, os, key_provider, key_provider_id, secure_time } = decisions
  const manifest = {
    name,
    docker_compose_file,
    key_provider,
    secure_time,
    runner: 'docker-compose',
    allowed_envs: [...decisions.allowed_envs].sort(),
    gateway_enabled: true,
    kms_enabled: key_provider === 'kms',
    local_key_provider_enabled: key_provider === 'local',
    no_instance_id: false,
    public_logs: false,
    public_sysinfo: false,
    // Lets anyone read this text from the guest; its hash is attested either way.
    public_tcbinfo: true,
    port_policy: {
      ports: [...decisions.ports].sort((a, b) => a - b).map((port) => ({ port, pp: false })),
      restrict_mode: true,
    },
    // Keeps checksums of the encrypted disk; ext4 would not notice a changed block.
    storage_fs: 'zfs',
    ...(key_provider_id === undefined ? {} : { key_provider_id }),
    ...(os === '0.5'
      ? { manifest_version: 2 }
      : { manifest_version: '3', requirements: { health_check: true } }),
  }
  return JSON.stringify(sorted(manifest))
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]))
}
