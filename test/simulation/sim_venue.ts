/** The engine's state machine with its hashing, driven by hand: commands in, a journal out, restarts in between. */
import type { Command, CommandBody, Settings } from '../../engine/commands'
import { hashBatch } from '../../engine/hashing/hash_batch'
import { appendLeaves, emptyTrees, restoreSpent, type Trees } from '../../engine/hashing/trees'
import { nextHashJob } from '../../engine/settlement/next_hash_job'
import { spentBatches } from '../../engine/settlement/spent_batches'
import { decodeCommand } from '../../engine/state/decode_command'
import { decodeState } from '../../engine/state/decode_state'
import { encodeCommand } from '../../engine/state/encode_command'
import { encodeState } from '../../engine/state/encode_state'
import { execute } from '../../engine/state/execute'
import type { Env, Outcome } from '../../engine/state/outcome'
import { createState, type State } from '../../engine/state/state'
import { stateHash } from '../../engine/state/state_hash'
import { toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { seeded } from '../state/world'

/** A simulation longer than this keeps its newest commands only. */
const JOURNAL_MAX = 50_000

export class SimVenue {
  state: State = createState()
  trees: Trees = emptyTrees()
  /** Commands from the start, undefined once there are too many to replay. */
  #journal: Uint8Array[] | undefined = []
  #unix_ms = 1_800_000_000_000
  seq = 0
  head: Uint8Array = new Uint8Array(32)
  accepted = 0
  refused = 0
  readonly #env: Env = { batchSeed: (symbol, batch, epoch) => seeded(`seed ${symbol} ${batch} ${epoch}`) }

  constructor(settings: Settings) {
    this.must({ kind: 'configure', settings })
  }

  run(body: CommandBody): Outcome {
    this.#unix_ms += 1
    const command = { ...body, unix_ms: this.#unix_ms } as Command
    const outcome = execute(this.state, command, this.#env)
    if (!outcome.ok) {
      this.refused += 1
      return outcome
    }
    this.accepted += 1
    const bytes = encodeCommand(command)
    this.seq += 1
    this.head = sha256(this.head, bytes)
    this.#journal?.push(bytes)
    if (this.seq > JOURNAL_MAX) this.#journal = undefined
    return outcome
  }

  must(body: CommandBody): void {
    const outcome = this.run(body)
    if (!outcome.ok) throw new Error(`refused: ${outcome.code}`)
  }

  /** A day passes on the venue's clock. */
  sleep(ms: number): void {
    this.#unix_ms += ms
  }

  hashAll(): void {
    for (let job = nextHashJob(this.state); job !== undefined; job = nextHashJob(this.state)) {
      this.must({ kind: 'hashed', batch_id: job.batch_id, result: hashBatch(this.trees, job) })
    }
  }

  /** What a boot does: the state from its snapshot, the same bytes again. */
  restart(): void {
    const bytes = encodeState(this.state)
    this.state = decodeState(bytes)
    if (toHex(sha256(encodeState(this.state))) !== toHex(sha256(bytes))) throw new Error('a snapshot changed')
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
    restoreSpent(trees, [...spentBatches(this.state)])
    return trees
  }

  /** The whole journal gives this very state; undefined when it is too long to say. */
  replays(): boolean | undefined {
    if (this.#journal === undefined) return undefined
    const state = createState()
    for (const bytes of this.#journal) {
      const outcome = execute(state, decodeCommand(bytes), this.#env)
      if (!outcome.ok) return false
    }
    return toHex(stateHash(state)) === toHex(stateHash(this.state))
  }
}
