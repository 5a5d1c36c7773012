/** Orders the commands of an account on a node that follows (cluster.md "Front nodes"). */
import { Refusal } from '../../protocol/refusals'
import type { KnownNotes } from '../intake/context'
import { LIMITS } from '../limits'
import { indexOf } from '../machine/state/past'
import { laneOf, Shares } from './passing'

type RightsOfTurns = {
  current(): object | undefined
  caughtUp(): Promise<void> | undefined
  handedOver(lane: string): Promise<void> | undefined
}

/** Keeps the order of an account's commands where one of them waits for the replica, or for the next leading node. */
export class Turns {
  /** Accounts whose newest command waits. */
  private readonly waiting = new Map<string, Promise<void>>()
  private readonly share = new Shares(LIMITS.passed_account_max)

  constructor(
    private readonly known: KnownNotes,
    private readonly rights: RightsOfTurns,
  ) {}

  /** Resolves when every waiting request of the account is sent or rejected. */
  async behind(account_id: string): Promise<void> {
    await this.waiting.get(account_id)?.catch(() => undefined)
  }

  /**
   * @param commitments of opened notes: the leading node may have one that the replica does not know
   * @throws Refusal `matching_unavailable` if too many commands of the account wait
   */
  async run<T>(
    account_id: string,
    commitments: readonly Uint8Array[],
    command: () => Promise<T>,
  ): Promise<T> {
    const { known, rights, waiting } = this
    const isUnknown = (one: Uint8Array) => indexOf(known.state, known.past, 'leaves', one) === undefined
    const is_missing = commitments.some(isUnknown)
    const before = waiting.get(account_id)
    const lane = laneOf({ account_id, access: 'trade' })
    const handed = rights.handedOver(lane)
    if (!is_missing && before === undefined && handed === undefined) return command()
    const untilReached = async () => {
      if (handed !== undefined) {
        await handed
        // The same bytes are for the node that leads by now, possibly this one.
        if (rights.current() === undefined) throw new Refusal('outcome_unknown')
      }
      if (is_missing) await rights.caughtUp()
    }
    return this.share.run(lane, async () => {
      const turn = Promise.all([before, untilReached()]).then(() => undefined)
      waiting.set(account_id, turn)
      try {
        await turn
      } finally {
        if (waiting.get(account_id) === turn) waiting.delete(account_id)
      }
      return command()
    })
  }
}
