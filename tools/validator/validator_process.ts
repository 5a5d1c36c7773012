/** Starts an independent validator on loopback, and makes the settings of a venue on it. */

import { createWriteStream, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { mintsOf, solInstrument } from '../../sandbox/environment'
import { callRpc } from './landed_report'

const START_MS_MAX = 180_000
const POLL_MS = 500

/** A sandbox on this validator with one instrument: wrapped SOL against a mint of this run. */
export function venueEnvironment(on: {
  rpc_url: string
  program_id: string
  usdc: string
  /** ADDRESS:PORT */
  listen: string
}): Record<string, string> {
  return {
    TACIT_ENCLAVE: 'development',
    TACIT_LISTEN: on.listen,
    TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
    SOLANA_RPC_URL: on.rpc_url,
    TACIT_PROGRAM_ID: on.program_id,
    TACIT_MINTS: JSON.stringify(mintsOf(on.usdc)),
    TACIT_INSTRUMENTS: JSON.stringify([solInstrument(on.usdc)]),
  }
}

type RunningValidator = {
  readonly rpc_url: string
  stop(): Promise<void>
}

/**
 * Runs `solana-test-validator` as a child process.
 * @param ticks_per_slot of 6.25 ms each; clusters have 64
 * @throws Error when it does not answer in time
 */
export async function startValidator(
  binary: string,
  data_dir: string,
  ticks_per_slot: number,
): Promise<RunningValidator> {
  const ledger = join(data_dir, 'ledger')
  mkdirSync(ledger, { recursive: true })
  const [rpc_port, faucet_port, gossip_port] = [28_899, 29_900, 28_001]
  const command = [binary, '--ledger', ledger, '--reset', '--bind-address', '127.0.0.1']
  command.push(
    '--rpc-port',
    `${rpc_port}`,
    '--faucet-port',
    `${faucet_port}`,
    '--gossip-port',
    `${gossip_port}`,
  )
  command.push('--ticks-per-slot', `${ticks_per_slot}`, '--faucet-sol', '1000000', '--log')
  const log = createWriteStream(join(data_dir, 'validator.log'))
  const child = Bun.spawn(command, { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  for (const output of [child.stdout, child.stderr]) void keep(output, log)
  const rpc_url = `http://127.0.0.1:${rpc_port}`
  await untilHealthy(rpc_url, child)
  return {
    rpc_url,
    async stop() {
      child.kill('SIGTERM')
      const killed = setTimeout(() => child.kill('SIGKILL'), 10_000)
      await child.exited
      clearTimeout(killed)
    },
  }
}

async function keep(output: ReadableStream<Uint8Array>, log: NodeJS.WritableStream): Promise<void> {
  for await (const piece of output) log.write(piece)
}

async function untilHealthy(rpc_url: string, child: Subprocess): Promise<void> {
  const deadline = performance.now() + START_MS_MAX
  for (;;) {
    const health = await callRpc<string>(rpc_url, 'getHealth').catch(() => undefined)
    const slot = health === 'ok' ? await callRpc<number>(rpc_url, 'getSlot').catch(() => 0) : 0
    // The faucet pays only after the first finalized slot.
    if (slot > 0) return
    if (child.exitCode !== null)
      throw new Error(`the validator ended with ${child.exitCode}; see validator.log`)
    if (performance.now() > deadline)
      throw new Error('the validator did not become healthy; see validator.log')
    await Bun.sleep(POLL_MS)
  }
}
