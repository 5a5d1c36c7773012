/**
 * The sandbox's chain, which executes the vault program, in memory: its slots come from the queue, its nodes answer JSON-RPC through the
 * simulated network, and it can be put back to an earlier moment.
 */
import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes, type KeyPairSigner } from '@solana/kit'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { transactionInstructions } from '../../../engine/chain/client/transaction_status'
import { LIMITS } from '../../../engine/limits'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { decodeExitRequest } from '../../../protocol/vault/accounts'
import { vaultAddresses } from '../../../protocol/vault/addresses'
import type { VaultEvent } from '../../../protocol/vault/events'
import { INSTRUCTION, type VaultInstruction } from '../../../protocol/vault/instruction'
import type { BankAccount } from '../../../sandbox/chain/bank'
import { associatedTokenAddress, enqueueSigned, Faucet } from '../../../sandbox/chain/faucet'
import { makeGenesis, moneyAccounts } from '../../../sandbox/chain/genesis'
import { type Faults, Machine } from '../../../sandbox/chain/machine'
import { READ_METHODS, SEND_METHODS } from '../../../sandbox/chain/methods'
import type { OpenedChain } from '../../../sandbox/chain/open_embedded_chain'
import { encodeJson, RpcError } from '../../../sandbox/chain/serve'
import type { Block, Landed, Store } from '../../../sandbox/chain/store'
import { JTO, USDC } from '../../../sandbox/environment'
import type { Announcement } from '../../../tools/program/announcements_of'
import type { Lie } from '../../kit/chain/lying_endpoint'
import { eventsOf } from '../../kit/venue/embedded_site'
import type { Deposit } from '../campaign_check'
import type { Answer } from './network'

const PROGRAM = join(import.meta.dir, '../../../program/vault.so')
const METHODS = { ...READ_METHODS, ...SEND_METHODS }
export const DEPTH = { confirmed: 1, finalized: 4 }
/** Slots by which a node may be behind: a start waits for seven (`LIMITS.start_reads_max`). */
export const BEHIND_MAX = 6
/** Of a node the accounts, the history, or both may be late. */
const ACCOUNTS = ['getAccountInfo', 'getMultipleAccounts', 'getProgramAccounts']
const HISTORY = ['getTransaction', 'getSignaturesForAddress']
export const LATE_READS = [ACCOUNTS, ACCOUNTS, HISTORY, [...ACCOUNTS, ...HISTORY]]
const RICH = 10n ** 17n
/** Bytes of the payout queue: of its header, the place of the capacity in it, and of an entry (program/src/queue.rs). */
const QUEUE = { header: 160, capacity_at: 28, entry: 168 }

const events = new WeakMap<Landed, VaultEvent[]>()
type Accounts = Map<string, BankAccount | undefined>

/** Replaces `Store`: in memory, so that a moment's content is a copy of a few lists. */
class MemoryStore {
  private readonly facts = new Map<string, Uint8Array>()
  newest: Accounts = new Map()
  landed: Landed[] = []
  private known = new Map<string, Landed>()

  fact = (name: string) => this.facts.get(name)
  setFact(name: string, value: Uint8Array): void {
    this.facts.set(name, value)
  }
  blocks = (): Block[] => []
  accounts = () => []
  install(accounts: Iterable<[string, BankAccount | undefined]>): void {
    for (const [address, account] of accounts) this.newest.set(address, account)
  }
  commit(_: Block, landed: Landed[], accounts: Iterable<[string, BankAccount | undefined]>): void {
    this.install(accounts)
    this.landed.push(...landed)
    for (const one of landed) this.known.set(one.signature, one)
  }
  abandon(
    slot: number,
    forks: Uint8Array,
    _: Block[],
    accounts: Iterable<[string, BankAccount | undefined]>,
  ): void {
    this.setFact('forks', forks)
    this.keep(this.landed.filter((one) => one.slot <= slot))
    this.install(accounts)
  }
  keep(landed: Landed[]): void {
    this.landed = landed
    this.known = new Map(landed.map((one) => [one.signature, one]))
  }
  transaction = (signature: string) => this.known.get(signature)
  history(
    address: string,
    slot_max: number,
    before: string | undefined,
    until: string | undefined,
    limit: number,
  ) {
    const at = (signature: string | undefined, otherwise: number) =>
      signature === undefined ? otherwise : this.landed.findIndex((one) => one.signature === signature)
    const below = Math.max(0, at(before, this.landed.length))
    return this.landed
      .slice(at(until, -1) + 1, below)
      .filter(({ slot, mentions }) => slot <= slot_max && mentions.includes(address))
      .toReversed()
      .slice(0, limit)
  }
}

/** Parts that the preload has made public. */
type Inner = Machine & {
  _pending: { land_slot: number }[]
  _forks: number
  _floor: number
  _time_offset_s: number
  bank: { _before: Map<number, Accounts>; _slot: number; finalize(slot: number): void }
  blockhashes: { _blocks: Block[]; _byHash: Map<string, Block> }
}

