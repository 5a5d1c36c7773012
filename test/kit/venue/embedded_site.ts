/** A venue as it really runs, without its listeners: embedded chain, vault program, relayer, hashing, account edge. */

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buildTransaction, toInstruction } from '../../../engine/chain/client/build_transaction'
import type { QuoteEpoch } from '../../../engine/chain/client/chain_client'
import { openChain } from '../../../engine/chain/open_chain'
import type { EngineConfig } from '../../../engine/config'
import { openHashing } from '../../../engine/hashing/open_hashing'
import { openVenue } from '../../../engine/index'
import type { ChainPort, ClockPort, HashPort } from '../../../engine/ports'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { fromHex, toHex } from '../../../protocol/bytes'
import { noteInner } from '../../../protocol/notes/notes'
import { Refusal } from '../../../protocol/refusals'
import { publicKeyOf } from '../../../protocol/sign'
import { TOKEN_PROGRAM } from '../../../protocol/vault/addresses'
import { depositInstruction } from '../../../protocol/vault/deposit'
import { decodeEvent, type EventOf, innerDataOf, type VaultEvent } from '../../../protocol/vault/events'
import type { TokenRequest } from '../../../protocol/wire/trading'
import type { Faults } from '../../../sandbox/chain/embedded_chain'
import { associatedTokenAddress } from '../../../sandbox/chain/faucet'
import { makeGenesis } from '../../../sandbox/chain/genesis'
import { type OpenedChain, openEmbeddedChain } from '../../../sandbox/chain/open_embedded_chain'
import type { Landed } from '../../../sandbox/chain/store'
import { decodeTransaction } from '../../../sandbox/chain/transaction_meta'
import { simulatedMachine } from '../../../sandbox/enclave/simulated_machine'
import { JTO, USDC } from '../../../sandbox/environment'
import { clientsOf, mintTo } from '../chain/chain_folder'
import { fundedWallet } from '../chain/transfer'
import { type JsonVenue, jsonVenue } from './json_venue'
import { testConfig, testKeys } from './open_test_venue'
import { testCredential } from './test_login'
import { type Deposit, element, type Trader } from './trader'

const PROGRAM = join(import.meta.dir, '../../../program/vault.so')

/** What a venue on an embedded chain needs beside its folder. */
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
export async function embeddedParts(
  data_dir: string,
  { keys, clock, ...place }: EmbeddedPlace,
  change: Partial<EngineConfig> = {},
) {
  const hash = await openHashing({ dir: join(data_dir, 'trees'), key: keys.journal_key })
  const { settlement_seed } = keys
  const chain = await openChain({ ...place, ...clock, settlement_seed, hash })
  // Chain, providers and venues share one machine here: a short lease would be lost to a busy one.
  const template = { ...testConfig(data_dir), settlement_parts_max: 28, lease_ms: 2_000 }
  const mints = template.mints.map((mint) => ({ ...mint, mint: mint.decimals === 9 ? JTO : USDC }))
  const instruments = template.instruments.map((one) => ({ ...one, base_mint: JTO, quote_mint: USDC }))
  return { config: { ...template, mints, instruments, ...change }, ports: { clock, keys, hash, chain } }
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

  /** Admits an account as an operator does, with a credential; answers what its trader logs in with. */
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
