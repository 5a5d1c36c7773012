/** A venue as it really runs, without listeners, on an embedded chain; its traders, and exit requests to its vault. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createKeyPairSignerFromPrivateKeyBytes, type KeyPairSigner } from '@solana/kit'
import {
  buildTransaction,
  COMPUTE_UNITS_MAX,
  toInstruction,
} from '../../../engine/chain/client/build_transaction'
import type { QuoteEpoch } from '../../../engine/chain/client/chain_client'
import { openChain } from '../../../engine/chain/open_chain'
import type { EngineConfig } from '../../../engine/config'
import { openHashing } from '../../../engine/hashing/open_hashing'
import { openVenue } from '../../../engine/index'
import type { ChainPort, ClockPort, HashPort } from '../../../engine/ports'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { fromHex, readU64Le, toHex } from '../../../protocol/bytes'
import { noteInner, nullifierOf } from '../../../protocol/notes/notes'
import { Refusal } from '../../../protocol/refusals'
import { publicKeyOf } from '../../../protocol/sign'
import { exitRequestAddress, TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import { decodeEvent, type EventOf, innerDataOf, type VaultEvent } from '../../../protocol/vault/events'
import { depositInstruction, requestExitInstruction } from '../../../protocol/vault/exits'
import type * as wire from '../../../protocol/wire/trading'
import type { TokenRequest } from '../../../protocol/wire/trading'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { makeGenesis } from '../../../sandbox/chain/genesis'
import type { Faults } from '../../../sandbox/chain/machine'
import { type OpenedChain, openEmbeddedChain } from '../../../sandbox/chain/open_embedded_chain'
import type { Landed } from '../../../sandbox/chain/store'
import { decodeTransaction } from '../../../sandbox/chain/transaction_meta'
import { simulatedMachine } from '../../../sandbox/enclave/simulated_machine'
import { JTO, USDC } from '../../../sandbox/environment'
import { clientsOf, fundedWallet, mintTo } from '../chain/chain_folder'
import { type JsonVenue, jsonVenue } from './json_venue'
import { testConfig, testKeys } from './open_test_venue'
import { testCredential } from './test_login'
import { type Deposit, element, Trader } from './trader'

const PROGRAM = join(import.meta.dir, '../../../program/vault.so')

/** Needed by a venue on an embedded chain besides its folder. */
export type EmbeddedPlace = {
  rpc_urls: string[]
  program_id: Uint8Array
  authority_seed: Uint8Array
  fee_seed: Uint8Array
  slot_ms: number
  keys: ReturnType<typeof testKeys>
  clock: ClockPort
  quoteEpoch: QuoteEpoch
}

/** Configuration and ports of a venue; the keys are those of its boot. */
/** The terms of a venue on the embedded chain. */
export function embeddedConfig(data_dir: string): EngineConfig {
  // Chain, providers and venues share one machine here: a short lease would be lost to a busy one.
  const template = { ...testConfig(data_dir), settlement_parts_max: 28, lease_ms: 2_000 }
  const mints = template.mints.map((mint) => ({ ...mint, mint: mint.decimals === 9 ? JTO : USDC }))
  const instruments = template.instruments.map((one) => ({ ...one, base_mint: JTO, quote_mint: USDC }))
  return { ...template, mints, instruments }
}

export async function embeddedParts(
  data_dir: string,
  { keys, clock, ...place }: EmbeddedPlace,
  change: Partial<EngineConfig> = {},
) {
  const hash = await openHashing({ dir: join(data_dir, 'trees'), key: keys.journal_key })
  const { settlement_seed } = keys
  const chain = await openChain({ ...place, ...clock, settlement_seed, hash })
  return { config: { ...embeddedConfig(data_dir), ...change }, ports: { clock, keys, hash, chain } }
}

