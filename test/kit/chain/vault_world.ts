/** An embedded chain with an open vault, a depositor and everything the relayer talks to. */

import { expect } from 'bun:test'
import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes, type Instruction } from '@solana/kit'
import { MemoryOutbox } from '../../../bench/settling/memory_outbox'
import { buildTransaction, toInstruction } from '../../../engine/chain/client/build_transaction'
import { chainAddresses } from '../../../engine/chain/client/chain_client'
import { RpcPool } from '../../../engine/chain/client/rpc_pool'
import { type ChainOptions, openChain } from '../../../engine/chain/open_chain'
import { eventHistory } from '../../../engine/chain/watch/vault_events'
import { openHashing } from '../../../engine/hashing/open_hashing'
import type {
  ChainPort,
  ChainSinkPort,
  ExitRequest,
  HashPort,
  Payout,
  SettlementPayload,
} from '../../../engine/ports'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { compareBytes, equalBytes, toHex } from '../../../protocol/bytes'
import { noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { reduceWide } from '../../../protocol/notes/poseidon'
import { publicKeyOf } from '../../../protocol/sign'
import { exitRequestAddress, TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import type { EventOf } from '../../../protocol/vault/events'
import { depositInstruction, requestExitInstruction } from '../../../protocol/vault/exits'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { makeGenesis } from '../../../sandbox/chain/genesis'
import type { Faults } from '../../../sandbox/chain/machine'
import { type OpenedChain, openEmbeddedChain } from '../../../sandbox/chain/open_embedded_chain'
import { decodeTransaction } from '../../../sandbox/chain/transaction_meta'
import { type SimulatedMachine, simulatedMachine } from '../../../sandbox/enclave/simulated_machine'
import { USDC } from '../../../sandbox/environment'
import { chainFolder, clientsOf, fundedWallet, mintTo } from './chain_folder'

const PROGRAM = join(import.meta.dir, '../../../program/vault.so')
const SLOT_MS = 10
/** The announced build. */
export const COMPOSE_HASH = new Uint8Array(32).fill(0xab)

export const randomField = (): Uint8Array => reduceWide(crypto.getRandomValues(new Uint8Array(48)))

/** A sink that records its calls. */
export class MemorySink implements ChainSinkPort {
  readonly told: Uint8Array[] = []
  readonly slots: number[] = []
  readonly halts: string[] = []
  readonly exits: ExitRequest[] = []
  readonly capacities: number[] = []
  /** Halts that were not lifted. */
  readonly standing = new Set<string>()
  /** Whether a request names a note that the engine holds. */
  holds: (request: ExitRequest) => boolean = () => true
  readonly violations: string[] = []
  #listeners = new Set<() => void>()

  slot(slot: number): void {
    if (slot <= (this.slots.at(-1) ?? 0)) this.violations.push('a slot went back')
    this.slots.push(slot)
    this.#changed()
  }
  async leaves(first_index: number, leaves: Uint8Array[]): Promise<void> {
    if (first_index !== this.told.length) this.violations.push('leaves left a gap or came twice')
    this.told.push(...leaves)
    this.#changed()
  }
  async exitRequested(request: ExitRequest): Promise<boolean> {
    if (request.stage === 'confirmed' && !this.holds(request)) return false
    this.exits.push(request)
    this.#changed()
    return true
  }
  async queueCapacity(capacity: number): Promise<void> {
    this.capacities.push(capacity)
    this.#changed()
  }
  halted(reason: string): void {
    this.halts.push(reason)
    this.standing.add(reason)
    this.#changed()
  }
  resumed(reason: string): void {
    this.standing.delete(reason)
    this.#changed()
  }
  until(condition: () => boolean): Promise<void> {
    if (condition()) return Promise.resolve()
    return new Promise((resolve) => {
      this.#listeners.add(() => condition() && resolve())
    })
  }
  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}

export class VaultWorld {
  readonly outbox = new MemoryOutbox()
  sink = new MemorySink()
  /** Settlement key of the newest boot. */
  seed = new Uint8Array(32)
  readonly boot_nonces: Uint8Array[] = []
  /** Exit requests that the next boot knows. */
  exits_open: ExitRequest[] = []
  port!: ChainPort
  hash!: HashPort
  epoch = 0
  private payouts = 0
  readonly #folder = chainFolder()
  private constructor(
    readonly machine: SimulatedMachine,
    readonly chain: OpenedChain,
    readonly program: Uint8Array,
    readonly fee_seed: Uint8Array,
  ) {}

  static async open(faults: Faults = {}, finalized_depth = 8): Promise<VaultWorld> {
    const machine = simulatedMachine(COMPOSE_HASH)
    const folder = chainFolder()
    const chain = await openEmbeddedChain({ data_dir: folder.dir, slot_ms: SLOT_MS, faults, finalized_depth })
    const fee_seed = crypto.getRandomValues(new Uint8Array(32))
    const terms = { announced: machine.announced, fee_payer: publicKeyOf(fee_seed) }
    const program = await makeGenesis(chain, { program_path: PROGRAM, ...terms })
    const world = new VaultWorld(machine, chain, program, fee_seed)
    world.hash = await openHashing({ dir: world.#folder.dir, key: new Uint8Array(32) })
    world.outbox.spentProof = async (nullifier, batch_count) => {
      const spends = ({ nullifiers }: SettlementPayload) =>
        nullifiers.some((one) => equalBytes(one, nullifier))
      const spent = [...world.outbox.payloads.values()].find(spends)
      if (!spent || spent.batch_id > batch_count) return undefined
      const { batch_id, nullifiers } = spent
      return { batch_id, nullifiers, ...(await world.hash.spentPath(batch_id, batch_count)) }
    }
    return world
  }

  /** With the settlement key of a new boot, or that of the last one. */
  connect(options: Partial<ChainOptions> = {}, same_boot = false): Promise<ChainPort> {
    const { chain, program: program_id, machine, fee_seed, hash } = this
    if (!same_boot) this.seed = crypto.getRandomValues(new Uint8Array(32))
    const { seed: settlement_seed } = this
    return openChain({
      authority_seed: machine.authority_seed,
      quoteEpoch: machine.quoteEpoch(settlement_seed),
      rpc_urls: [chain.url],
      program_id,
      settlement_seed,
      fee_seed,
      hash,
      slot_ms: SLOT_MS,
      ...options,
    })
  }

  /** Boots an instance: connects, opens the next epoch, starts watching and relaying. */
  async boot(options: { connect?: Partial<ChainOptions>; same_epoch?: boolean } = {}): Promise<void> {
    this.port = await this.connect(options.connect, options.same_epoch)
    if (!options.same_epoch) await this.openEpoch(this.port)
    const leaf_count = this.sink.told.length
    const { sink, outbox, epoch, boot_nonces: own_boot_nonces, exits_open } = this
    const last_batch = outbox.payloads.size
    this.port.start({ sink, outbox, leaf_count, last_batch, epoch, own_boot_nonces, exits_open })
  }

  private async openEpoch(port: ChainPort): Promise<void> {
    const boot_nonce = crypto.getRandomValues(new Uint8Array(16))
    this.boot_nonces.push(boot_nonce)
    this.epoch += 1
    const position = { compose_hash: COMPOSE_HASH, ...this.outbox.head(), restore: false }
    const spentRoot = async () => (await port.readConfig()).spent_root
    const passes = async () => true
    await port.openEpoch({ epoch: this.epoch, boot_nonce, ...position, passes, spentRoot }, async () => {})
  }

  /** Deposits `amounts` one after the other from a fresh wallet; resolves once they landed. */
  async deposit(...amounts: bigint[]): Promise<void> {
    await this.depositAs(randomField, amounts)
  }

  /** Like `deposit`, with inner hashes of the caller's choice. */
  async depositAs(innerOf: () => Uint8Array, amounts: bigint[]): Promise<void> {
    const { chain, program } = this
    if (this.epoch === 0) {
      // The vault takes no deposit before an instance opened an epoch.
      const port = await this.connect()
      await this.openEpoch(port)
      await port.close()
    }
    const wallet = await fundedWallet(chain)
    await mintTo(chain, USDC, wallet.address, amounts.reduce((a, b) => a + b) + 1n)
    const source = decodeBase58(await associatedTokenAddress(wallet.address, USDC), 32)!
    const depositor = decodeBase58(wallet.address, 32)!
    const mint = decodeBase58(USDC, 32)!
    for (const amount of amounts) {
      const fields = {
        program,
        depositor,
        source,
        mint,
        token_program: TOKEN_PROGRAM,
        amount,
        inner: innerOf(),
      }
      await this.send(wallet, toInstruction(depositInstruction(fields), [wallet]))
    }
  }

  /** Lands one instruction at once. */
  async send(payer: Awaited<ReturnType<typeof fundedWallet>>, instruction: Instruction): Promise<void> {
    const { chain } = this
    const { rpc } = clientsOf(chain)
    const { value: lifetime } = await rpc.getLatestBlockhash({ commitment: 'processed' }).send()
    const built = {
      payer,
      instructions: [instruction],
      lifetime,
      compute_units: 1_400_000,
      priority_fee_lamports: 0n,
    }
    const { wire, signature } = await buildTransaction(built)
    chain.machine.enqueue(decodeTransaction(wire))
    chain.advance(1)
    const landed = chain.machine.store.transaction(encodeBase58(signature))
    if (landed?.error !== 'null') throw new Error(`did not land: ${landed?.error}`)
  }

  /** The next batch: spent notes, output notes and the given payouts. */
  nextPayload(payouts: Payout[] = [], spent = 2, made = 3): SettlementPayload {
    const batch_id = this.outbox.payloads.size + 1
    const outputs = Array.from({ length: made }, () => ({
      commitment: randomField(),
      memo: crypto.getRandomValues(new Uint8Array(16)),
    }))
    return {
      batch_id,
      nullifiers: Array.from({ length: spent }, randomField).sort(compareBytes),
      outputs: outputs.sort((a, b) => compareBytes(a.commitment, b.commitment)),
      payouts,
      leaf_count_min: 1,
    }
  }

  /** A payout with the number that the program will give it; payloads carry payouts in the order of these calls. */
  payout(fields: Pick<Payout, 'mint' | 'destination' | 'amount'> & Partial<Payout>): Payout {
    this.payouts += 1
    return { number: this.payouts, kind: 'withdrawal', refund_inner: randomField(), ...fields }
  }

  async settlementSigner() {
    return createKeyPairSignerFromPrivateKeyBytes(this.seed)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async close(): Promise<void> {
    await this.port?.close()
    await this.hash.close()
    await this.chain.close()
    this.#folder.remove()
  }
}

/** Settled batches as anybody reads them from the finalized chain, oldest first. */
async function settledOnChain(world: VaultWorld): Promise<EventOf<'settled'>[]> {
  const rpc = new RpcPool([world.chain.url], 5_000)
  const { address } = chainAddresses(world.program)
  const settled: EventOf<'settled'>[] = []
  for await (const events of eventHistory({ rpc, address }, address.config, 'finalized')) {
    for (const { event } of events) if (event.kind === 'settled') settled.unshift(event)
  }
  return settled
}

export async function expectLandedOnce(world: VaultWorld, batches: number): Promise<void> {
  const settled = await settledOnChain(world)
  expect(settled.map((event) => event.batch)).toEqual(Array.from({ length: batches }, (_, at) => at + 1))
  for (const event of settled) {
    const payload = world.outbox.payloads.get(event.batch)!
    expect(event.nullifiers.map(toHex)).toEqual(payload.nullifiers.map(toHex))
    expect(event.outputs.map(({ commitment }) => toHex(commitment))).toEqual(
      payload.outputs.map(({ commitment }) => toHex(commitment)),
    )
  }
  expect(world.outbox.violations).toEqual([])
  expect(world.sink.violations).toEqual([])
}

const mint = decodeBase58(USDC, 32)!

/**
 * A finalized deposit of `amount` whose owner asks for it back; resolves once the request landed. It is to be paid to the
 * owner's token account, or to the account that pays the bond.
 */
export async function requestExitOf(world: VaultWorld, amount: bigint, to: 'own' | 'bond_payer' = 'own') {
  const owner = await fundedWallet(world.chain)
  const key = decodeBase58(owner.address, 32)!
  const blinding = randomField()
  const { leaf_count: leaf_index } = await world.port.readConfig()
  await world.depositAs(() => noteInner(key, blinding), [amount])
  await world.sink.until(() => world.sink.told.length === leaf_index + 1)
  await mintTo(world.chain, USDC, owner.address, 1n)
  const proof = await world.hash.inclusion(leaf_index)
  const nullifier = nullifierOf(proof.leaf, blinding)
  const refund_inner = randomField()
  const own = decodeBase58(await associatedTokenAddress(owner.address, USDC), 32)!
  const destination = to === 'own' ? own : key
  const instruction = requestExitInstruction({
    program: world.program,
    owner: key,
    payer: key,
    mint,
    opening: { form: 'deposit', amount, blinding, leaf_index },
    nullifier,
    cited_leaf_count: proof.leaf_count,
    cited_root: proof.root,
    destination,
    refund_inner,
    path: proof.siblings,
  })
  const send = () => world.send(owner, toInstruction(instruction, [owner]))
  await send()
  const account = exitRequestAddress(world.program, nullifier)
  return { nullifier, destination, refund_inner, send, account, owner: key }
}
