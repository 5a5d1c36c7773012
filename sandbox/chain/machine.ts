/** Runs the embedded chain: slots, blockhashes, pending transactions, commitment by depth, forks, and its faults. */
import { encodeBase58 } from '../../protocol/base58'
import { u64Le, utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { Bank, type BankAccount, SYSTEM_PROGRAM } from './bank'
import { type Block, type Landed, readFacts, type Store } from './store'
import { type DecodedTransaction, executeTransaction, nonceAccountOf } from './transaction_meta'

/**
 * Types the options of an embedded chain and the faults that a test injects.
 *
 * It models blockhash life, commitment by depth with the state of each level, landing, repeats and forks. It does not
 * model leaders, competing forks at one time, fee markets, write-lock contention, durable nonces, lookup tables or
 * subscriptions.
 */

/**
 * Faults a test injects. All fields may be changed while the chain runs; the next slot or request sees them.
 * Absent fields mean a healthy cluster.
 */
export type Faults = {
  /** True: the transaction was accepted by the RPC node but never reaches a block. Asked once per arrival. */
  drop?: ((signature: string) => boolean) | undefined
  /** Slots between acceptance and landing; 0 lands in the next slot. */
  landing_delay_slots?: number | undefined
  /** Blocks for which a blockhash stays usable (a cluster's is 150). */
  blockhash_life?: number | undefined
  /** The RPC node reads no v1 transaction, like one that was not upgraded; blocks still contain them. */
  refuse_v1?: boolean | undefined
  /** The error to inject into one RPC request; undefined answers it normally. */
  rpc?: ((method: string) => RpcFault | undefined) | undefined
}
export type RpcFault = {
  /** Answered instead of running the method. */
  error?: { code: number; message: string }
  /** Plain HTTP status (429, 503) instead of running the method. */
  status?: number
  /** The method runs, then the connection answers 503: the caller cannot know that it ran. */
  reply_lost?: boolean
  /** The method runs twice, as behind a retrying proxy. */
  twice?: boolean
}

export type EmbeddedChainOptions = {
  /** Folder that holds this chain; made with mode 0700 when absent. One process at a time. */
  data_dir: string
  /** Milliseconds per slot; 0 makes slots only through `advance`. */
  slot_ms: number
  /** Port of the server; default any that is free, which is also taken where this one is in use. */
  port?: number
  /** Slots behind the tip at which a block is finalized (default 8); it is confirmed one behind it. */
  finalized_depth?: number
  faults?: Faults
}

export type Commitment = 'processed' | 'confirmed' | 'finalized'

/** Blocks for which a node accepts a blockhash. */
const BLOCKHASH_LIFE = 150
/** Blocks a node keeps for validity checks: twice the longest life. */
const WINDOW = 300
/** Pending transactions a node holds before it rejects more. */
const PENDING_MAX = 10_000

/** The recent blocks, by slot and by blockhash. */
class Blockhashes {
  #blocks: Block[] = []
  #byHash = new Map<string, Block>()

  constructor(blocks: Block[]) {
    for (const block of blocks) this.add(block)
  }

  /** Depends on chain, slot and fork count, so the hash of an abandoned block never recurs. */
  static hashOf(genesis_hash: Uint8Array, slot: number, forks: number): string {
    return encodeBase58(sha256(utf8('tacit/embedded/block/v1'), genesis_hash, u64Le(slot), u64Le(forks)))
  }

  add(block: Block): void {
    this.#blocks.push(block)
    this.#byHash.set(block.blockhash, block)
    const expired = this.#blocks.length > WINDOW ? this.#blocks.shift() : undefined
    if (expired) this.#byHash.delete(expired.blockhash)
  }

  /** The newest block at or below `slot`. */
  at(slot: number): Block {
    for (let index = this.#blocks.length - 1; index >= 0; index--) {
      if (this.#blocks[index]!.slot <= slot) return this.#blocks[index]!
    }
    return this.#blocks[0]!
  }

  exact(slot: number): Block | undefined {
    const block = this.at(slot)
    return block.slot === slot ? block : undefined
  }

  heightOf(blockhash: string): number | undefined {
    return this.#byHash.get(blockhash)?.height
  }

  /** Gives every block above `slot` a new hash; returns them. */
  replaceAbove(slot: number, hashOf: (slot: number) => string): Block[] {
    const replaced = this.#blocks.filter((block) => block.slot > slot)
    for (const block of replaced) {
      this.#byHash.delete(block.blockhash)
      block.blockhash = hashOf(block.slot)
      this.#byHash.set(block.blockhash, block)
    }
    return replaced
  }
}

export class Machine {
  readonly genesis_hash: Uint8Array
  readonly bank = new Bank()
  readonly blockhashes: Blockhashes
  readonly faults: Faults
  tip: number
  #forks: number
  #time_offset_s = 0
  /** Slots up to this one were produced by an earlier run and count as finalized. */
  readonly #floor: number
  #pending: { decoded: DecodedTransaction; land_slot: number }[] = []

  constructor(
    readonly store: Store,
    readonly depth: { confirmed: number; finalized: number },
    faults: Faults,
  ) {
    this.faults = faults
    const facts = readFacts(store)
    this.genesis_hash = facts.genesis_hash
    this.#forks = facts.forks
    for (const [address, account] of store.accounts()) this.bank.put(address, account)
    const blocks = store.blocks()
    if (blocks.length === 0) blocks.push(this.#first())
    this.blockhashes = new Blockhashes(blocks)
    this.tip = blocks.at(-1)!.slot
    this.#floor = this.tip
  }

  #first(): Block {
    const block = {
      slot: 0,
      height: 0,
      blockhash: Blockhashes.hashOf(this.genesis_hash, 0, 0),
      unix_s: this.#unixSeconds(),
    }
    this.store.commit(block, [], [])
    return block
  }

  slotAt(commitment: Commitment): number {
    const depth = commitment === 'processed' ? 0 : this.depth[commitment]
    return Math.max(this.tip - depth, Math.min(this.#floor, this.tip), 0)
  }

  accountAt(address: string, commitment: Commitment): BankAccount | undefined {
    return this.bank.at(address, this.slotAt(commitment))
  }

  /** Last block height at which a transaction with this blockhash may land; undefined for an unknown blockhash. */
  lastValidHeight(blockhash: string): number | undefined {
    const height = this.blockhashes.heightOf(blockhash)
    return height === undefined ? undefined : height + (this.faults.blockhash_life ?? BLOCKHASH_LIFE)
  }

  get height(): number {
    return this.blockhashes.at(this.tip).height
  }

  isBlockhashValid(blockhash: string): boolean {
    const last = this.lastValidHeight(blockhash)
    return last !== undefined && this.height <= last
  }

  /** Whether a transaction may land at a height: its blockhash lives, or its nonce account still holds its nonce. */
  isAlive({ message }: DecodedTransaction, height = this.height): boolean {
    const last = this.lastValidHeight(message.lifetimeToken)
    if (last !== undefined) return height <= last
    const account = nonceAccountOf(message)
    const held = account === undefined ? undefined : this.bank.newest(account)
    if (held?.owner !== SYSTEM_PROGRAM || held.data.length !== 80) return false
    return encodeBase58(held.data.subarray(40, 72)) === message.lifetimeToken
  }

  /** Queues a transaction for landing; a duplicate is ignored. @throws RangeError when the queue is full */
  enqueue(decoded: DecodedTransaction): void {
    if (this.#pending.some((pending) => pending.decoded.signature === decoded.signature)) return
    if (this.#pending.length >= PENDING_MAX) throw new RangeError('too many pending transactions')
    this.#pending.push({ decoded, land_slot: this.tip + 1 + (this.faults.landing_delay_slots ?? 0) })
  }

  /**
   * Produces one slot: lands the due transactions, stores the block, then makes it visible. @returns the landed transactions
   */
  advance(): Landed[] {
    const previous = this.blockhashes.at(this.tip)
    const slot = this.tip + 1
    const blockhash = Blockhashes.hashOf(this.genesis_hash, slot, this.#forks)
    const block = { slot, height: previous.height + 1, blockhash, unix_s: this.#unixSeconds() }
    this.bank.begin(slot, block.unix_s)
    const landed = this.#land(block)
    this.store.commit(block, landed, this.#written(slot))
    this.blockhashes.add(block)
    this.tip = slot
    this.bank.finalize(this.slotAt('finalized'))
    return landed
  }

  #land(block: Block): Landed[] {
    const due = this.#pending.filter((pending) => pending.land_slot <= block.slot)
    this.#pending = this.#pending.filter((pending) => pending.land_slot > block.slot)
    const landed: Landed[] = []
    for (const { decoded } of due) {
      const signature = decoded.signature!
      if (!this.isAlive(decoded, block.height)) continue
      if (this.faults.drop?.(signature)) continue
      if (this.store.transaction(signature)) continue
      const transaction = executeTransaction(this.bank, decoded, block.slot, block.unix_s)
      if (transaction) landed.push(transaction)
    }
    return landed
  }

  /** Writes accounts outside any transaction: genesis only. */
  install(accounts: [string, BankAccount][]): void {
    this.advance()
    for (const [address, account] of accounts) this.bank.put(address, account)
    this.store.install(accounts)
  }

  fork(depth: number): void {
    const target = this.tip - depth
    if (depth < 1 || target < this.slotAt('finalized'))
      throw new RangeError('a finalized block is never abandoned')
    this.#forks += 1
    const changed = this.bank.undo(target)
    const blocks = this.blockhashes.replaceAbove(target, (slot) =>
      Blockhashes.hashOf(this.genesis_hash, slot, this.#forks),
    )
    this.store.abandon(
      target,
      u64Le(this.#forks),
      blocks,
      [...changed].map((address) => [address, this.bank.newest(address)]),
    )
    // The abandoned slots exist on the new fork as empty blocks; they can be abandoned again.
    for (const block of blocks) this.bank.begin(block.slot, block.unix_s)
  }

  warpTime(seconds: number): void {
    this.#time_offset_s += seconds
  }

  *#written(slot: number): Iterable<[string, BankAccount | undefined]> {
    for (const address of this.bank.written(slot)) yield [address, this.bank.newest(address)]
  }

  #unixSeconds(): number {
    return Math.floor(Date.now() / 1000) + this.#time_offset_s
  }
}
