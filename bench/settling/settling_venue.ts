/** Runs relayer, watchers and hashing on an embedded chain in its own thread, fed with full batches. */

import { openChain } from '../../engine/chain/open_chain'
import { openHashing } from '../../engine/hashing/open_hashing'
import type {
  BatchStage,
  ChainPort,
  ChainSinkPort,
  HashPort,
  OutboxPort,
  SettlementPayload,
} from '../../engine/ports'
import { EMPTY_SPENT_SUBTREES } from '../../protocol/notes/merkle_tree'
import { publicKeyOf } from '../../protocol/sign'
import { type HostedChain, hostEmbeddedChain } from '../../sandbox/chain/host_embedded_chain'
import { simulatedMachine } from '../../sandbox/enclave/simulated_machine'
import { elements, ORDERS, PROGRAM, randomField } from './batch_work'
import { MemoryOutbox } from './memory_outbox'

/** `landing_ms`: from signed to confirmed, per batch. */
type SettleRun = { batches: number; elapsed_s: number; landing_ms: number[] }

/** Slots and leaves are not measured; a halt ends the bench. */
const SINK: ChainSinkPort = {
  slot: () => undefined,
  leaves: async () => undefined,
  exitRequested: async () => true,
  halted(reason) {
    throw new Error(reason)
  },
  resumed: () => undefined,
  queueCapacity: async () => undefined,
}

/** Of the simulated machine that opens the epoch. */
export const COMPOSE_HASH = new Uint8Array(32).fill(0xab)

/** Opens the first epoch of an empty vault and starts watchers and relayer. */
export async function startPort(port: ChainPort, outbox: OutboxPort): Promise<void> {
  const boot_nonce = crypto.getRandomValues(new Uint8Array(16))
  const position = { compose_hash: COMPOSE_HASH, ...outbox.head(), restore: false }
  const spentRoot = async () => EMPTY_SPENT_SUBTREES.at(-1)
  const passes = async () => true
  await port.openEpoch({ epoch: 1, boot_nonce, ...position, passes, spentRoot }, async () => {})
  const known = { leaf_count: 0, last_batch: 0, epoch: 1, own_boot_nonces: [boot_nonce], exits_open: [] }
  port.start({ sink: SINK, outbox, ...known })
}

/** Values that the program cannot check: only their form and order affect the cost of a batch. */
const payloadOf = (batch_id: number): SettlementPayload => ({
  batch_id,
  nullifiers: elements(ORDERS),
  outputs: elements(2 * ORDERS).map((commitment) => ({ commitment, memo: randomField().slice(0, 16) })),
  payouts: [],
  leaf_count_min: 0,
})

export class SettlingVenue {
  readonly outbox = new MemoryOutbox()

  private constructor(
    readonly chain: HostedChain,
    readonly hash: HashPort,
    readonly port: ChainPort,
  ) {}

  static async open(data_dir: string, slot_ms: number): Promise<SettlingVenue> {
    const settlement_seed = crypto.getRandomValues(new Uint8Array(32))
    const fee_seed = crypto.getRandomValues(new Uint8Array(32))
    const failed = (error: Error): never => {
      throw error
    }
    const { announced, authority_seed, quoteEpoch } = simulatedMachine(COMPOSE_HASH)
    const genesis = { program_path: PROGRAM, announced, fee_payer: publicKeyOf(fee_seed) }
    const chain = await hostEmbeddedChain({ data_dir, slot_ms, genesis, failed })
    const hash = await openHashing({ dir: data_dir, key: new Uint8Array(32) })
    const { program_id, url } = chain
    const seeds = { settlement_seed, fee_seed, authority_seed }
    const quoting = { quoteEpoch: quoteEpoch(settlement_seed) }
    const port = await openChain({ rpc_urls: [url], program_id, ...seeds, ...quoting, hash, slot_ms })
    const venue = new SettlingVenue(chain, hash, port)
    await startPort(port, venue.outbox)
    return venue
  }

  /** Batches without end for `seconds`; counts from the first confirmed to the last. */
  async settle(seconds: number): Promise<SettleRun> {
    const { outbox } = this
    const signed = new Map<number, number>()
    const confirmed = new Map<number, number>()
    const note = (times: Map<number, number>, batch_id: number): void => {
      if (!times.has(batch_id)) times.set(batch_id, performance.now())
    }
    outbox.onSigned = ({ batch_id }) => note(signed, batch_id)
    outbox.onStage = ({ batch_id, stage }: BatchStage) => {
      if (stage === 'confirmed') note(confirmed, batch_id)
    }
    const batches_max = Math.ceil(seconds * 100)
    for (let batch_id = 1; batch_id <= batches_max; batch_id++) outbox.add(payloadOf(batch_id))
    await Bun.sleep(1_000 * seconds)
    const times = [...confirmed.values()]
    const landing_ms = [...confirmed].map(([batch_id, at]) => at - signed.get(batch_id)!)
    if (times.length < 2 || outbox.violations.length > 0)
      throw new Error(`nothing settles: ${outbox.violations[0]}`)
    return { batches: times.length - 1, elapsed_s: (times.at(-1)! - times[0]!) / 1_000, landing_ms }
  }

  async close(): Promise<void> {
    await this.port.close()
    await this.hash.close()
    await this.chain.close()
  }
}
