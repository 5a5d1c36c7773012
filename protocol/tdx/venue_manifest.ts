/**
 * Describes the only manifest a venue has: every key at every level of app-compose.json and of the compose file inside
 * it, each with its allowed values. A key that is not listed is not allowed. The server's table of settings and the
 * linter of clients and operators are both typed by this description, so neither can drift from it.
 */

/** The form that a value must have. A scalar allows exactly itself, an array exactly its items in their order. */
export type Form = string | number | boolean | null | readonly Form[] | OneOf | Each | Pattern | Mapping
type OneOf = { readonly kind: 'one_of'; readonly values: readonly (string | number | boolean)[] }
type Each = { readonly kind: 'each'; readonly item: Form }
type Pattern = { readonly kind: 'pattern'; readonly pattern: RegExp; readonly meaning: string }
export type Mapping = {
  readonly kind: 'mapping'
  readonly keys: Readonly<Record<string, Form>>
  /** Keys that may be absent. */
  readonly optional: readonly string[]
}

const oneOf = (...values: OneOf['values']): Form => ({ kind: 'one_of', values })
const pattern = (meaning: string, matched: RegExp): Form => ({ kind: 'pattern', pattern: matched, meaning })
const mapping = (keys: Mapping['keys'], ...optional: string[]): Mapping => ({
  kind: 'mapping',
  keys,
  optional,
})

/** The name of the one service, and of the one volume. */
export const SERVICE = 'venue'
const VOLUME = 'ledger'
const AGENT_SOCKET = '/var/run/dstack.sock'
/** Ports of the guest, which equal those the gateway may forward to: clients, then the operator. */
const PORTS = { clients: 443, operator: 8444 } as const
const CONTAINER_PORTS = { clients: 8443, operator: 8444 } as const
/** dstack's limit for app-compose.json. */
export const MANIFEST_BYTES_MAX = 256 * 1024

/**
 * The settings whose values come from the encrypted environment. It is confidential and not authenticated: the host can
 * replace a value, so these are the settings whose replacement harms their owner alone.
 */
export const SECRET_NAMES = ['TACIT_ACME_DNS_SECRET', 'TACIT_ETCD_KEY', 'TACIT_FEE_ANCHOR'] as const
type SecretName = (typeof SECRET_NAMES)[number]
export const isSecretName = (name: string): name is SecretName => SECRET_NAMES.some((one) => one === name)

/** How compose takes a value of the encrypted environment. */
export const referenceTo = (name: string): string => `\${${name}}`

/** Compose replaces `$NAME` and `${NAME}` in any value. */
const LITERAL = pattern('a literal text without $', /^[^$]*$/)
const RPC_URLS = pattern(
  'https URLs of at least two hosts, separated by commas',
  /^https:\/\/[^\s,$]+(?:,https:\/\/[^\s,$]+)+$/,
)

const SEND_URLS = pattern(
  'https URLs separated by commas, or nothing',
  /^(?:https:\/\/[^\s,$]+(?:,https:\/\/[^\s,$]+)*)?$/,
)

