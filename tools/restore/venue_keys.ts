/** Reads the key that opens a backup: from the guest agent of the machine that wrote it, or from a sandbox's key file. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { getKey } from '../../enclave/agent'
import { KEY_PATHS } from '../../enclave/key_paths'
import { fromHex } from '../../protocol/bytes'
import { deriveKey, loadKeys } from '../../sandbox/enclave/keys'

export type VenueKeys = { journal_key: Uint8Array }

const AGENT_CALL_MS = 10_000

/** @throws AgentFailure */
export async function agentKeys(socket: string): Promise<VenueKeys> {
  return { journal_key: await getKey(socket, KEY_PATHS.journal, AGENT_CALL_MS) }
}

/** Only reads the key file, so the sandbox may be running. */
export function sandboxKeys(data_dir: string): VenueKeys {
  const dir = join(data_dir, 'stand-in')
  if (!existsSync(join(dir, 'development-keys.json')))
    throw new Error(`${data_dir} is not the data folder of a sandbox`)
  const keys = loadKeys(dir, new Uint8Array(32))
  return { journal_key: fromHex(deriveKey(keys, KEY_PATHS.journal, 'tacit', 'ed25519').key, 32)! }
}
