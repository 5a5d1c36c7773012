/** The real program in a real SVM, moved slot by slot: transactions land or are dropped, blocks are abandoned. */

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
import { encodeBase58 } from '../../protocol/base58'
import { readU64Le, toHex } from '../../protocol/bytes'
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
import { VAULT_ERRORS } from '../../protocol/vault/errors'
import { decodeEvent, type VaultEvent } from '../../protocol/vault/events'
import type { VaultInstruction } from '../../protocol/vault/instruction'
import { registerPlatformInstructions } from '../../protocol/vault/platforms'
import { makeGenesis } from '../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../sandbox/chain/open_embedded_chain'
import { decodeTransaction } from '../../sandbox/chain/transaction_meta'
import { simulatedMachine } from '../../sandbox/enclave/simulated_machine'

/** Opens the epochs of every simulation. */
export const MACHINE = simulatedMachine(new Uint8Array(32).fill(0xab))
const PROGRAM = join(import.meta.dir, '../../program/vault.so')
export const FINALIZED_DEPTH = 8
/** Slots whose events are kept beyond finality: a venue that was down reads them late. */
const EVENTS_KEPT = 20
/** What a settlement may meet that came too late, twice, or from an instance that is gone. */
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
