/** A venue's state with the facts around it: accounts, deposits, slots, hashing and landing, all through `execute`. */

import { expect } from 'bun:test'
import type {
  AccountRecord,
  Command,
  CommandBody,
  CommandOf,
  NoteFact,
  Settings,
} from '../../../engine/commands'
import { encodeCommand } from '../../../engine/machine/codec/command_codec'
import { stateHash } from '../../../engine/machine/codec/state_codec'
import { dueInstruments } from '../../../engine/machine/rules/decide_batch'
import { execute } from '../../../engine/machine/rules/execute'
import { nextHashJob } from '../../../engine/machine/settlement/payload'
import type { AccountEventOut, AuctionRecord, Env, Outcome } from '../../../engine/machine/state/outcome'
import { createState, type State, settingsOf } from '../../../engine/machine/state/state'
import type { HashSeed } from '../../../engine/memory/id_table'
import type { HashJob, HashResult, PayoutStage } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { concatBytes, u64Le, utf8 } from '../../../protocol/bytes'
import { nullifierOf } from '../../../protocol/notes/notes'
import { sha256 } from '../../../protocol/sha256'

export const BASE = seeded('base mint')
export const QUOTE = seeded('quote mint')
const OTHER = seeded('other base mint')
export const SYMBOL = 'SOL-USDC'
/** 1 lot at 1 tick is 1 quote unit. */
export const LOT = 1_000_000n
export const TICK = 1_000n
export const FEE_BPS = 10
export const DESTINATION = seeded('destination')
export const SIGNATURE = new Uint8Array(64).fill(7)
/** Tests and benchmarks need no secret seed, and a failure has to repeat. */
export const FIXED_HASH_SEED: HashSeed = [0x7ac17ac1, 0x5eed5eed]

/** 32 bytes in place of a key, a hash or a blinding. */
export function seeded(text: string): Uint8Array {
  return sha256(utf8(text))
}

export function settings(change: Partial<Settings> = {}): Settings {
  const instrument = (symbol: string, base: Uint8Array) => ({
    symbol,
    base_mint: encodeBase58(base),
    quote_mint: encodeBase58(QUOTE),
    base_decimals: 9,
    quote_decimals: 6,
    lot_size: LOT.toString(),
    tick_size: TICK.toString(),
    min_amount: LOT.toString(),
    max_amount: (LOT * 1_000_000n).toString(),
    batch_slots: 5,
    collar_bps: 2_000,
    fee_bps: FEE_BPS,
    initial_reference: (TICK * 100n).toString(),
    reference_policy: 'last' as const,
    price_rule: 'std4' as const,
    volume_tolerance_bps: 0,
  })
  const mint = (bytes: Uint8Array) => ({
    mint: encodeBase58(bytes),
    decimals: 9,
    min_withdraw: '10',
    withdraw_fee: '3',
  })
  return {
    instruments: [instrument(SYMBOL, BASE), instrument('OTH-USDC', OTHER)],
    mints: [mint(BASE), mint(QUOTE), mint(OTHER)],
    fee_key: encodeBase58(seeded('fee key')),
    fee_anchor: '11'.repeat(32),
    order_life_slots_max: 1_000,
    settlement_parts_max: 6,
    retention_days: 1,
    generation: 0,
    ...change,
  }
}

/** The hashing worker's results, with SHA-256 instead of Poseidon but for nullifiers: the others are opaque to the engine. */
function hashOf(job: HashJob): HashResult {
  const blindingOf = (anchor: Uint8Array, nonce: bigint, index_role: number, order_id: Uint8Array) =>
    sha256(anchor, order_id, u64Le(nonce), u64Le(index_role))
  return {
    nullifiers: job.inputs.map((input) =>
      input.nullifier === undefined ? nullifierOf(input.commitment, input.blinding) : input.nullifier,
    ),
    outputs: job.outputs.map((output) => {
      const blinding = blindingOf(output.anchor, output.nonce, output.index_role, output.order_id)
      const commitment = sha256(output.mint, u64Le(output.amount), output.owner, blinding)
      return { blinding, commitment, memo: sha256(commitment).slice(0, 16) }
    }),
    refund_inners: job.refunds.map((refund) => sha256(utf8('inner'), refund.anchor)),
    refund_blindings: job.refunds.map((refund) => sha256(utf8('refund'), refund.anchor)),
  }
}

type Terms = Partial<Pick<AccountRecord, 'version' | 'state'> & AccountRecord['limits']>

/** An operator's record; the account's key is made of its name. */
export function admission(account_id: string, terms: Terms = {}): AccountRecord {
  const { version = 1, state = 'active', ...change } = terms
  const limits = { rate_capacity: 100, rate_refill_per_s: 50, orders_live_max: 100, keys_max: 10, ...change }
  const account_key = seeded(`account ${account_id}`)
  return { kind: 'account_record', account_id, account_key, version, state, limits, signature: SIGNATURE }
}

