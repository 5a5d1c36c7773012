/** Follows the finalized note tree: passes leaves to the engine and keeps the states that a settlement may cite. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import { LIMITS } from '../../limits'
import type { ChainSinkPort, HashPort } from '../../ports'
import type { ChainClient } from '../client/chain_client'
import type { VaultReader, VaultSnapshot } from '../client/read_vault'
import type { Answer } from '../client/rpc_pool'
import { eventHistory, leavesOf } from './vault_events'

export type NoteTreeState = { leaf_count: number; root: Uint8Array }

/** States of the note tree that the chain has finalized and the venue's tree reproduces: only these may be cited. */
export class KnownStates {
  private readonly roots = new Map<number, string>()

  /** @param quorum providers that must show a state for it to be known on chain */
  constructor(readonly quorum: number) {}

  verified(state: NoteTreeState): void {
    this.roots.set(state.leaf_count, toHex(state.root))
    const oldest = this.roots.keys().next().value
    if (this.roots.size > LIMITS.tree_states_kept && oldest !== undefined) this.roots.delete(oldest)
  }

  /** Undefined for a state of which the venue's tree says nothing. */
  isVerified(state: NoteTreeState): boolean | undefined {
    const root = this.roots.get(state.leaf_count)
    return root === undefined ? undefined : root === toHex(state.root)
  }

  /**
   * A verified state with at least `leaf_count_min` leaves that the program accepts now: the newest in the ring, otherwise
   * the current one, which becomes unknown to the program if a deposit lands first.
   */
  cite(shown: readonly VaultSnapshot[], leaf_count_min: number): NoteTreeState | undefined {
    return this.citeKept(shown, leaf_count_min) ?? this.newest(shown.map(statesOf), leaf_count_min)
  }

  /** The newest such state in the ring: it stays known while earlier batches land. */
  citeKept(shown: readonly VaultSnapshot[], leaf_count_min: number): NoteTreeState | undefined {
    return this.newest(
      shown.map(({ ring }) => ring.states),
      leaf_count_min,
    )
  }

  private newest(shown: readonly NoteTreeState[][], leaf_count_min: number): NoteTreeState | undefined {
    return statesOfQuorum(shown, this.quorum).findLast(
      (state) => state.leaf_count >= leaf_count_min && this.isVerified(state),
    )
  }
}

const statesOf = ({ ring, tree }: VaultSnapshot): NoteTreeState[] => [...ring.states, tree]

/** The states that at least `quorum` of the lists hold, ascending. */
function statesOfQuorum(lists: readonly NoteTreeState[][], quorum: number): NoteTreeState[] {
  const held = new Map<string, { state: NoteTreeState; lists: Set<NoteTreeState[]> }>()
  for (const list of lists) {
    for (const state of list) {
      const key = `${state.leaf_count} ${toHex(state.root)}`
      const entry = held.get(key) ?? { state, lists: new Set() }
      held.set(key, entry)
      entry.lists.add(list)
    }
  }
  const agreed = [...held.values()].filter((entry) => entry.lists.size >= quorum)
  return agreed.map(({ state }) => state).sort((a, b) => a.leaf_count - b.leaf_count)
}

export class LeafWatch {
  /** Index of the first leaf that was not passed on yet. */
  private next: number

  constructor(
    readonly client: Pick<ChainClient, 'rpc' | 'address' | 'health' | 'view'>,
    readonly hash: HashPort,
    readonly states: KnownStates,
    readonly sink: ChainSinkPort,
    leaf_count: number,
  ) {
    this.next = leaf_count
  }

  /**
   * Passes on new leaves as far as a quorum has them. False when a quorum contradicts the venue's tree: nothing may be
   * credited or settled then; true when a quorum shows its state; undefined otherwise.
   * @throws ChainUnavailable
   */
  async follow(shown: readonly Answer<VaultSnapshot>[]): Promise<boolean | undefined> {
    const { rpc, health } = this.client
    const states = shown.map(({ value }) => statesOf(value))
    const { leaf_count, root } = this.hash.root()
    const own = { leaf_count, root: toHex(root) }
    const same = states.map((list) => list.find((state) => state.leaf_count === own.leaf_count))
    for (const [index, { at, value }] of shown.entries()) {
      const differs = same[index] && toHex(same[index].root) !== own.root
      health.judge('tree', at, !differs && this.states.isVerified(value.tree) !== false)
    }
    const equal = same.filter((state) => state && toHex(state.root) === own.root)
    if (same.filter(Boolean).length - equal.length >= rpc.quorum) return false
    if (equal[0]) this.states.verified(equal[0])
    const end = rpc.reached(shown.map(({ value }) => value.tree.leaf_count))!
    const leaves = end > this.next ? await this.collect(this.next, end) : undefined
    if (leaves && !(await this.passOn(leaves, states.flat()))) return false
    return equal.length >= rpc.quorum ? true : undefined
  }

  /**
   * Appends leaves that a quorum shows; passes them on as far as the tree then has the root of a state on chain. Leaves that a
   * cached tree has beyond the journal are compared at the next state. False if they differ.
   */
  private async passOn(leaves: readonly Uint8Array[], states: readonly NoteTreeState[]): Promise<boolean> {
    const first = this.next
    const mirrored = await this.hash.leaves(first, leaves.length)
    if (mirrored.some((leaf, at) => !equalBytes(leaf, leaves[at]!))) return false
    const counts = new Set(states.map(({ leaf_count }) => leaf_count))
    for (const count of [...counts].sort((a, b) => a - b)) {
      if (count <= this.next || count > first + leaves.length) continue
      const piece = leaves.slice(this.next - first, count - first)
      const own = await this.hash.appendLeaves(this.next, piece)
      if (!states.some((state) => state.leaf_count === own.leaf_count && equalBytes(state.root, own.root)))
        continue
      this.states.verified(own)
      if (own.leaf_count !== count) continue
      await this.sink.leaves(this.next, piece, this.client.view.agreed('finalized'))
      this.next = count
    }
    return true
  }

  /** Leaves `from` to `to`, exclusive; undefined while no quorum of providers shows all of them alike. */
  private async collect(from: number, to: number): Promise<Uint8Array[] | undefined> {
    const { rpc, address, health } = this.client
    const answers = await rpc.all((reader) => collectLeaves({ rpc: reader, address }, from, to))
    const keyOf = (leaves: Uint8Array[] | undefined) => leaves?.map(toHex).join() ?? 'absent'
    return health.decide('leaves', answers, keyOf, (leaves) => leaves === undefined)
  }
}

/** Undefined while the provider's history does not show all of them. @throws ChainUnavailable */
async function collectLeaves(
  client: VaultReader,
  from: number,
  to: number,
): Promise<Uint8Array[] | undefined> {
  const leaves: (Uint8Array | undefined)[] = new Array(to - from).fill(undefined)
  let missing = to - from
  for await (const events of eventHistory(client, client.address.tree, 'finalized')) {
    const found = events.flatMap(({ event }) => leavesOf(event))
    for (const { leaf_index, commitment } of found) {
      if (leaf_index < from || leaf_index >= to || leaves[leaf_index - from]) continue
      leaves[leaf_index - from] = commitment
      missing -= 1
    }
    if (missing === 0) return leaves as Uint8Array[]
    if (found.some(({ leaf_index }) => leaf_index < from)) return undefined
  }
  return undefined
}