const isPay = (transaction: Uint8Array): boolean =>
  transactionInstructions(transaction).some(({ data }) => data[0] === INSTRUCTION.pay)

export type ChainMoment = ReturnType<SimulatedChain['moment']>

export class SimulatedChain {
  readonly faults: Faults = {}
  /** Transactions that pay payouts are lost before this slot, so that the queue fills. */
  pays_from = 0
  readonly base = JTO
  readonly quote = USDC
  program!: Uint8Array
  private readonly store = new MemoryStore()
  readonly machine = new Machine(this.store as never as Store, DEPTH, this.faults) as Inner
  private faucet!: Faucet
  /** Of the vault. */
  admin!: KeyPairSigner

  /** @param of the machine that may open epochs, and who pays its fees */
  static async open(
    of: { announced: Announcement[]; fee_payer: Uint8Array },
    exit_delay_s = 604_800,
  ): Promise<SimulatedChain> {
    const chain = new SimulatedChain()
    const { machine, store } = chain
    // Accounts stay known for nodes that are behind.
    const finalize = machine.bank.finalize.bind(machine.bank)
    machine.bank.finalize = (slot) => finalize(slot - BEHIND_MAX)
    const enqueue = machine.enqueue.bind(machine)
    machine.enqueue = (decoded) => {
      if (machine.tip >= chain.pays_from || !isPay(decoded.bytes)) enqueue(decoded)
    }
    const seed = () => crypto.getRandomValues(new Uint8Array(32))
    const faucet = await Faucet.open(machine, seed())
    const admin_seed = seed()
    chain.admin = await createKeyPairSignerFromPrivateKeyBytes(admin_seed)
    chain.faucet = faucet
    machine.install(moneyAccounts(faucet.signer.address))
    const opened = {
      ...{ machine, faucet, admin_seed, genesis_hash: machine.genesis_hash },
      get program_id() {
        return store.fact('program_id')
      },
      advance: (slots: number) => chain.advance(slots),
    }
    const terms = { ...of, exit_delay_s }
    chain.program = await makeGenesis(opened as never as OpenedChain, { program_path: PROGRAM, ...terms })
    chain.shortenQueue(LIMITS.queue_capacity_first)
    for (const mint of [JTO, USDC]) await faucet.mintTo(mint, faucet.signer.address, RICH)
    chain.advance(DEPTH.finalized + 1)
    return chain
  }

  /** A queue of few places, which the payouts of a run fill. */
  private shortenQueue(places: number): void {
    const { bank } = this.machine
    const address = encodeBase58(vaultAddresses(this.program).queue)
    const account = bank.newest(address)!
    const data = account.data.slice(0, QUEUE.header + places * QUEUE.entry)
    new DataView(data.buffer, data.byteOffset).setUint32(QUEUE.capacity_at, places, true)
    this.machine.install([[address, { ...account, data }]])
  }

  advance(slots = 1): void {
    for (let made = 0; made < slots; made++) this.machine.advance()
  }
  /** Every transaction that landed, oldest first. */
  get landed(): readonly Landed[] {
    return this.store.landed
  }
  events(landed: Landed): VaultEvent[] {
    return landed.error === 'null' ? eventsOf(landed, encodeBase58(this.program)) : []
  }

  /** Final ones: leaves and nullifiers in hex, and notes that exits gave back. */
  facts() {
    const [leaves, spent] = [new Set<string>(), new Set<string>()]
    const refunded: Deposit[] = []
    const final = this.machine.slotAt('finalized')
    for (const landed of this.landed) {
      if (landed.slot > final) continue
      const of = events.get(landed) ?? this.events(landed)
      events.set(landed, of)
      for (const event of of) {
        // Its blinding is its owner's alone.
        if (event.kind === 'paid' && event.payout === 'exit' && event.refund !== undefined)
          refunded.push({ ...event, ...event.refund, mint: toHex(event.mint), nullifier: new Uint8Array(32) })
        if (event.kind === 'deposited') leaves.add(toHex(event.commitment))
        if (event.kind === 'paid' && event.refund !== undefined) leaves.add(toHex(event.refund.commitment))
        if (event.kind !== 'settled') continue
        for (const { commitment } of event.outputs) leaves.add(toHex(commitment))
        for (const one of event.nullifiers) spent.add(toHex(one))
      }
    }
    return { leaves, spent, refunded }
  }

  /** Whether an epoch was opened behind this slot. */
  opensAfter(slot: number): boolean {
    const newer = this.landed.filter((one) => one.slot > slot)
    return newer.some((one) => this.events(one).some(({ kind }) => kind === 'epoch_opened'))
  }

