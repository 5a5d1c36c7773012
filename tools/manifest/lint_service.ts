/** What the venue's own service must be, beyond what any clean manifest must be. */
import type { YamlMap, YamlValue } from '../../client/verify/manifest/plain_yaml'
import { UNSET } from './lint_settings'

const AGENT_SOCKET = '/var/run/dstack.sock'
const CLIENT_PORT = 443
const PORT = /^([0-9]{1,5}):([0-9]{1,5})$/
const MIGRATION = 'net.ipv4.tcp_migrate_req,1'
const NAMED_VOLUME = /^[a-z][a-z0-9_-]*:\/data$/
const KEYS = [
  'image',
  'restart',
  'read_only',
  'user',
  'cap_drop',
  'security_opt',
  'tmpfs',
  'stop_grace_period',
  'sysctls',
  'ports',
  'volumes',
  'healthcheck',
  'environment',
]

/** Host ports the service publishes, in the order written. */
export function publishedPorts(service: YamlMap): number[] {
  return items(service.get('ports')).flatMap((port) => {
    const match = PORT.exec(port)
    return match === null ? [] : [Number(match[1])]
  })
}

/** @returns one sentence per fault. */
export function lintService(service: YamlMap): string[] {
  const faults: string[] = []
  const need = (holds: boolean, fault: string) => {
    if (!holds) faults.push(fault)
  }
  for (const key of service.keys())
    need(KEYS.includes(key), `the service uses ${key}, which no rule here covers`)
  if (service.get('image') === UNSET)
    faults.push(
      `image: still ${UNSET}; build and push it (docs/operator.md), then --set image=NAME@sha256:DIGEST`,
    )
  need(service.get('read_only') === 'true', 'read_only: must be true')
  need(/^[1-9][0-9]*:[1-9][0-9]*$/.test(String(service.get('user'))), 'user: must be numeric and not root')
  need(items(service.get('cap_drop')).join() === 'ALL', 'cap_drop: must be ALL alone')
  need(
    items(service.get('security_opt')).join() === 'no-new-privileges:true',
    'security_opt: must be no-new-privileges:true alone',
  )
  const ports = publishedPorts(service)
  need(
    items(service.get('ports')).length === 2 && ports[0] === CLIENT_PORT && ports[1] !== undefined,
    'ports: 443 for clients, then one for the operator',
  )
  need(ports[0] !== ports[1], 'ports: the operator has one of its own')
  const volumes = items(service.get('volumes'))
  need(
    volumes.length === 2 &&
      volumes[0] === `${AGENT_SOCKET}:${AGENT_SOCKET}` &&
      NAMED_VOLUME.test(volumes[1]!),
    `volumes: ${AGENT_SOCKET}, then one named volume at /data`,
  )
  const sysctls = service.get('sysctls')
  need(
    sysctls instanceof Map && [...sysctls].join() === MIGRATION,
    `sysctls: ${MIGRATION.replace(',', ': ')} alone, so that a new certificate fails no connection`,
  )
  need(service.get('healthcheck') instanceof Map, 'healthcheck: required')
  return faults
}

function items(value: YamlValue | undefined): string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
}