/** The vault's events of a landed transaction. */
export function eventsOf({ bytes, meta }: Pick<Landed, 'bytes' | 'meta'>, program: string): VaultEvent[] {
  const own = decodeTransaction(bytes).message.staticAccounts
  const { innerInstructions } = JSON.parse(meta) as { innerInstructions: Parameters<typeof innerDataOf>[2] }
  const found = innerDataOf(program, { own, loaded: undefined }, innerInstructions)
  return found.flatMap(({ data }) => decodeEvent(data) ?? [])
}

/** A busy machine may lose the lease for a moment. The pause lets the chain's next answer in. */
async function served<T>(act: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await act()
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'lease_lost') throw error
      await Bun.sleep(5)
    }
  }
}

export class EmbeddedSite {
  readonly dir = mkdtempSync(join(tmpdir(), 'tacit-embedded-'))
  /** The settlement key is that of the newest boot. */
  keys = testKeys()
  readonly machine = simulatedMachine(fromHex(testConfig('').compose_hash, 32)!)
  readonly fee_seed = crypto.getRandomValues(new Uint8Array(32))
  readonly fee_payer = publicKeyOf(this.fee_seed)
  readonly fatal: Error[] = []
  chain!: OpenedChain
  venue!: JsonVenue
  hash!: HashPort
  port!: ChainPort
  /** Endpoints of the venues opened from now on; the chain's own where none are named. */
  rpc_urls: string[] | undefined
  /** How far the venue's clocks are ahead of the machine's. */
  later_ms = 0
  private program!: Uint8Array

  constructor(private readonly slot_ms = 10) {}

  async openChain(faults: Faults = {}, finalized_depth = 8, exit_delay_s = 604_800): Promise<void> {
    const options = { slot_ms: this.slot_ms, faults, finalized_depth }
    this.chain = await openEmbeddedChain({ data_dir: join(this.dir, 'chain'), ...options })
    const { fee_payer, machine } = this
    const terms = { program_path: PROGRAM, announced: machine.announced, fee_payer, exit_delay_s }
    this.program = await makeGenesis(this.chain, terms)
  }

  /** The venue of `data_dir`; the newest one opened is the site's. */
  async openVenue(data_dir = this.dir, change: Partial<EngineConfig> = {}): Promise<JsonVenue> {
    const venue = await openVenue(await this.parts(data_dir, change))
    this.venue = jsonVenue(venue)
    return this.venue
  }

  /** Configuration and ports of a venue on this chain. */
  async parts(
    data_dir: string,
    change: Partial<EngineConfig> = {},
  ): Promise<Parameters<typeof openVenue>[0]> {
    this.keys = { ...this.keys, settlement_seed: crypto.getRandomValues(new Uint8Array(32)) }
    const { config, ports } = await embeddedParts(data_dir, this.place(), change)
    this.hash = ports.hash
    this.port = ports.chain
    return { config, ports: { ...ports, fatal: (error) => void this.fatal.push(error) } }
  }

  /** Of the newest boot. */
  place(): EmbeddedPlace {
    const { keys, machine, fee_seed, slot_ms } = this
    return {
      ...{ keys, fee_seed, slot_ms, program_id: this.program },
      authority_seed: machine.authority_seed,
      rpc_urls: this.rpc_urls ?? [this.chain.url],
      quoteEpoch: machine.quoteEpoch(keys.settlement_seed),
      clock: {
        unixMs: () => Date.now() + this.later_ms,
        monotonicMs: () => performance.now() + this.later_ms,
      },
    }
  }

  /** Admits an account as an operator does, with a credential; returns its trader's secrets. */
  async issue(account_id: string): Promise<TokenRequest> {
    await served(() => this.venue.provision({ account_id, version: 1 }))
    const { login, request } = testCredential(account_id, fromHex(this.venue.identity().venue, 32)!)
    await served(() => this.venue.setCredential(undefined, request))
    return login
  }