  /** Accounts of exit requests, by the newest slot: they end when they were served or refused. */
  requests(): string[] {
    const of = this.machine.bank.ownedBy(encodeBase58(this.program), this.machine.tip)
    return of.filter(([, { data }]) => decodeExitRequest(data) !== undefined).map(([address]) => address)
  }

  /** The machine as a node sees it that is so many slots behind. */
  private ago(slots: number): Machine {
    const { machine } = this
    const slotAt: Machine['slotAt'] = (level) => Math.max(0, machine.slotAt(level) - slots)
    return Object.assign(Object.create(machine), { slotAt })
  }

  /**
   * One request of JSON-RPC.
   * @param lies of a node that changes its answers
   * @param behind slots by which these reads of it are late
   */
  answer(
    body: string,
    lies: Record<string, Lie> = {},
    behind = { slots: 0, reads: [] as readonly string[] },
  ): Answer {
    const { id, method, params } = JSON.parse(body) as { id: unknown; method: string; params?: unknown[] }
    const named = METHODS[method]
    try {
      if (named === undefined) throw new RpcError(-32601, 'Method not found')
      const shown = behind.reads.includes(method) ? this.ago(behind.slots) : this.machine
      const truth = named(shown, params ?? []) ?? null
      const call = { method, params: params ?? [] }
      const told = lies[method]?.(JSON.parse(encodeJson(truth)), call)
      // Null is an answer: there is none.
      const result = told === undefined ? truth : told
      return { status: 200, content: encodeJson({ jsonrpc: '2.0', id, result }) }
    } catch (error) {
      if (!(error instanceof RpcError)) throw error
      const { code, message, data } = error
      return { status: 200, content: encodeJson({ jsonrpc: '2.0', id, error: { code, message, data } }) }
    }
  }

  /** Key and token account of the one who pays for deposits, and to whom payouts can be made. */
  get depositor(): Uint8Array {
    return decodeBase58(this.faucet.signer.address, 32)!
  }
  account(mint: string): string {
    return associatedTokenAddress(this.faucet.signer.address, mint)
  }
  /** Without looking whether it lands. */
  async send(
    instruction: VaultInstruction,
    signers: readonly KeyPairSigner[],
    payer = this.faucet.signer,
  ): Promise<void> {
    await enqueueSigned(this.machine, payer, [toInstruction(instruction, [payer, ...signers])])
  }
  /** Lands before everything that is sent already. */
  async overtake(instructions: readonly VaultInstruction[]): Promise<void> {
    const { machine, faucet } = this
    for (const one of machine._pending) one.land_slot += 2
    const { signer } = faucet
    await enqueueSigned(
      machine,
      signer,
      instructions.map((one) => toInstruction(one, [signer])),
    )
    machine._pending.unshift(machine._pending.pop()!)
  }
  /** Lands it in the next slot, which this makes. @returns its events */
  async land(instruction: VaultInstruction): Promise<VaultEvent[]> {
    const { signer } = this.faucet
    const signature = await enqueueSigned(this.machine, signer, [toInstruction(instruction, [signer])])
    this.advance()
    const landed = this.store.transaction(signature)
    if (landed?.error !== 'null') throw new Error(`did not land: ${landed?.error}`)
    return this.events(landed)
  }

  moment() {
    const { machine, store } = this
    const { tip, _forks: forks, _floor: floor, bank, blockhashes, _pending } = machine
    return {
      ...{ tip, forks, floor, slot: bank._slot },
      unix_s: blockhashes.at(tip).unix_s,
      pending: [..._pending],
      blocks: blockhashes._blocks.map((block) => ({ ...block })),
      before: new Map([...bank._before].map(([slot, accounts]) => [slot, new Map(accounts)])),
      newest: new Map(store.newest),
      landed: [...store.landed],
    }
  }
  /** The clock goes on from there. */
  putBack(to: ChainMoment): void {
    const { machine, store } = this
    const { bank, blockhashes } = machine
    this.pays_from = 0
    for (const address of new Set([...store.newest.keys(), ...to.newest.keys()])) {
      const account = to.newest.get(address)
      if (store.newest.get(address) !== account) bank.put(address, account)
    }
    store.newest = new Map(to.newest)
    store.keep([...to.landed])
    bank._before = new Map([...to.before].map(([slot, accounts]) => [slot, new Map(accounts)]))
    blockhashes._blocks = to.blocks.map((block) => ({ ...block }))
    blockhashes._byHash = new Map(blockhashes._blocks.map((block) => [block.blockhash, block]))
    const { tip, forks, floor } = to
    Object.assign(machine, { tip, _forks: forks, _floor: floor, _pending: [...to.pending] })
    bank._slot = to.slot
    machine._time_offset_s = to.unix_s - Math.floor(Date.now() / 1_000)
    const clock = bank.svm.getClock()
    clock.slot = BigInt(tip)
    clock.unixTimestamp = BigInt(to.unix_s)
    bank.svm.setClock(clock)
  }
}
