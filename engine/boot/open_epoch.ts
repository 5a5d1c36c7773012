/** Opens the next epoch: boot record, opening, finality or confirmation (settlement.md "Nothing is believed because it decrypts"). */

import { randomBytes } from 'node:crypto'
import { STATEMENT_BODY } from '../../protocol/bodies/statements'
import { equalBytes, fromHex } from '../../protocol/bytes'
import { signingKey } from '../../protocol/ed25519'
import { EMPTY_SPENT_SUBTREES } from '../../protocol/notes/merkle_tree'
import { publicKeyOf } from '../../protocol/sign'
import type { ChainPoint } from '../../protocol/units'
import type { EngineConfig } from '../config'
import type { GroupSigner } from '../journal/contract'
import { EpochTaken, type HashPort, type KeysPort, type OpenedEpoch, type VaultConfig } from '../ports'
import type { Engine } from './assemble'
import { type ChainFault, checkState, isIn, judgeJournal } from './check_chain'
import { restoredConfig } from './restore'

/**
 * A node takes over while the openings and positions of the leader before are not final, so it reads the vault at confirmed, and
 * its own opening counts there: the chain port keeps it until it is final.
 */
export const levelOf = ({ cluster }: EngineConfig) => (cluster === undefined ? undefined : 'confirmed')

type Opened = OpenedEpoch & { epoch: number; config: VaultConfig; released: boolean }

/**
 * Resolves with the epoch that is now open, or with the reason why this journal must not trade on this chain.
 * A killed instance may have sent an epoch that lands while this one opens the next. In this case the chain is read again
 * until that epoch is final, and its nonce decides whether it belongs to this journal: a new boot record follows then.
 * @param restore if true, `config.generation` is the incremented one
 */
export async function takeEpoch(
  engine: Engine,
  config: VaultConfig,
  restore: boolean,
): Promise<Opened | ChainFault> {
  const { chain, state, loaded } = engine
  let { released } = loaded.verdict
  for (let known = config, restores = restore; ; ) {
    try {
      const opened = await openEpoch(engine, known, restores)
      return opened === undefined ? 'forked' : { ...opened, released }
    } catch (error) {
      if (!(error instanceof EpochTaken)) throw error
    }
    await Bun.sleep(chain.view().slot_ms)
    known = await chain.readConfig(levelOf(engine.config))
    const verdict = await judgeJournal(known, chain, loaded.journal)
    const fault = verdict.fault ?? checkState(known, state)
    if (fault !== undefined) return fault
    released = verdict.released
    // What landed meanwhile may be the opening of a boot that died restoring, which used the announcement up.
    restores &&= known.generation < config.generation
    if (restores) known = restoredConfig(known)
  }
}

async function spentRootOf(hash: HashPort, batches: number): Promise<Uint8Array | undefined> {
  if (batches > hash.spent().batch_count) return undefined
  return batches === 0 ? EMPTY_SPENT_SUBTREES.at(-1) : (await hash.spentPath(batches, batches)).root
}

/**
 * Appends the boot record before the opening is sent, which states the head before it, and nothing after it: with
 * any answer of the chain, and wherever this process dies, the journal's tail is one that the next boot accepts. After
 * expiry the same nonce is signed again. Undefined when another instance holds the chain's epoch.
 * @throws EpochTaken, or another error of the chain port
 */
async function openEpoch(
  { chain, hash, sequencer, loaded, keys, intake, config: settings }: Engine,
  config: VaultConfig,
  restore: boolean,
): Promise<Omit<Opened, 'released'> | undefined> {
  const epoch = config.epoch + 1
  const level = levelOf(settings)
  const { generation } = config
  const boot_nonce = new Uint8Array(randomBytes(16))
  const compose_hash = fromHex(settings.compose_hash, 32)!
  const before = loaded.journal.head()
  sequencer.signAs(signerOf(keys, intake.venue, epoch))
  let recorded: Promise<unknown> | undefined
  const spentRoot = (batches: number) => spentRootOf(hash, batches)
  const passes = async (position: ChainPoint) => restore || (await isIn(loaded.journal, position))
  const opened = await chain.openEpoch(
    { epoch, boot_nonce, compose_hash, ...before, restore, ...(level && { level }), passes, spentRoot },
    async (signature, transaction) => {
      recorded ??= sequencer.submit({
        kind: 'epoch_intended',
        epoch,
        boot_nonce,
        generation,
        settlement_key: publicKeyOf(keys.settlement_seed),
        signature,
        transaction,
      })
      await recorded
    },
  )
  const now = await chain.readConfig(level)
  if (now.epoch !== epoch || !equalBytes(now.boot_nonce, boot_nonce)) return undefined
  return { ...opened, epoch, config: now }
}

/** The statement key of this boot, certified by the settlement key for this epoch. */
export function signerOf(
  { settlement_seed, statement_seed: seed }: KeysPort,
  venue: Uint8Array,
  epoch: number,
): GroupSigner {
  const { public_key: statement_key } = signingKey(seed)
  const statement = STATEMENT_BODY.encode({ venue, statement_key, epoch: BigInt(epoch) })
  const certificate = signingKey(settlement_seed).sign(statement)
  return { venue, epoch, seed, statement_key, certificate }
}
