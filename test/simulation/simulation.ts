/** The world of a simulation: traders with wallets, the vault, the venue, and the relay between them. */
import { associatedTokenAddress } from '../../engine/chain/embedded/faucet'
import type { Settings } from '../../engine/commands'
import type { Note } from '../../engine/state/note'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { depositCommitment, noteInner, nullifierOf } from '../../protocol/notes'
import { publicKeyOf } from '../../protocol/sign'
import { vaultTokenAddress } from '../../protocol/vault/addresses'
import { depositInstruction } from '../../protocol/vault/deposit'
import type { VaultEvent } from '../../protocol/vault/events'
import { openEpochInstruction } from '../../protocol/vault/open_epoch'
import { TOKEN_PROGRAM } from '../../protocol/vault/programs'
import { settings } from '../state/world'
import { Holdings } from './holdings'
import type { Random } from './random'
import { Relay } from './relay'
import { FINALIZED_DEPTH, SimChain } from './sim_chain'
import { SimVenue } from './sim_venue'

export const USDC = 'EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v'
export const JTO = 'jtojtomepa8beP8AuQc6eXt5FriJwfFMwQx2v2f9mCL'
export const SYMBOL = 'SIM-USDC'
export const TRADERS = 8
/** Share of settlements that a node takes and no block ever sees. */
const DROPPED = 0.25
const KEPT_SPENT = 64

export type SimTrader = { account_id: string; seed: Uint8Array; key: Uint8Array }

export class Simulation {
  readonly chain = new SimChain()
  readonly holdings = new Holdings()
  readonly traders: SimTrader[]
  readonly mints = { base: decodeBase58(JTO, 32)!, quote: decodeBase58(USDC, 32)! }
  /** By mint, hex: token accounts that can be paid, and addresses that cannot. */
  readonly payees = new Map<string, Uint8Array[]>()
  /** Blindings of the refund notes that exit requests name, by nullifier. */
  readonly refund_blindings = new Map<string, { owner: number; blinding: Uint8Array }>()
  /** Notes that batches spent lately. */
  readonly spent: Note[] = []
  readonly counts = new Map<string, number>()
  readonly #wallet: Uint8Array
  readonly #settlement_seed: Uint8Array
  venue!: SimVenue
  relay!: Relay

  constructor(readonly random: Random) {
    this.#wallet = random.bytes(32)
    this.#settlement_seed = random.bytes(32)
    this.traders = Array.from({ length: TRADERS }, (_, at) => {
      const seed = random.bytes(32)
      return { account_id: `trader${at}`, seed, key: publicKeyOf(seed) }
    })
  }

