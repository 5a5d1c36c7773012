/** Opens the embedded chain: litesvm with its state on disk, served by JSON-RPC on loopback. */

import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Faucet, faucetMethods } from './faucet'
import { moneyAccounts } from './genesis'
import { type EmbeddedChainOptions, Machine } from './machine'
import { READ_METHODS, SEND_METHODS } from './methods'
import { serveRpc } from './serve'
import { Store } from './store'

/** The running chain, with its inner parts for genesis and tests. */
export type OpenedChain = Awaited<ReturnType<typeof openEmbeddedChain>>

/**
 * Continues the chain in `data_dir`, or begins one with a random genesis hash. A landed transaction is on disk before
 * it is reported, so a killed process loses only pending transactions.
 * @throws when another process has this chain open
 */
export async function openEmbeddedChain(options: EmbeddedChainOptions) {
  mkdirSync(options.data_dir, { recursive: true, mode: 0o700 })
  chmodSync(options.data_dir, 0o700)
  const store = new Store(join(options.data_dir, 'chain.sqlite'))
  const depth = { confirmed: 1, finalized: options.finalized_depth ?? 8 }
  const faults = options.faults ?? {}
  const machine = new Machine(store, depth, faults)
  const faucet = await Faucet.open(machine, secret(join(options.data_dir, 'faucet.key')))
  if (!machine.bank.newest(faucet.signer.address)) machine.install(moneyAccounts(faucet.signer.address))
  const admin_seed = secret(join(options.data_dir, 'admin.key'))
  const methods = { ...READ_METHODS, ...SEND_METHODS, ...faucetMethods(faucet) }
  const server = serveRpc(machine, methods, options.port ?? 0)
  const clockwork = startClockwork(machine, options.slot_ms)
  return {
    /** `http://127.0.0.1:<port>`: JSON-RPC. */
    url: `http://127.0.0.1:${server.port}`,
    genesis_hash: machine.genesis_hash,
    /** The vault program; undefined until `makeGenesis` has run on this data. */
    get program_id(): Uint8Array | undefined {
      return store.fact('program_id')
    },
    /** Live faults; assign its fields. */
    faults,
    machine,
    faucet,
    admin_seed,
    /** Newest slot, at `processed`. */
    slot: () => machine.tip,
    /** Produces slots at once, in addition to the timer. */
    advance(slots: number): void {
      for (let made = 0; made < slots; made++) machine.advance()
    },
    /**
     * Abandons the newest `depth` blocks: their transactions, account writes and blockhashes are gone, slot numbers go on.
     * @throws RangeError when it would undo a finalized block
     */
    fork: (depth: number) => machine.fork(depth),
    /** While stalled no slot is made; requests are answered from the last one. */
    stall: clockwork.stall,
    /** Moves the chain's clock (`Clock.unix_timestamp`) ahead. */
    warpTime: (seconds: number) => machine.warpTime(seconds),
    /** Stops serving; everything landed is already on disk. */
    async close(): Promise<void> {
      clockwork.stop()
      await server.stop()
      store.close()
    },
  }
}

/** Makes a slot every `slot_ms` until stopped. */
function startClockwork(machine: Machine, slot_ms: number): { stall(stalled: boolean): void; stop(): void } {
  let stalled = false
  const timer = slot_ms > 0 ? setInterval(() => stalled || machine.advance(), slot_ms) : undefined
  return {
    stall(value) {
      stalled = value
    },
    stop() {
      clearInterval(timer)
    },
  }
}

/** A 32-byte secret of this test chain, made on first use; readable by its owner only. */
function secret(path: string): Uint8Array {
  if (!existsSync(path)) writeFileSync(path, randomBytes(32), { mode: 0o600, flag: 'wx' })
  const bytes = new Uint8Array(readFileSync(path))
  if (bytes.length !== 32) throw new Error(`${path} does not hold 32 bytes`)
  return bytes
}
