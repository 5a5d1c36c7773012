/** Opens a venue in a temporary folder: real journal, state machine, read models and hashing; a chain in memory. */

import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { assemble, type Engine } from '../../../engine/boot/assemble'
import { loadState } from '../../../engine/boot/load_state'
import { isRestore, restoredConfig } from '../../../engine/boot/restore'
import { start } from '../../../engine/boot/start'
import type { EngineConfig } from '../../../engine/config'
import { openHashing } from '../../../engine/hashing/open_hashing'
import { venueOf } from '../../../engine/methods/venue_methods'
import type { KeysPort } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { toHex, utf8 } from '../../../protocol/bytes'
import { fieldToBytes } from '../../../protocol/notes/poseidon'
import { publicKeyOf } from '../../../protocol/sign'
import { type DiskFaults, failing } from './failing_disk'
import { type JsonVenue, jsonVenue } from './json_venue'
import { bytes, Ledger, MemoryChain } from './memory_chain'
import { OPERATOR_SEED, type TestAccounts, testAccounts } from './test_login'

/** Small, so that opening and copying a journal costs little. */
const SEGMENT_BYTES = 2 * 1024 * 1024

/** Keys of the venue under test, all from one word. */
export function testKeys(
  word = 'venue',
): KeysPort & { statement_key: Uint8Array; settlement_seed: Uint8Array } {
  const key = (name: string) => new Uint8Array(createHmac('sha256', word).update(utf8(name)).digest())
  const seed = key('statement')
  return {
    journal_key: key('journal'),
    tie_break_key: key('tie'),
    credential_key: key('credential'),
    settlement_seed: key('settlement'),
    statement_seed: seed,
    statement_key: publicKeyOf(seed),
  }
}

export const BASE_MINT = bytes(32)
export const QUOTE_MINT = bytes(32)

/** Lots of 0.001 with 9 decimals, ticks of 0.01 with 6 decimals. */
export function testConfig(data_dir: string): EngineConfig {
  const mint = (text: Uint8Array, decimals: number) => ({
    mint: encodeBase58(text),
    decimals,
    min_withdraw: '1000',
    withdraw_fee: '100',
  })
  const base_mint = encodeBase58(BASE_MINT)
  const quote_mint = encodeBase58(QUOTE_MINT)
  const instrument = (symbol: string): EngineConfig['instruments'][number] => ({
    symbol,
    base_mint,
    quote_mint,
    base_decimals: 9,
    quote_decimals: 6,
    lot_size: '1000000',
    tick_size: '10000',
    min_amount: '1000000',
    max_amount: '1000000000000',
    batch_slots: 2,
    collar_bps: 2000,
    fee_bps: 10,
    initial_reference: '100000000',
    reference_policy: 'last',
    price_rule: 'std4',
    volume_tolerance_bps: 0,
  })
  return {
    data_dir,
    instruments: [instrument('SOL-USDC'), instrument('ALT-USDC')],
    mints: [mint(BASE_MINT, 9), mint(QUOTE_MINT, 6)],
    fee_key: encodeBase58(publicKeyOf(new Uint8Array(32).fill(7))),
    fee_anchor: toHex(fieldToBytes(99n)),
    operator_key: encodeBase58(publicKeyOf(OPERATOR_SEED)),
    auditor_key: '',
    compose_hash: 'ab'.repeat(32),
    tacit_version: '0.1.0',
    enclave: 'development',
    self_check_reasons: [],
    token_ttl_s: 900,
    order_life_slots_max: 10_000,
    settlement_parts_max: 28,
    retention_days: 30,
    lease_ms: 400,
    anchor_max_ms: 30_000,
    commit_ms: 6_400,
    reopen_slots: 2,
  }
}

export type TestVenue = {
  venue: JsonVenue
  engine: Engine
  chain: MemoryChain
  ledger: Ledger
  keys: ReturnType<typeof testKeys>
  accounts: TestAccounts
  config: EngineConfig
  fatal: Error[]
  /** Closes as a clean stop does, keeps the folder. */
  close(): Promise<void>
}

/** A folder and a ledger that outlive restarts of the venue in it; both are new after `remove`. */
export class TestSite {
  dir!: string
  /** The settlement key is that of the newest boot. */
  keys!: ReturnType<typeof testKeys>
  ledger!: Ledger
  /** How far a test has moved the monotonic clock. */
  later_ms!: number
  /** A test may stop it. */
  monotonicMs!: () => number
  /** The chain's clock; a test may move it. */
  unixMs!: () => number
  /** The host's wall clock, years off, which nothing may notice. */
  wallMs!: () => number
  segment_bytes = SEGMENT_BYTES
  private running: TestVenue | undefined

  constructor() {
    this.begin()
  }

  private begin(): void {
    this.dir = mkdtempSync(join(tmpdir(), 'tacit-engine-'))
    this.keys = testKeys()
    const mints = [
      { mint: BASE_MINT, decimals: 9 },
      { mint: QUOTE_MINT, decimals: 6 },
    ]
    this.ledger = new Ledger(mints, publicKeyOf(this.keys.settlement_seed))
    this.later_ms = 0
    this.monotonicMs = () => performance.now() + this.later_ms
    this.unixMs = () => Date.now()
    this.wallMs = () => 7
  }

  /** `faults` counts the journal's writes from this opening. */
  async open(change: Partial<EngineConfig> = {}, dir = this.dir, faults?: DiskFaults): Promise<TestVenue> {
    const config = { ...testConfig(dir), ...change }
    this.ledger.unixMs = () => this.unixMs()
    this.keys = { ...this.keys, settlement_seed: crypto.getRandomValues(new Uint8Array(32)) }
    const chain = new MemoryChain(this.ledger, publicKeyOf(this.keys.settlement_seed))
    const hash = await openHashing({ dir: join(dir, 'trees'), key: this.keys.journal_key })
    const clock = { unixMs: () => this.wallMs(), monotonicMs: () => this.monotonicMs() }
    const fatal: Error[] = []
    const ports = { clock, hash, chain, keys: this.keys, fatal: (error: Error) => void fatal.push(error) }
    const loaded = await loadState(config, ports, await chain.readConfig(), {
      segment_bytes: this.segment_bytes,
      ...failing(faults),
    })
    const { vault } = loaded
    const mints = await chain.readMints()
    let accounts!: TestAccounts
    const engine = assemble(config, ports, loaded, { config: vault, mints }, (book) => {
      accounts = testAccounts(book)
      return accounts
    })
    chain.decided = async () => {
      await engine.sequencer.durable()
      while (engine.state.closed !== undefined) await new Promise((resolve) => setImmediate(resolve))
      await engine.sequencer.durable()
    }
    const restore = await isRestore(vault, loaded)
    await start(engine, restore ? restoredConfig(vault) : vault, restore)
    const venue = jsonVenue(venueOf(engine))
    const close = async () => {
      this.running = undefined
      await venue.close()
    }
    const { ledger, keys } = this
    this.running = { venue, engine, chain, ledger, keys, accounts, config, fatal, close }
    return this.running
  }

  /** Closes everything open, removes the folder and begins from the start. */
  async remove(): Promise<void> {
    await this.running?.close()
    rmSync(this.dir, { recursive: true, force: true })
    this.begin()
  }
}

/** Which files of a running venue's folder a copy takes: the spare segment is still being prepared and holds no record. */
export function isAtRest(path: string): boolean {
  return !/\/spare[^/]*$/.test(path)
}
