/** Keeps a venue that calls itself production from running on anything but real hardware. */
import { statSync } from 'node:fs'
import { equalBytes } from '../protocol/bytes'
import { INTEL_ROOT_KEY } from '../protocol/intel_root'
import type { Quote } from '../protocol/quote'
import { quoteRootKey } from './quote_signature'

/** The process must not start. */
export class EnclaveRefused extends Error {
  override readonly name = 'EnclaveRefused'
}

/** @throws EnclaveRefused unless the path is a unix socket: an HTTP address or file is no guest agent. */
export function requireSocket(path: string): void {
  const found = statSync(path, { throwIfNoEntry: false })
  if (found === undefined || !found.isSocket()) throw new EnclaveRefused('there is no guest agent socket')
}

/**
 * Every signature of the own quote must hold, in production up to Intel's root key. No setting skips this.
 * @throws EnclaveRefused
 */
export function requireRoot(kind: 'dstack' | 'development', quote: Quote): void {
  const root_key = quoteRootKey(quote)
  if (root_key === undefined) throw new EnclaveRefused('the signatures of the own quote do not hold')
  if (kind === 'dstack' && !equalBytes(root_key, INTEL_ROOT_KEY)) {
    throw new EnclaveRefused('the own quote is not signed by Intel hardware: this is a development stand-in')
  }
}
