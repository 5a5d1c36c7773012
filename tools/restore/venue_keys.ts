/** Reads the key that opens a backup: from the guest agent of the machine that wrote it, or from a sandbox's key file. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { getKey } from '../../enclave/agent'
import { KEY_PATHS } from '../../enclave/key_paths'
import { fromHex } from '../../protocol/bytes'
import { deriveKey, loadKeys } from '../../sandbox/enclave/keys'

export type VenueKeys = { journal_key: Uint8Array }

const AGENT_CALL_MS = 10_000

/** @throws Error that names the socket */
export async function agentKeys(socket: string): Promise<VenueKeys> {
  const journal_key = await getKey(socket, KEY_PATHS.journal, AGENT_CALL_MS).catch((error: Error) => {
    throw new Error(`${socket}: ${error.message}; only the machine that wrote a backup has its key`)
  })
  return { journal_key }
}

/** Only reads the key file, so the sandbox may be running. */
export function sandboxKeys(data_dir: string): VenueKeys {
  const dir = join(data_dir, 'stand-in')
  if (!existsSync(join(dir, 'development-keys.json')))
    throw new Error(`${data_dir} is not the data folder of a sandbox`)
  const keys = loadKeys(dir, new Uint8Array(32))
  return { journal_key: fromHex(deriveKey(keys, KEY_PATHS.journal, 'tacit', 'ed25519').key, 32)! }
}
