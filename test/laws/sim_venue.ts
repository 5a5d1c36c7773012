/** Venue and chain of a simulation: machine with hashing driven by hand, and the real program in an SVM, slot by slot. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Blockhash, createKeyPairSignerFromPrivateKeyBytes, type KeyPairSigner } from '@solana/kit'
import bs58 from 'bs58'
import {
  buildTransaction,
  COMPUTE_UNITS_MAX,
  toInstruction,
} from '../../engine/chain/client/build_transaction'
import type { VaultSnapshot } from '../../engine/chain/client/read_vault'
import type { Command, CommandBody, Settings } from '../../engine/commands'
import {
  appendLeaves,
  emptyTrees,
  hashBatch,
  restoreSpent,
  type Trees,
} from '../../engine/hashing/tree_files'
import { decodeCommand, encodeCommand } from '../../engine/machine/codec/command_codec'
import { decodeState, encodeState, stateHash } from '../../engine/machine/codec/state_codec'
import { execute } from '../../engine/machine/rules/execute'
import { nextHashJob } from '../../engine/machine/settlement/payload'
import { nextClose } from '../../engine/machine/state/instrument'
import type { Outcome } from '../../engine/machine/state/outcome'
import { spentBatches } from '../../engine/machine/state/past'
import { createState, type State } from '../../engine/machine/state/state'
import { encodeBase58 } from '../../protocol/base58'
import { readU64Le, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { publicKeyOf } from '../../protocol/sign'
import {
  decodeConfig,
  decodeMintRecord,
  decodeQueue,
  decodeRing,
  decodeTree,
  type QueueAccount,
} from '../../protocol/vault/accounts'
import { mintRecordAddress, vaultAddresses, vaultTokenAddress } from '../../protocol/vault/addresses'
import { registerPlatformInstructions } from '../../protocol/vault/epochs'
import { VAULT_ERRORS } from '../../protocol/vault/errors'
import { decodeEvent, type VaultEvent } from '../../protocol/vault/events'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { decodeTransaction } from '../../sandbox/chain/transaction_meta'
import { simulatedMachine } from '../../sandbox/enclave/simulated_machine'
import { JTO, SOL, USDC } from '../../sandbox/environment'
import { closeCommand, decision, FIXED_HASH_SEED, settings, TICK } from '../kit/venue/machine_world'

/** Opens the epochs of every simulation. */
export const MACHINE = simulatedMachine(new Uint8Array(32).fill(0xab))
const PROGRAM = join(import.meta.dir, '../../program/vault.so')
export const FINALIZED_DEPTH = 8
/** Slots whose events are kept beyond finality: a venue that was down reads them late. */
const EVENTS_KEPT = 20
/** Rejections of a settlement that came too late, twice, or from an instance that is gone. */
const HARMLESS = ['unknown_state', 'stale_epoch', 'not_settlement_signer', 'batch_out_of_sequence']

export class SimChain {
  readonly #dir = mkdtempSync(join(tmpdir(), 'tacit-simulation-'))
  readonly #signers = new Map<string, KeyPairSigner>()
  /** Events by the slot they landed in; abandoned slots lose theirs. */
  readonly #events = new Map<number, VaultEvent[]>()
  readonly #settlements = new Set<string>()
  /** Accounts as they are until the next slot or fork. */
  readonly #accounts = new Map<string, Uint8Array | undefined>()
  /** Settlements the program rejected, by the name of the error. */
  readonly refusals = new Map<string, number>()
  chain!: OpenedChain
  program!: Uint8Array

  /** @param settlement_seeds keys that have SOL; the first registers the machine */
  async open(settlement_seeds: readonly Uint8Array[]): Promise<void> {
    this.chain = await openEmbeddedChain({
      data_dir: this.#dir,
      slot_ms: 0,
      finalized_depth: FINALIZED_DEPTH,
    })
    this.program = await makeGenesis(this.chain, { program_path: PROGRAM, announced: MACHINE.announced })
    for (const seed of settlement_seeds)
      await this.chain.faucet.airdrop(encodeBase58(publicKeyOf(seed)), 100_000_000_000n)
    this.advance()
    const payer = publicKeyOf(settlement_seeds[0]!)
    const registration = registerPlatformInstructions({ ...MACHINE.platform, program: this.program, payer })
    this.enqueue(await this.sign(registration, [settlement_seeds[0]!]))
    this.advance()
  }

