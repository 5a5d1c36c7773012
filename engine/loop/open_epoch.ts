/** Takes the next epoch: journals the intention with its signed bytes, sends it, and serves only once it is finalized. */
import { randomBytes } from 'node:crypto'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { EpochTaken } from '../epoch_taken'
import type { Journal } from '../journal/contract'
import type { ChainPort, VaultConfig } from '../ports'
import type { State } from '../state/state'
import { type ChainFault, checkChain } from './check_chain'
import type { Sequencer } from './sequencer'

type Ports = { chain: ChainPort; journal: Journal; sequencer: Sequencer }
export type Opened = { epoch: number; config: VaultConfig }

/**
 * Resolves with the epoch that is now open, or with the reason why this journal must not trade on this chain.
 * An instance that was killed may have sent its epoch, and it may land while this one takes the next: then the chain is
 * read again once that is final, and decides with the journal whose it was.
 */
export async function takeEpoch(
  config: VaultConfig,
  compose_hash: string,
  ports: Ports,
  state: State,
): Promise<Opened | ChainFault> {
  const { chain, journal } = ports
  for (let known = config; ; ) {
    try {
      return (await openEpoch(known, compose_hash, ports)) ?? 'forked'
    } catch (error) {
      if (!(error instanceof EpochTaken)) throw error
    }
    await Bun.sleep(chain.view().slot_ms)
    known = await chain.readConfig()
    const reason = await checkChain(known, state, journal)
    if (reason !== undefined) return reason
  }
}

/**
 * Resolves with the epoch that is now open, or undefined when another instance holds the chain's epoch.
 * @throws EpochTaken, and whatever else the chain refuses it with
 */
export async function openEpoch(
  config: VaultConfig,
  compose_hash_hex: string,
  ports: Ports,
  /** `config.generation` is the raised one then. */
  restore = false,
): Promise<Opened | undefined> {
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