export class World {
  state = createState(FIXED_HASH_SEED)
  /** Every accepted command as the journal has it. */
  readonly journal: Uint8Array[] = []
  readonly events: AccountEventOut[] = []
  readonly auctions: AuctionRecord[] = []
  unix_ms = 1_700_000_000_000
  private serial = 0

  constructor(change: Partial<Settings> = {}) {
    this.must({ kind: 'configure', settings: settings(change) })
    this.must({ kind: 'slot', reopens_slot: 0, slot: 1_000 })
  }

  run(body: CommandBody, env: Env = {}): Outcome {
    this.unix_ms += 1
    const command = { ...body, unix_ms: this.unix_ms } as Command
    const outcome = execute(this.state, command, env)
    if (!outcome.ok) return outcome
    this.journal.push(encodeCommand(command))
    this.events.push(...outcome.events)
    this.auctions.push(...outcome.auctions)
    return outcome
  }

  must(body: CommandBody): Extract<Outcome, { ok: true }> {
    const outcome = this.run(body)
    if (!outcome.ok) throw new Error(`refused: ${outcome.code}`)
    return outcome
  }

  account(account_id: string, terms: Terms = {}): string {
    this.must(admission(account_id, terms))
    return account_id
  }

  /** A deposit that is finalized on chain, with the opening its owner would send. */
  deposit(owner: Uint8Array, mint: Uint8Array, amount: bigint): NoteFact {
    const leaf_index = this.state.leaves.size
    const blinding = seeded(`blinding ${leaf_index}`)
    const commitment = sha256(owner, mint, u64Le(amount), blinding)
    const nullifier = nullifierOf(commitment, blinding)
    this.must({ kind: 'leaves', first_index: leaf_index, leaves: [commitment], slot: this.state.slot })
    return { mint, amount, blinding, leaf_index, commitment, nullifier, leaf: leaf_index }
  }

  /** A place command by `owner`, with enough deposited for it unless `change` names a note. */
  placing(
    account_id: string,
    owner: Uint8Array,
    change: Partial<CommandOf<'place'>> = {},
  ): CommandOf<'place'> {
    const serial = ++this.serial
    const side = change.side ?? 'buy'
    const amount = change.amount ?? 10n * LOT
    const price_limit = change.price_limit ?? 100n * TICK
    const mint = side === 'sell' ? BASE : QUOTE
    const value = side === 'sell' ? amount : ((amount / LOT) * (price_limit / TICK) * 102n) / 100n + 1n
    const opening = change.collateral_commitment === undefined ? this.deposit(owner, mint, value) : undefined
    return {
      kind: 'place',
      unix_ms: 0,
      account_id,
      origin: undefined,
      order_id: seeded(`order ${serial}`).slice(0, 16),
      trading_key: owner,
      symbol: SYMBOL,
      side,
      type: 'limit',
      amount,
      price_limit,
      min_fill: 0n,
      expiry_slot: this.state.slot + 500,
      nonce: BigInt(serial),
      collateral_commitment: opening?.commitment ?? new Uint8Array(32),
      anchors: [seeded(`anchor ${serial} a`), seeded(`anchor ${serial} b`)],
      signature: SIGNATURE,
      opening,
      digest: seeded(`digest ${serial}`),
      ...change,
    }
  }

  place(account_id: string, owner: Uint8Array, change: Partial<CommandOf<'place'>> = {}): string {
    const outcome = this.must(this.placing(account_id, owner, change))
    if (outcome.answer.kind !== 'place') throw new Error('not a place answer')
    return outcome.answer.result.order_id
  }

  /** A withdrawal by alice of a fresh note. */
  withdrawing(name: string, nonce: bigint): CommandOf<'withdraw'> {
    const opening = this.deposit(key('a'), BASE, 1_000n)
    return {
      kind: 'withdraw',
      unix_ms: 0,
      account_id: 'alice',
      trading_key: key('a'),
      withdrawal_id: idOf(name),
      commitment: opening.commitment,
      opening,
      destination: DESTINATION,
      amount: 100n,
      nonce,
      expiry_slot: this.state.slot + 500,
      change_anchor: seeded(`change ${name}`),
      signature: SIGNATURE,
    }
  }

  /** Moves the chain to `slot`, closes a batch there if one may be, and commits it: one outcome of all of it. */
  close(slot = this.state.slot + 5 - (this.state.slot % 5)): Extract<Outcome, { ok: true }> {
    const passed = this.must({ kind: 'slot', reopens_slot: 0, slot })
    if (!this.closeOnly()) return passed
    const decided = this.decide('committed')
    return { ...decided, events: [...passed.events, ...decided.events] }
  }

