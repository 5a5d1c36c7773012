/** Watches the vault while the venue runs: config at confirmed, leaves at finalized, exit requests at both. */
import type { ChainClient } from './chain_client'
import { readVault } from './read_vault'
import { supervise } from './supervise'
import type { ConfigWatch } from './watch_config'
import type { ExitWatch } from './watch_exits'
import type { LeafWatch } from './watch_leaves'

/** Slots between two looks at the exit requests, which have days. */
const EXIT_SLOTS = 8

export class Watcher {
  #exits_slot = Number.NEGATIVE_INFINITY
  #slot_confirmed = 0
  #slot_finalized = 0

  constructor(
    readonly client: ChainClient,
    readonly config: ConfigWatch,
    readonly leaves: LeafWatch,
    readonly exits: ExitWatch,
    /** The own tree contradicts the chain. */
    readonly mismatch: () => void,
  ) {}

  /** Runs until the client closes or this instance may not go on. */
  run(): Promise<void> {
    return supervise(this.client, async () => {
      if (!(await this.#look())) return false
      await this.client.rpc.sleep(this.client.view.slotMs())
      return true
    })
  }

  async #look(): Promise<boolean> {
    const confirmed = await readVault(this.client, 'confirmed', this.#slot_confirmed)
    this.#slot_confirmed = this.client.view.reached(confirmed.slot)
    if (!this.config.check(confirmed.config)) return false
    const finalized = await readVault(this.client, 'finalized', this.#slot_finalized)
    this.#slot_finalized = this.client.view.reached(finalized.slot)
    if (!(await this.leaves.follow(finalized))) {
      this.mismatch()
      return false
    }
    if (this.#slot_confirmed - this.#exits_slot >= EXIT_SLOTS) {
      this.#exits_slot = this.#slot_confirmed
      await this.exits.follow()
    }
    return true
  }
}
