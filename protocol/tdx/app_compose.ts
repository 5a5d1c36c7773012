/** Writes the exact text of a dstack app-compose.json. */
import { FIXED_MEMBERS, PORTS, REQUIREMENTS } from './venue_manifest'

export type AppComposeDecisions = {
  name: string
  /** Text of the compose file, byte for byte. */
  docker_compose_file: string
  /** `kms` keeps keys across machines and upgrades; `none` is for the sandbox, and no linter accepts it. */
  key_provider: 'kms' | 'none'
  /** DER public key of the KMS root, hex; a deployment under another KMS then fails instead of getting other keys. */
  key_provider_id?: string
  /** Names the encrypted environment may deliver. */
  allowed_envs: readonly string[]
  /** Synchronizes time by NTS before the containers start; an image whose chrony lacks NTS never finishes booting. */
  secure_time: boolean
}

/** Equal decisions give equal bytes. The compose hash is SHA-256 of these bytes. */
export function appComposeText(decisions: AppComposeDecisions): string {
  const { name, docker_compose_file, key_provider, key_provider_id, secure_time } = decisions
  return canonicalJson({
    ...FIXED_MEMBERS,
    name,
    docker_compose_file,
    key_provider,
    secure_time,
    allowed_envs: [...decisions.allowed_envs].sort(),
    kms_enabled: key_provider === 'kms',
    // TCP ports the gateway may forward to; all others, including the agent's dashboard, stay closed.
    port_policy: {
      ports: [PORTS.clients, PORTS.operator].map((port) => ({ port, pp: false })),
      restrict_mode: true,
    },
    ...(key_provider_id === undefined ? {} : { key_provider_id }),
    requirements: REQUIREMENTS,
  })
}

/**
 * JSON with the keys sorted at every level, no white space and no final newline. Other tools canonicalize to this form
 * too, so a rewritten object keeps its hash; and one value has one text, so a repeated key cannot hide in it.
 */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(sorted(value))
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(entries.map(([key, inner]) => [key, sorted(inner)]))
}
