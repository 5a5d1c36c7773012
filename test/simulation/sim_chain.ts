/** The real program in a real SVM, moved slot by slot: transactions land or are dropped, blocks are abandoned. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Blockhash, createKeyPairSignerFromPrivateKeyBytes, type KeyPairSigner } from '@solana/kit'
import bs58 from 'bs58'
import { buildTransaction, COMPUTE_UNITS_MAX } from '../../engine/chain/build_transaction'
import { decodeTransaction } from '../../engine/chain/embedded/execute_transaction'
import { makeGenesis } from '../../engine/chain/embedded/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../engine/chain/embedded/open_embedded_chain'
import type { VaultSnapshot } from '../../engine/chain/read_vault'
import { toInstruction } from '../../engine/chain/vault_instruction'
import { encodeBase58 } from '../../protocol/base58'
import { readU64Le, toHex } from '../../protocol/bytes'
import { decodeConfig, decodeMintRecord, decodeRing, decodeTree } from '../../protocol/vault/accounts'
import { mintRecordAddress, vaultAddresses, vaultTokenAddress } from '../../protocol/vault/addresses'
import { vaultErrorCode } from '../../protocol/vault/errors'
import { decodeEvent, type VaultEvent } from '../../protocol/vault/events'
import type { VaultInstruction } from '../../protocol/vault/instruction'

const PROGRAM = join(import.meta.dir, '../../program/vault.so')
export const FINALIZED_DEPTH = 8

export class SimChain {
  readonly #dir = mkdtempSync(join(tmpdir(), 'tacit-simulation-'))
  readonly #signers = new Map<string, KeyPairSigner>()
  /** Events by the slot they landed in; abandoned slots lose theirs. */
  readonly #events = new Map<number, VaultEvent[]>()
  chain!: OpenedChain
  cited_again = 0
  program!: Uint8Array

  async open(settlement_signer: Uint8Array): Promise<void> {
    this.chain = await openEmbeddedChain({
      data_dir: this.#dir,
      slot_ms: 0,
      finalized_depth: FINALIZED_DEPTH,
    })
    this.program = await makeGenesis(this.chain, { program_path: PROGRAM, settlement_signer })
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

  data(account: Uint8Array): Uint8Array | undefined {
    return this.chain.machine.bank.newest(encodeBase58(account))?.data
  }

  /** What the vault holds and owes of a mint. */
  money(mint: Uint8Array): { balance: bigint; liabilities: bigint } {
    const { liabilities } = decodeMintRecord(this.data(mintRecordAddress(this.program, mint))!)!
    return { balance: readU64Le(this.data(vaultTokenAddress(this.program, mint))!, 64), liabilities }
  }

  /** Queues a transaction for the next slot and answers its signature. */
  async send(instruction: VaultInstruction, seeds: Uint8Array[]): Promise<string> {
    const { machine } = this.chain
    const signers = await Promise.all(seeds.map((seed) => this.#signer(seed)))
    const { blockhash } = machine.blockhashes.at(machine.tip)
    const { wire, signature } = await buildTransaction({
      payer: signers[0]!,
      instructions: [toInstruction(instruction, signers)],
      lifetime: { blockhash: blockhash as Blockhash, lastValidBlockHeight: BigInt(machine.height + 150) },
      compute_units: COMPUTE_UNITS_MAX,
      priority_fee_lamports: 0n,
    })
    machine.enqueue(decodeTransaction(wire))
    return signature
  }

  /** One slot; answers the vault's events in it. @throws Error when a transaction failed */
  advance(): VaultEvent[] {
    this.chain.advance(1)
    const { machine } = this.chain
    const events = machine.landedIn(this.tip).flatMap(({ error, meta }) => {
      if (error === 'null') return eventsOf(meta)
      // A deposit landed first and made the cited state unknown: the batch cites again.
      if (error.includes(`${vaultErrorCode('unknown_state')}`)) this.cited_again += 1
      else throw new Error(`the chain refused a transaction: ${error}`)
      return []
    })
    this.#events.set(this.tip, events)
    for (const slot of this.#events.keys()) if (slot <= this.finalized - 2) this.#events.delete(slot)
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

function eventsOf(meta_json: string): VaultEvent[] {
  const meta = JSON.parse(meta_json) as { innerInstructions: { instructions: { data: string }[] }[] }
  return meta.innerInstructions.flatMap(({ instructions }) =>
    instructions.flatMap(({ data }) => {
      const event = data.length < 8 ? undefined : decodeEvent(bs58.decode(data))
      return event ? [event] : []
    }),
  )
}