  get tip(): number {
    return this.chain.machine.tip
  }
  get finalized(): number {
    return this.chain.machine.slotAt('finalized')
  }

  /** Newest state, as `processed` shows it. */
  vault(): VaultSnapshot {
    const { config, tree, ring } = vaultAddresses(this.program)
    return {
      slot: this.tip,
      config: decodeConfig(this.data(config)!)!,
      tree: decodeTree(this.data(tree)!)!,
      ring: decodeRing(this.data(ring)!)!,
    }
  }

  /** Open entries of the payout queue. */
  queue(): QueueAccount['entries'] {
    return decodeQueue(this.data(vaultAddresses(this.program).queue)!)!.entries
  }

  data(account: Uint8Array): Uint8Array | undefined {
    const name = toHex(account)
    if (!this.#accounts.has(name)) {
      this.#accounts.set(name, this.chain.machine.bank.newest(encodeBase58(account))?.data)
    }
    return this.#accounts.get(name)
  }

  /** The vault's balance and liabilities of a mint. */
  money(mint: Uint8Array): { balance: bigint; liabilities: bigint; queued: bigint } {
    const { liabilities, queued } = decodeMintRecord(this.data(mintRecordAddress(this.program, mint))!)!
    return { balance: readU64Le(this.data(vaultTokenAddress(this.program, mint))!, 64), liabilities, queued }
  }

