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
  /** The RPC node reads no v1 transaction, as one that was not upgraded; blocks hold them all the same. */
  refuse_v1?: boolean | undefined
  /** The fault of one RPC request; undefined answers it normally. */
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