  /** Closes a batch at this slot, undecided; false when nothing is due. */
  closeOnly(): boolean {
    const closed = closeCommand(this.state, this.journal.length + 1)
    if (closed.due.length > 0) this.must(closed)
    return closed.due.length > 0
  }

  decide(outcome: 'committed' | 'void'): Extract<Outcome, { ok: true }> {
    return this.must(decision(this.state, outcome))
  }

  hashAll(): void {
    for (let job = nextHashJob(this.state); job !== undefined; job = nextHashJob(this.state)) {
      this.must({ kind: 'hashed', batch_id: job.batch_id, result: hashOf(job) })
    }
  }

  stage(batch_id: number, stage: 'submitted' | 'confirmed' | 'finalized', change = {}): void {
    const signature = new Uint8Array(64).fill(batch_id)
    this.must({
      kind: 'batch_stage',
      stage: { batch_id, stage, signature, slot: this.state.slot, ...change },
    })
  }

  /** A payout as the chain shows it; paid unless `change` says otherwise. */
  payout(number: number, stage: PayoutStage['stage'], change: Partial<PayoutStage> = {}): void {
    const signature = new Uint8Array(64).fill(100 + number)
    const outcome = stage === 'submitted' ? undefined : ('paid' as const)
    const { slot } = this.state
    const shown = { number, stage, outcome, signature, slot, ...change }
    this.must({ kind: 'payout_stage', stage: shown, refund_spent: false })
  }

  /** Takes every hashed batch to finality and its outputs into the tree. */
  landBatches(): void {
    for (const batch of [...this.state.settlement.batches.values()]) {
      if (batch.hashed === undefined) break
      const leaves = batch.hashed.outputs.map((output) => output.commitment)
      this.stage(batch.batch_id, 'submitted')
      this.stage(batch.batch_id, 'confirmed')
      this.stage(batch.batch_id, 'finalized')
      this.must({ kind: 'leaves', first_index: this.state.leaves.size, leaves, slot: this.state.slot })
    }
  }

  /** The same, and pays every payout. */
  landAll(): void {
    this.landBatches()
    for (const number of [...this.state.settlement.queued.keys()]) this.payout(number, 'finalized')
  }
}

/** A close at this moment would journal these, with seeds that need no key. */
export function closeCommand(state: State, seq: number): Extract<CommandBody, { kind: 'closed' }> {
  const due = dueInstruments(state).map((one) => {
    return { ...one, seed: seeded(`seed ${one.symbol} ${one.batch} ${state.epoch}`) }
  })
  return { kind: 'closed', seq, capacity: settingsOf(state).settlement_parts_max, due }
}

/** The chain's decision of the closed batch, as a quorum would show it. */
export function decision(state: State, outcome: 'committed' | 'void'): CommandBody {
  const { slot, epoch, closed } = state
  const { seq } = closed!
  return { kind: 'decided', seq, outcome, slot, epoch, commit_seq: outcome === 'committed' ? seq : 0 }
}

/** A trading key that never signs: signatures are checked before commands reach the state. */
export function key(name: string): Uint8Array {
  return concatBytes(seeded(`key ${name}`))
}

/** 16 bytes in place of a client's id. */
export const idOf = (name: string) => seeded(name).slice(0, 16)

/**
 * alice with key a: one live buy at 100, one cancelled, place nonce 11, cancel nonce 5; bob with key b: one live buy,
 * place nonce 10; carol is suspended.
 */
export function prepared() {
  const world = new World()
  for (const name of ['alice', 'bob']) world.account(name)
  world.account('carol', { state: 'suspended' })
  const live = world.placing('alice', key('a'), { order_id: idOf('live'), nonce: 10n })
  world.must(live)
  const final = world.placing('alice', key('a'), {
    order_id: idOf('final'),
    price_limit: 90n * TICK,
    nonce: 11n,
  })
  world.must(final)
  world.must(cancelling('alice', key('a'), 'final', 5n))
  world.must(world.placing('bob', key('b'), { order_id: idOf('bobs'), nonce: 10n, price_limit: 80n * TICK }))
  return { world, live, final }
}

export function cancelling(
  account_id: string,
  trading_key: Uint8Array,
  name: string,
  cancel_nonce: bigint,
): CommandOf<'cancel'> {
  const order_id = idOf(name)
  return { kind: 'cancel', unix_ms: 0, account_id, order_id, trading_key, cancel_nonce, signature: SIGNATURE }
}

/** Runs a command that must be rejected and must leave no trace. */
export function refused(world: World, command: CommandBody, env: Env = {}) {
  const before = stateHash(world.state)
  const outcome = world.run(command, env)
  if (outcome.ok) throw new Error('accepted')
  expect(stateHash(world.state)).toEqual(before)
  return outcome
}