const ETCD_URLS = pattern(
  'https://HOST:PORT of each member, separated by commas, or nothing',
  /^(?:https:\/\/[^/@?#\s,$]+(?:,https:\/\/[^/@?#\s,$]+)*)?$/,
)

const NODE_URL = pattern(
  'https://HOST:PORT, or nothing; {instance_id} stands for that of each machine',
  /^(?:https:\/\/[^/@?#\s,$]+)?$/,
)

/** Every setting of the process under the form of its value in a manifest; a secret is a reference or empty. */
export const SETTING_FORMS = {
  TACIT_DATA_DIR: '/data',
  TACIT_LISTEN: `0.0.0.0:${CONTAINER_PORTS.clients}`,
  TACIT_OPERATOR_LISTEN: `0.0.0.0:${CONTAINER_PORTS.operator}`,
  TACIT_ENCLAVE: 'dstack',
  TACIT_DSTACK_SOCKET: AGENT_SOCKET,
  TACIT_TLS_NAMES: LITERAL,
  TACIT_ACME_DIRECTORY: LITERAL,
  TACIT_ACME_CHALLENGE: LITERAL,
  TACIT_ACME_ROOT: LITERAL,
  TACIT_ACME_DNS_URL: LITERAL,
  TACIT_ACME_DNS_NAME: LITERAL,
  TACIT_ACME_DNS_SECRET: oneOf('', referenceTo('TACIT_ACME_DNS_SECRET')),
  TACIT_SWAGGER: LITERAL,
  SOLANA_RPC_URL: RPC_URLS,
  TACIT_RPC_SEND_URLS: SEND_URLS,
  TACIT_PROGRAM_ID: LITERAL,
  TACIT_SLOT_MS: LITERAL,
  TACIT_OPERATOR_KEY: LITERAL,
  TACIT_AUDITOR_KEY: LITERAL,
  TACIT_FEE_KEY: LITERAL,
  TACIT_FEE_ANCHOR: oneOf('', referenceTo('TACIT_FEE_ANCHOR')),
  TACIT_MINTS: LITERAL,
  TACIT_INSTRUMENTS: LITERAL,
  TACIT_REFERENCE_SOURCES: LITERAL,
  TACIT_TOKEN_TTL_S: LITERAL,
  TACIT_ORDER_LIFE_SLOTS_MAX: LITERAL,
  TACIT_SETTLEMENT_PARTS_MAX: LITERAL,
  TACIT_RETENTION_DAYS: LITERAL,
  TACIT_LEASE_MS: LITERAL,
  TACIT_ANCHOR_MAX_MS: LITERAL,
  TACIT_COMMIT_MS: LITERAL,
  TACIT_REOPEN_SLOTS: LITERAL,
  TACIT_ETCD_URLS: ETCD_URLS,
  TACIT_ETCD_CA: LITERAL,
  TACIT_ETCD_CERT: LITERAL,
  TACIT_ETCD_KEY: oneOf('', referenceTo('TACIT_ETCD_KEY')),
  TACIT_NODE_URL: NODE_URL,
} as const satisfies Record<string, Form>
export type VenueSetting = keyof typeof SETTING_FORMS

/** The compose file. Every setting is present, because nothing may depend on a default. */
export const COMPOSE_FORM: Form = mapping({
  services: mapping({
    [SERVICE]: mapping(
      {
        image: pattern(
          'an image by digest, NAME@sha256:DIGEST',
          /^[a-z0-9][a-z0-9._/:-]{0,255}@sha256:[0-9a-f]{64}$/,
        ),
        restart: 'unless-stopped',
        read_only: true,
        // The owner of the data folder in the image.
        user: '10001:10001',
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
        tmpfs: ['/tmp'],
        stop_grace_period: '60s',
        // Pending connections move to the listener of a new certificate instead of failing.
        sysctls: mapping({ 'net.ipv4.tcp_migrate_req': '1' }),
        ports: [
          `${PORTS.clients}:${CONTAINER_PORTS.clients}`,
          `${PORTS.operator}:${CONTAINER_PORTS.operator}`,
        ],
        volumes: [`${AGENT_SOCKET}:${AGENT_SOCKET}`, `${VOLUME}:/data`],
        healthcheck: mapping({
          test: ['CMD', 'bun', '/app/server/check_health.ts'],
          interval: '10s',
          timeout: '5s',
          retries: 3,
          start_period: '60s',
        }),
        environment: mapping(SETTING_FORMS),
      },
      'healthcheck',
    ),
  }),
  volumes: mapping({ [VOLUME]: null }),
})

/** Members of app-compose.json that have one value. dstack's own defaults differ between tools, so each is present. */
export const FIXED_MEMBERS = {
  runner: 'docker-compose',
  gateway_enabled: true,
  local_key_provider_enabled: false,
  no_instance_id: false,
  public_logs: false,
  public_sysinfo: false,
  // Lets anyone read this text from the guest; its hash is attested either way.
  public_tcbinfo: true,
  // Keeps checksums of the encrypted disk; ext4 would not notice a changed block.
  storage_fs: 'zfs',
  // Guests of OS 0.5 do not boot version "3". They load the encrypted environment by systemd, which ends a value at a
  // carriage return: one replaced secret there sets COMPOSE_FILE, and the guest runs a compose file of the host.
  manifest_version: '3',
} as const

/** Holds an instance out of the gateway's rotation until its health check passes. */
const REQUIREMENTS = { health_check: true } as const

/**
 * app-compose.json. Not in it, so not allowed: `pre_launch_script`, `init_script`, `bash_script`, `docker_config`,
 * `features`, `snapshotter`, `swap_size`, `verity_volumes`, `tproxy_enabled`, other requirements, unknown keys.
 */
export const APP_COMPOSE_FORM: Form = mapping(
  {
    ...FIXED_MEMBERS,
    name: pattern('lowercase letters, digits and hyphens', /^[a-z0-9][a-z0-9-]{0,62}$/),
    docker_compose_file: pattern('a text', /^/),
    allowed_envs: { kind: 'each', item: oneOf(...SECRET_NAMES) },
    key_provider: 'kms',
    kms_enabled: true,
    key_provider_id: pattern(
      'the DER public key of the KMS root in lowercase hex',
      /^(?:[0-9a-f]{2}){16,256}$/,
    ),
    port_policy: mapping({
      ports: [mapping({ port: PORTS.clients, pp: false }), mapping({ port: PORTS.operator, pp: false })],
      restrict_mode: true,
    }),
    secure_time: oneOf(false, true),
    requirements: mapping(REQUIREMENTS),
    // Version 2 hashes events in another way than the vault program does.
    event_log_version: 1,
  },
  'key_provider_id',
  'event_log_version',
)

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
