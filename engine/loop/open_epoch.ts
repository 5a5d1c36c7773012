/** Takes the next epoch: journals the intention with its signed bytes, sends it, and serves only once it is finalized. */
import { randomBytes } from 'node:crypto'
import { equalBytes, fromHex } from '../../protocol/bytes'
import type { Journal } from '../journal/contract'
import type { ChainPort, VaultConfig } from '../ports'
import type { Sequencer } from './sequencer'

/**
 * Resolves with the epoch that is now open, or undefined when another instance holds the chain's epoch.
 * Rejects when the chain does not take it; the next boot tries again with the epoch after whatever the chain then says.
 */
export async function openEpoch(
  config: VaultConfig,
  compose_hash_hex: string,
  ports: { chain: ChainPort; journal: Journal; sequencer: Sequencer },
  /** `config.generation` is the raised one then. */
  restore = false,
): Promise<{ epoch: number; config: VaultConfig } | undefined> {
  const { chain, journal, sequencer } = ports
  const epoch = config.epoch + 1
  const boot_nonce = new Uint8Array(randomBytes(16))
  const compose_hash = fromHex(compose_hash_hex, 32)!
  const { generation } = config
  const opened = await chain.openEpoch(
    { epoch, boot_nonce, compose_hash, ...journal.head(), restore },
    async (signature, transaction) => {
      await sequencer.submit({
        kind: 'epoch_intended',
        epoch,
        boot_nonce,
        generation,
        signature,
        transaction,
      })
    },
  )
  const now = await chain.readConfig()
  if (now.epoch !== epoch || !equalBytes(now.boot_nonce, boot_nonce)) return undefined
  await sequencer.submit({ kind: 'epoch_opened', epoch, ...opened })
  await journal.fence(epoch)
  return { epoch, config: now }
}