  get wallet(): { seed: Uint8Array; key: Uint8Array } {
    return { seed: this.#wallet, key: publicKeyOf(this.#wallet) }
  }

  async open(): Promise<void> {
    const { chain } = this
    await chain.open(publicKeyOf(this.#settlement_seed))
    const owner = encodeBase58(this.wallet.key)
    await chain.chain.faucet.airdrop(owner, 10n ** 15n)
    for (const mint of [JTO, USDC]) {
      await chain.chain.faucet.mintTo(mint, owner, 10n ** 15n)
      const bytes = decodeBase58(mint, 32)!
      const paid = decodeBase58(await associatedTokenAddress(owner, mint), 32)!
      const vault = vaultTokenAddress(chain.program, bytes)
      this.payees.set(toHex(bytes), [paid, paid, paid, this.random.bytes(32), vault])
    }
    chain.advance()
    this.venue = new SimVenue(simSettings(this.traders[0]!.key))
    this.venue.must({ kind: 'slot', slot: chain.tip })
    for (const { account_id } of this.traders) {
      const record = new Uint8Array()
      const terms = { version: 1, status: 'active' as const, orders_live_max: 1_000, keys_max: 10, record }
      this.venue.must({ kind: 'account_record', account_id, ...terms })
    }
    this.relay = new Relay(chain, this.venue, this.#settlement_seed)
    await this.openEpoch()
  }

  /** One slot, and the law; `seen` learns of the slot's events before the law is asked. */
  async tick(
    dropped = this.random.chance(DROPPED),
    seen: (event: VaultEvent) => void = () => {},
  ): Promise<VaultEvent[]> {
    this.#rememberSpent()
    const events = await this.relay.tick(dropped)
    for (const event of events) {
      seen(event)
      if (event.kind === 'settled') this.#settled(event)
    }
    this.holdings.check(this.venue.state, this.chain)
    return events
  }

  /** Ticks until nothing is under way and the newest leaf is final. */
  async quiesce(): Promise<boolean> {
    for (let slots = 0; slots < 200; slots++) {
      const { settlement, leaves } = this.venue.state
      const { tree } = this.chain.vault()
      if (settlement.batches.size === 0 && leaves.size === tree.leaf_count) return true
      await this.tick(false)
    }
    return false
  }

  fork(depth: number): void {
    for (const event of this.relay.fork(depth)) this.holdings.lost(event)
    this.holdings.check(this.venue.state, this.chain)
  }

  async deposit(owner: number, mint: Uint8Array, amount: bigint): Promise<void> {
    const blinding = this.random.element()
    const inner = noteInner(this.traders[owner]!.key, blinding)
    const source = this.payees.get(toHex(mint))![0]!
    const { key: depositor, seed } = this.wallet
    const { program } = this.chain
    const fields = { program, depositor, source, mint, token_program: TOKEN_PROGRAM, amount, inner }
    await this.chain.send(depositInstruction(fields), [seed])
    await this.tick(undefined, (event) => {
      if (event.kind !== 'deposited') return
      const { leaf_index, commitment } = event
      const own = depositCommitment({ mint, amount, inner, leaf_index })
      if (toHex(own) !== toHex(commitment)) throw new Error('the program made another commitment')
      const nullifier = nullifierOf(commitment, blinding)
      const note = { owner, mint, amount, blinding, leaf_index, commitment, nullifier }
      this.holdings.unopened.set(toHex(commitment), note)
    })
  }

  /** A boot: the next epoch, final before anything else happens. */
  async openEpoch(): Promise<void> {
    const { config } = this.chain.vault()
    const { seq, head } = this.venue
    const instruction = openEpochInstruction({
      program: this.chain.program,
      settlement_signer: publicKeyOf(this.#settlement_seed),
      epoch: config.epoch + 1,
      boot_nonce: this.random.bytes(16),
      compose_hash: new Uint8Array(32),
      journal_seq: seq,
      journal_head: head,
      restore: false,
      generation: 0,
    })
    await this.chain.send(instruction, [this.#settlement_seed])
    await this.tick(true)
    this.relay.epoch = config.epoch + 1
    for (let slots = 0; slots < FINALIZED_DEPTH; slots++) await this.tick()
  }

  async close(): Promise<void> {
    await this.chain.close()
  }

  /** Refunded exits belong to their owners again, as notes the venue does not know. */
  #settled(event: Extract<VaultEvent, { kind: 'settled' }>): void {
    this.holdings.refunded(event)
    for (const { nullifier, refund, mint, amount } of event.payouts) {
      const known = nullifier && this.refund_blindings.get(toHex(nullifier))
      if (!known || !refund) continue
      const { commitment, leaf_index } = refund
      const own = { mint, amount, leaf_index, commitment, nullifier: nullifierOf(commitment, known.blinding) }
      this.holdings.unopened.set(toHex(commitment), { ...known, ...own })
    }
  }

  #rememberSpent(): void {
    for (const { inputs } of this.venue.state.settlement.batches.values()) this.spent.push(...inputs)
    this.spent.splice(0, Math.max(0, this.spent.length - KEPT_SPENT))
  }
}

/** The first trader earns the fees, so what was charged trades again. */
function simSettings(fee_key: Uint8Array): Settings {
  const template = settings()
  const [instrument] = template.instruments
  const mint = (text: string, decimals: number) => ({ ...template.mints[0]!, mint: text, decimals })
  return {
    ...template,
    mints: [mint(JTO, 9), mint(USDC, 6)],
    instruments: [{ ...instrument!, symbol: SYMBOL, base_mint: JTO, quote_mint: USDC, batch_slots: 2 }],
    settlement_parts_max: 12,
    retention_days: 1,
    fee_key: encodeBase58(fee_key),
  }
}
