/** Judges the environment of a start: sandbox or attested machine, foreign names, and the cause of a start that failed. */
import { existsSync } from 'node:fs'
import type { Environment } from './config'
import { isSettingName } from './settings'

const AGENT_SOCKET = '/var/run/dstack.sock'

/**
 * The sandbox has a default for every setting, so it must never run in a deployment: where a guest agent listens, or where
 * TACIT_ENCLAVE names a real enclave, a missing setting is a user error.
 */
export function isSandbox(environment: Environment): boolean {
  const enclave = environment['TACIT_ENCLAVE']
  if (enclave !== undefined) return enclave === 'development'
  return !existsSync(AGENT_SOCKET)
}

/** Why the sandbox could not be imported and what to do; undefined for an error other than a missing module. */
export function missingSandbox(error: unknown, environment: Environment): string | undefined {
  if (!(error instanceof ResolveMessage)) return undefined
  const cause =
    environment['TACIT_ENCLAVE'] === undefined
      ? `not set, and no guest agent listens on ${AGENT_SOCKET}, so the venue needs the sandbox`
      : 'development needs the sandbox'
  if (!error.specifier.endsWith('sandbox/open_sandbox'))
    return `TACIT_ENCLAVE: ${cause}, which does not load: ${error.message}. Run \`bun install\` in a complete checkout`
  return (
    `TACIT_ENCLAVE: ${cause}, and this build does not contain it (the folder sandbox/ is missing). On an attested machine ` +
    'set TACIT_ENCLAVE=dstack; to try the venue, run `bun run dev` in a checkout of the repository'
  )
}

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
  // Milliseconds: the allocator looks for memory to give back once a second; more often costs each order 4 us.
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: ['1000'],
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

const CAUSES: Readonly<Record<string, string>> = {
  ENOSPC: "the volume is full: make it larger or delete what is not the venue's",
  EDQUOT: 'the quota of the volume is used up: raise it',
  EROFS: 'the volume is mounted read-only: mount it for writing',
  EACCES: 'this user may not use the file: correct owner or mode',
  EPERM: 'this user may not use the file: correct owner or mode',
  ENOENT: 'a file or socket is missing: put it back, or correct the setting that names it',
  ENOTDIR: 'a file is where a folder is needed: correct the setting that names it',
  EEXIST: 'a file is where a folder is needed: move it away',
  EIO: "the disk answers with errors: read the kernel's log and replace the volume",
  EMFILE: 'too many open files: raise the limit of the process',
}

/** @param data_dir folder of the venue's data, named where the error names no file */
export function startFault(error: unknown, data_dir: string): string {
  if (!(error instanceof Error)) return 'the venue did not start'
  const { code, path } = error as NodeJS.ErrnoException
  if (code === undefined || !Object.hasOwn(CAUSES, code)) return error.message
  return `${error.message}\n${path ?? data_dir}: ${CAUSES[code]}`
}
