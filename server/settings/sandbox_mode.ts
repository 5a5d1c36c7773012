/** Decides whether this process runs on the sandbox (simulated enclave, embedded chain) or on an attested machine. */

import { existsSync } from 'node:fs'
import type { Environment } from './config'

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
