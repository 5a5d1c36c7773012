/** Decides whether this process runs on the sandbox (stand-in enclave, embedded chain) or on an attested machine. */
import { existsSync } from 'node:fs'
import type { Environment } from './config'

const AGENT_SOCKET = '/var/run/dstack.sock'

/**
 * The sandbox has defaults for everything, so it runs only where nothing is at stake: where a guest agent listens, or
 * where a deployment names its enclave as real, a missing setting is a user error and never a sandbox.
 */
export function isSandbox(environment: Environment): boolean {
  const enclave = environment['TACIT_ENCLAVE']
  if (enclave !== undefined) return enclave === 'development'
  return !existsSync(AGENT_SOCKET)
}
