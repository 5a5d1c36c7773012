/** Finds names in the environment of a deployed process that are neither settings nor set by its image and runtime. */

import type { Environment } from './config'
import { isSettingName } from './settings'

/**
 * Names beside the settings, with their values where one is fixed. A manifest cannot set any of them, because its
 * environment lists settings only.
 */
const ALLOWED: Readonly<Record<string, readonly string[] | 'any'>> = {
  // Of the container runtime and the base image.
  PATH: 'any',
  HOSTNAME: 'any',
  SSL_CERT_FILE: ['/etc/ssl/certs/ca-certificates.crt'],
  // Of the Dockerfile. A home folder elsewhere could hold a bunfig.toml, which runs code.
  HOME: ['/tmp'],
  NODE_ENV: ['production'],
  BUN_RUNTIME_TRANSPILER_CACHE_PATH: ['0'],
  DO_NOT_TRACK: ['1'],
}

/**
 * Such a name changes the process without changing its code: LD_PRELOAD, BUN_OPTIONS, NODE_TLS_REJECT_UNAUTHORIZED,
 * HTTPS_PROXY. Code that a loader variable brought in has run before this check, so the manifest's linter is the first
 * guard. Names that begin with TACIT_ are left to the settings.
 * @returns one line per name, without its value
 */
export function foreignNames(environment: Environment): string[] {
  return Object.keys(environment).flatMap((name) => {
    const value = environment[name]
    // Bun lists some names that are not set.
    if (value === undefined || name.startsWith('TACIT_') || isSettingName(name)) return []
    const allowed = Object.hasOwn(ALLOWED, name) ? ALLOWED[name] : undefined
    if (allowed === undefined) return [`${name}: not allowed in the environment of a deployment`]
    if (allowed === 'any' || allowed.includes(value)) return []
    return [`${name}: must be ${allowed.join(' or ')} in a deployment`]
  })
}