  /** `salt` makes another signature over the same instructions. */
  async sign(
    sent: VaultInstruction | VaultInstruction[],
    seeds: Uint8Array[],
    salt = 0,
  ): Promise<Uint8Array> {
    const { machine } = this.chain
    const signers = await Promise.all(seeds.map((seed) => this.#signer(seed)))
    const { blockhash } = machine.blockhashes.at(machine.tip)
    const { wire } = await buildTransaction({
      payer: signers[0]!,
      instructions: [sent].flat().map((one) => toInstruction(one, signers)),
      lifetime: { blockhash: blockhash as Blockhash, lastValidBlockHeight: BigInt(machine.height + 150) },
      compute_units: COMPUTE_UNITS_MAX - salt,
      priority_fee_lamports: 0n,
    })
    return wire
  }

  /** Queues a transaction for the next slot; a settlement or opening may be rejected for coming late. */
  enqueue(wire: Uint8Array, may_be_late = false): void {
    const decoded = decodeTransaction(wire)
    if (may_be_late) this.#settlements.add(decoded.signature!)
    this.chain.machine.enqueue(decoded)
  }

  async send(instruction: VaultInstruction, seeds: Uint8Array[]): Promise<void> {
    this.enqueue(await this.sign(instruction, seeds))
  }

  /** One slot; answers the vault's events in it. @throws Error when a transaction failed that must not */
  advance(): VaultEvent[] {
    const landed = this.chain.machine.advance()
    this.#accounts.clear()
    const events = landed.flatMap(({ signature, error, meta }) => {
      if (error === 'null') return eventsOf(meta)
      const name = nameOf(error)
      if (!this.#settlements.has(signature) || !HARMLESS.includes(name))
        throw new Error(`the chain refused a transaction: ${error}`)
      this.refusals.set(name, (this.refusals.get(name) ?? 0) + 1)
      return []
    })
    this.#events.set(this.tip, events)
    for (const slot of this.#events.keys()) {
      if (slot > this.finalized - EVENTS_KEPT) break
      this.#events.delete(slot)
    }
    return events
  }

  /** Events of a slot that is not long finalized. */
  eventsIn(slot: number): VaultEvent[] {
    return this.#events.get(slot) ?? []
  }

  /** Abandons the newest blocks; answers the events that never were. */
  fork(depth: number): VaultEvent[] {
    const from = this.tip - depth + 1
    this.chain.fork(depth)
    this.#accounts.clear()
    const lost: VaultEvent[] = []
    for (let slot = from; slot <= this.tip; slot++) {
      lost.push(...this.eventsIn(slot))
      this.#events.set(slot, [])
    }
    return lost
  }

  async close(): Promise<void> {
    await this.chain.close()
    rmSync(this.#dir, { recursive: true, force: true })
  }

  async #signer(seed: Uint8Array): Promise<KeyPairSigner> {
    const name = toHex(seed)
    const known = this.#signers.get(name) ?? (await createKeyPairSignerFromPrivateKeyBytes(seed))
    this.#signers.set(name, known)
    return known
  }
}

function nameOf(error: string): string {
  return VAULT_ERRORS.find(([number]) => error.includes(String(number)))?.[1] ?? 'unnamed'
}

function eventsOf(meta_json: string): VaultEvent[] {
  const meta = JSON.parse(meta_json) as { innerInstructions: { instructions: { data: string }[] }[] }
  return meta.innerInstructions.flatMap(({ instructions }) =>
    instructions.flatMap(({ data }) => {
      const event = data.length < 8 ? undefined : decodeEvent(bs58.decode(data))
      return event ? [event] : []
    }),
  )
}

/** Commands after which the next snapshot is due. */
const SNAPSHOT_EVERY = 20_000

type Accepted = Extract<Outcome, { ok: true }>

export class SimVenue {
  state: State = createState(FIXED_HASH_SEED)
  trees: Trees = emptyTrees()
  /** Looks at every accepted command and its effect. */
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

  /** The chain's verdict on the closed batch, if there is one. */
  decide(outcome: 'committed' | 'void'): void {
    if (this.state.closed !== undefined) this.must(decision(this.state, outcome))
  }

  /** Time passes on the venue's clock. */
  sleep(ms: number): void {
    this.#unix_ms += ms
  }

  /** Hashes packed batches; `between` runs before each. */
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

  /** Memory is lost; a boot finds the last snapshot and replays the later records of the journal. */
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

export const MINTS = [JTO, USDC, SOL] as const
/** Every instrument trades around this price. */
export const REFERENCE_TICKS = 1_000
/** Publishes the prices of oracle instruments. */
export const ORACLE = 'sim'

type SimInstrument = { symbol: string; base: string; quote: string; oracle: boolean }
export const INSTRUMENTS: readonly SimInstrument[] = [
  { symbol: 'JTO-USDC', base: JTO, quote: USDC, oracle: false },
  { symbol: 'SOL-USDC', base: SOL, quote: USDC, oracle: true },
  { symbol: 'SOL-JTO', base: SOL, quote: JTO, oracle: true },
]
const TERMS = [
  { price_rule: 'std4' as const, volume_tolerance_bps: 0 },
  { price_rule: 'ref' as const, volume_tolerance_bps: 500 },
  { price_rule: 'std4' as const, volume_tolerance_bps: 0 },
]

/** The holder of `fee_key` trades too, so charged fees trade again. */
export function simSettings(fee_key: Uint8Array): Settings {
  const template = settings()
  const [instrument] = template.instruments
  const mint = (text: string) => ({ ...template.mints[0]!, mint: text, decimals: text === USDC ? 6 : 9 })
  return {
    ...template,
    mints: MINTS.map(mint),
    instruments: INSTRUMENTS.map(({ symbol, base, quote, oracle }, at) => ({
      ...instrument!,
      ...TERMS[at]!,
      batch_slots: 2,
      symbol,
      base_mint: base,
      quote_mint: quote,
      quote_decimals: quote === USDC ? 6 : 9,
      collar_bps: 400,
      initial_reference: (TICK * BigInt(REFERENCE_TICKS)).toString(),
      reference_policy: oracle ? ('oracle' as const) : ('last' as const),
    })),
    reference_sources: INSTRUMENTS.filter(({ oracle }) => oracle).map(({ symbol }) => ({
      symbol,
      max_age_ms: 60_000,
      sources: [{ source: ORACLE, key: encodeBase58(fee_key) }],
    })),
    settlement_parts_max: 12,
    retention_days: 1,
    fee_key: encodeBase58(fee_key),
  }
}