  /** Deposits from a fresh wallet for a trader's key; resolves once it landed. */
  async deposit(
    { key }: Pick<Trader, 'key'>,
    mint_text: string,
    amount: bigint,
  ): Promise<Deposit & { opening: { leaf_index: number } }> {
    const { chain, program } = this
    const wallet = await fundedWallet(chain)
    await mintTo(chain, mint_text, wallet.address, amount)
    const mint = decodeBase58(mint_text, 32)!
    const blinding = element()
    const inner = noteInner(key, blinding)
    const source = decodeBase58(await associatedTokenAddress(wallet.address, mint_text), 32)!
    const depositor = decodeBase58(wallet.address, 32)!
    const fields = { program, depositor, source, mint, token_program: TOKEN_PROGRAM, amount, inner }
    const { value: lifetime } = await clientsOf(chain)
      .rpc.getLatestBlockhash({ commitment: 'processed' })
      .send()
    const { wire, signature } = await buildTransaction({
      payer: wallet,
      instructions: [toInstruction(depositInstruction(fields), [wallet])],
      lifetime,
      compute_units: 1_400_000,
      priority_fee_lamports: 0n,
    })
    chain.machine.enqueue(decodeTransaction(wire))
    chain.advance(1)
    const landed = chain.machine.store.transaction(encodeBase58(signature))
    if (landed?.error !== 'null') throw new Error(`the deposit did not land: ${landed?.error}`)
    const event = eventsOf(landed, encodeBase58(program)).find(({ kind }) => kind === 'deposited')
    const { commitment, leaf_index } = event as EventOf<'deposited'>
    const opening = { mint: encodeBase58(mint), amount: `${amount}`, blinding: toHex(blinding), leaf_index }
    return { commitment: toHex(commitment), opening }
  }

  /** A token account that can be paid, of a fresh wallet. */
  async payee(mint: string): Promise<string> {
    const wallet = await fundedWallet(this.chain)
    await mintTo(this.chain, mint, wallet.address, 1n)
    return associatedTokenAddress(wallet.address, mint)
  }

  async remove(): Promise<void> {
    await this.venue?.close()
    await this.chain?.close()
    rmSync(this.dir, { recursive: true, force: true })
  }
}

/** Of a token account. */
const TOKEN_AMOUNT_AT = 64

export const soon = () => new Promise((resolve) => setImmediate(resolve))

export class EmbeddedTrading {
  readonly site = new EmbeddedSite()
  alice!: Trader
  bob!: Trader

  async open(faults: Faults = {}, finalized_depth?: number): Promise<void> {
    await this.site.openChain(faults, finalized_depth)
    await this.site.openVenue()
    await this.admit()
  }

  /** Admits the traders, with new keys, to the venue that runs now. */
  async admit(): Promise<void> {
    for (const account_id of ['alice', 'bob']) await this.site.issue(account_id)
    this.alice = this.trader('alice')
    this.bob = this.trader('bob')
  }

  /** A new key of an account; commands are signed for the venue that runs now. */
  trader(account_id: string): Trader {
    const { site } = this
    const ledger = {
      get slot() {
        return site.venue.time().slot
      },
      deposit: (): never => {
        throw new Error('deposits are made on the chain')
      },
    }
    return new Trader({ venue: site.venue, ledger }, account_id)
  }

  /** Resolves once the deposit counts. */
  async deposited(trader: Trader, mint: string, amount: bigint): Promise<Deposit> {
    const { site } = this
    const deposit = await site.deposit(trader, mint, amount)
    const { leaf_index } = deposit.opening
    site.chain.advance(site.chain.machine.depth.finalized + 1)
    for (;;) {
      const known = leaf_index < site.venue.treeRoot().leaf_count
      if (known && (await site.venue.treeInclusion(leaf_index)).usable) return deposit
      await soon()
    }
  }

  /** Orders that cross, each with a new deposit; resolves with the buyer's once both are accepted. */
  async cross(venue: JsonVenue = this.site.venue): Promise<wire.PlaceResult> {
    const money = await this.deposited(this.alice, USDC, 200_000_000n)
    const goods = await this.deposited(this.bob, JTO, 3_000_000_000n)
    const expiry_slot = venue.time().slot + 5_000
    const bought = await venue.place('alice', this.alice.place(money, { expiry_slot }))
    await venue.place('bob', this.bob.place(goods, { side: 'sell', expiry_slot }))
    return bought
  }

