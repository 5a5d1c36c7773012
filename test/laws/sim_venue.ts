/** The engine's state machine with its hashing, driven by hand: commands in, a journal out, deaths and boots in between. */

import type { Command, CommandBody, Settings } from '../../engine/commands'
import {
  appendLeaves,
  emptyTrees,
  hashBatch,
  restoreSpent,
  type Trees,
} from '../../engine/hashing/tree_files'
import { decodeCommand, encodeCommand } from '../../engine/machine/codec/command_codec'
import { decodeState } from '../../engine/machine/codec/decode_state'
import { encodeState, stateHash } from '../../engine/machine/codec/encode_state'
import { execute } from '../../engine/machine/rules/execute'
import { nextHashJob } from '../../engine/machine/settlement/payload'
import { nextClose } from '../../engine/machine/state/instrument'
import type { Outcome } from '../../engine/machine/state/outcome'
import { spentBatches } from '../../engine/machine/state/past'
import { createState, type State } from '../../engine/machine/state/state'
import { toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { closeCommand, decision, FIXED_HASH_SEED } from '../kit/venue/machine_world'

/** Commands after which the next snapshot is due. */
const SNAPSHOT_EVERY = 20_000

type Accepted = Extract<Outcome, { ok: true }>

export class SimVenue {
  state: State = createState(FIXED_HASH_SEED)
  trees: Trees = emptyTrees()
  /** Looks at every accepted command and what it did. */
  onAccepted: (command: Command, outcome: Accepted) => void = () => {}
  seq = 0
  head: Uint8Array = new Uint8Array(32)
  accepted = 0
  refused = 0
  replayed = 0
  #unix_ms = 1_800_000_000_000
  /** The newest snapshot and every command since. */
  #snapshot = encodeState(this.state)
  #journal: Uint8Array[] = []

  get unix_ms(): number {
    return this.#unix_ms
  }

  run(body: CommandBody): Outcome {
    this.#unix_ms += 1
    const command = { ...body, unix_ms: this.#unix_ms } as Command
    const outcome = execute(this.state, command, {})
    if (!outcome.ok) {
      this.refused += 1
      return outcome
    }
    this.accepted += 1
    const bytes = encodeCommand(command)
    this.seq += 1
    this.head = sha256(this.head, bytes)
    this.#journal.push(bytes)
    this.onAccepted(command, outcome)
    if (this.#journal.length >= SNAPSHOT_EVERY) this.takeSnapshot()
    return outcome
  }

  must(body: CommandBody): void {
    const outcome = this.run(body)
    if (!outcome.ok) throw new Error(`refused: ${outcome.code}`)
  }

  /** A slot passes; a batch closes where one is due. */
  advance(slot: number): void {
    const before = this.state.slot
    this.must({ kind: 'slot', slot, reopens_slot: 0 })
    if (slot <= before || nextClose(this.state, before) > slot) return
    const closed = closeCommand(this.state, this.seq + 1)
    if (closed.due.length > 0) this.must(closed)
  }

  /** What the chain decides of the closed batch, if there is one. */
  decide(outcome: 'committed' | 'void'): void {
    if (this.state.closed !== undefined) this.must(decision(this.state, outcome))
  }

  /** Time passes on the venue's clock. */
  sleep(ms: number): void {
    this.#unix_ms += ms
  }

  /** Hashes what is packed; `between` runs before each batch. */
  hashAll(between: () => void = () => {}): void {
    for (let job = nextHashJob(this.state); job !== undefined; job = nextHashJob(this.state)) {
      between()
      this.must({ kind: 'hashed', batch_id: job.batch_id, result: hashBatch(this.trees, job) })
    }
  }

  /** The journal since the last snapshot gives this very state, and so does its own snapshot. @throws Error if not */
  takeSnapshot(): void {
    this.#agree(this.#replay())
    const bytes = encodeState(this.state)
    this.#agree(decodeState(bytes, FIXED_HASH_SEED))
    this.#snapshot = bytes
    this.#journal = []
  }

  /** Memory is lost; a boot finds the last snapshot and replays what the journal has since. */
  bootFromJournal(): void {
    const state = this.#replay()
    this.#agree(state)
    this.state = state
  }

  /** The same right after a snapshot: a planned restart. */
  bootFromSnapshot(): void {
    this.takeSnapshot()
    this.state = decodeState(this.#snapshot, FIXED_HASH_SEED)
  }

  /** Trees from the state alone, as after a lost cache. */
  rebuildTrees(): Trees {
    const trees = emptyTrees()
    const { leaves } = this.state
    appendLeaves(
      trees,
      0,
      Array.from({ length: leaves.size }, (_, at) => leaves.at(at).slice()),
    )
    restoreSpent(trees, [...spentBatches(this.state, undefined, 1)])
    return trees
  }

  configure(settings: Settings): void {
    this.must({ kind: 'configure', settings })
  }

  #replay(): State {
    const state = decodeState(this.#snapshot, FIXED_HASH_SEED)
    for (const bytes of this.#journal) {
      if (!execute(state, decodeCommand(bytes), {}).ok) throw new Error('a replay refused a command')
      this.replayed += 1
    }
    return state
  }

  #agree(state: State): void {
    if (toHex(stateHash(state)) !== toHex(stateHash(this.state)))
      throw new Error('a boot gives another state')
  }
}
