/** The keys that open a backup: from the guest agent of the machine that wrote it, or from a laptop's stand-in. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { getKey } from '../../enclave/agent'
import { fromHex } from '../../protocol/bytes'
import { deriveKey, loadKeys } from '../../sandbox/enclave/keys'

export type VenueKeys = { journal_key: Uint8Array; tie_break_key: Uint8Array }

const AGENT_CALL_MS = 10_000
const [JOURNAL, TIE_BREAK] = ['tacit/journal/v1', 'tacit/tie-break/v1'] as const

/** @throws AgentFailure */
export async function agentKeys(socket: string): Promise<VenueKeys> {
  const [journal_key, tie_break_key] = await Promise.all([
    getKey(socket, JOURNAL, AGENT_CALL_MS),
    getKey(socket, TIE_BREAK, AGENT_CALL_MS),
  ])
  return { journal_key, tie_break_key }
}

/** Works while the laptop's venue runs, too: the stand-in's key file is only read. */
export function laptopKeys(data_dir: string): VenueKeys {
  const dir = join(data_dir, 'stand-in')
  if (!existsSync(join(dir, 'development-keys.json')))
    throw new Error(`${data_dir} is no laptop's data folder`)
  const keys = loadKeys(dir, new Uint8Array(32))
  const derive = (path: string) => fromHex(deriveKey(keys, path, 'tacit', 'ed25519').key, 32)!
  return { journal_key: derive(JOURNAL), tie_break_key: derive(TIE_BREAK) }
}