  async events(account_id: string, after = 0): Promise<wire.AccountEvent[]> {
    return (await this.site.venue.events(account_id, { after, limit: 500 })).items
  }

  async until(account_id: string, wanted: (event: wire.AccountEvent) => boolean, after = 0): Promise<void> {
    while (!(await this.events(account_id, after)).some(wanted)) await soon()
  }

  /** Resolves once the account on chain is there, or gone, for good. */
  async untilAccount(account: Uint8Array, there: boolean): Promise<void> {
    const at = () => this.site.chain.machine.accountAt(encodeBase58(account), 'finalized')
    while ((at() !== undefined) !== there) await soon()
  }

  async untilBalance(account: Uint8Array, amount: bigint): Promise<void> {
    while (this.balance(account) !== amount) await soon()
  }

  /** Finalized balance of a token account. */
  balance(account: Uint8Array): bigint {
    const { data } = this.site.chain.machine.accountAt(encodeBase58(account), 'finalized')!
    return readU64Le(data, TOKEN_AMOUNT_AT)
  }

  /** A token account of a fresh wallet that holds one unit. */
  async payee(mint: string): Promise<Uint8Array> {
    return decodeBase58(await this.site.payee(mint), 32)!
  }
}

/** Resolves with nullifier and request account once the request landed. @throws Error with the chain's rejection */
export async function requestExit(
  { chain, hash }: { chain: OpenedChain; hash: Pick<HashPort, 'inclusion' | 'leaves' | 'root'> },
  trader: Pick<Trader, 'seed' | 'key'>,
  { commitment, opening }: Deposit,
  destination: Uint8Array,
  /** Payer of the bond, by default a fresh wallet; `sending` gets the signature first. */
  options: { payer?: KeyPairSigner; sending?: (signature: string) => void } = {},
): Promise<{ nullifier: Uint8Array; account: Uint8Array }> {
  const program = chain.program_id!
  const owner = await createKeyPairSignerFromPrivateKeyBytes(trader.seed)
  const payer = options.payer ?? (await fundedWallet(chain))
  const blinding = fromHex(opening.blinding, 32)!
  const nullifier = nullifierOf(fromHex(commitment, 32)!, blinding)
  const leaf_index = opening.leaf_index ?? (await placeOf(hash, commitment))
  const proof = await hash.inclusion(leaf_index)
  const form = opening.leaf_index === undefined ? 'settlement' : 'deposit'
  const instruction = requestExitInstruction({
    program,
    owner: trader.key,
    payer: decodeBase58(payer.address, 32)!,
    mint: decodeBase58(opening.mint, 32)!,
    opening: { form, amount: BigInt(opening.amount), blinding, leaf_index },
    nullifier,
    cited_leaf_count: proof.leaf_count,
    cited_root: proof.root,
    destination,
    refund_inner: element(),
    path: proof.siblings,
  })
  const { value: lifetime } = await clientsOf(chain)
    .rpc.getLatestBlockhash({ commitment: 'processed' })
    .send()
  const { wire, signature } = await buildTransaction({
    payer,
    instructions: [toInstruction(instruction, [owner, payer])],
    lifetime,
    compute_units: COMPUTE_UNITS_MAX,
    priority_fee_lamports: 0n,
  })
  options.sending?.(encodeBase58(signature))
  chain.machine.enqueue(decodeTransaction(wire))
  chain.advance(1)
  const landed = chain.machine.store.transaction(encodeBase58(signature))
  if (landed?.error !== 'null') throw new Error(`the request did not land: ${landed?.error}`)
  return { nullifier, account: exitRequestAddress(program, nullifier) }
}

async function placeOf(hash: Pick<HashPort, 'leaves' | 'root'>, commitment: string): Promise<number> {
  const leaves = await hash.leaves(0, hash.root().leaf_count)
  return leaves.findIndex((leaf) => leaf.toHex() === commitment)
}
