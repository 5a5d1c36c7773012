#!/usr/bin/env bun
/**
 * Starts the process: reads the environment, joins the parts, and drains on SIGTERM or Ctrl-C.
 *
 * With TACIT_ENCLAVE=dstack every security and chain setting is required and no other name is allowed. Without it, and where
 * no guest agent listens, the sandbox supplies the rest: embedded chain, simulated enclave, demo account; no verifier accepts
 * that as a venue.
 * `--check` prints every invalid setting, or else all settings with secrets masked, and exits.
 */

import { parseArgs } from 'node:util'
import { collectCollateral, INTEL_PCS } from '../client/verify/collect/collect_collateral'
import { KEY_PATHS } from '../enclave/contract'
import { checkConfig, openChain } from '../engine/index'
import { version } from '../package.json'
import { openLog } from './edge/log'
import { placeOf } from './edge/problem'
import { joinProcess, type ProcessParts } from './join_process'
import { COLLATERAL_CALL_MS, SIGNAL_ECHO_MS } from './limits'
import {
  type Config,
  foreignNames,
  isSandbox,
  missingSandbox,
  printedSettings,
  readConfig,
  startFault,
} from './settings/config'

const USAGE = `usage: bun start [--check] [--counterparty]
Starts a venue. Settings come from the environment: server/settings/settings.ts lists them, docs/operations.md explains them.
Without any, a whole venue runs on this machine, with its data in ./data.
  --check  prints every invalid setting, or else all settings with secrets masked, and exits
  --counterparty  beside a venue of this machine runs a demo account that sells SOL at 150 USDC and buys it at 149`

const options = readOptions()
/** A dynamic import: the image does not contain the sandbox. */
const sandbox = isSandbox(process.env)
  ? await import('../sandbox/open_sandbox').catch(rejectSandbox)
  : undefined
/** Whole milliseconds, because times on the wire are integers. */
const clock = { unixMs: () => Date.now(), monotonicMs: () => Math.floor(performance.now()) }
const log = openLog((line) => void process.stdout.write(line), clock.unixMs)

const environment =
  sandbox === undefined ? process.env : await sandbox.sandboxEnvironment(process.env).catch(rejectFolder)
const foreign = sandbox === undefined ? foreignNames(process.env) : []
const { config, faults } = readConfig(environment)
// Only the enclave knows the compose hash; the check needs any well-formed value.
const compose_hash = '0'.repeat(64)
const terms = { compose_hash, tacit_version: version, self_check_reasons: [] }
const wrong = config === undefined ? [] : checkConfig({ ...config.engine, ...terms })
if (config === undefined || [...foreign, ...(faults ?? []), ...wrong].length > 0)
  reject([...foreign, ...(faults ?? []), ...wrong])
if (options.check) {
  console.log(printedSettings(environment))
  process.exit(0)
}

function readOptions(): { check?: boolean | undefined; counterparty?: boolean | undefined } {
  const flag = { type: 'boolean' } as const
  const known = { check: flag, counterparty: flag, help: { type: 'boolean', short: 'h' } } as const
  try {
    const { values } = parseArgs({ options: known })
    if (values.help !== true) return values
    console.log(USAGE)
    process.exit(0)
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`)
    process.exit(64)
  }
}

function rejectSandbox(error: unknown): never {
  const reason = missingSandbox(error, process.env)
  if (reason === undefined) throw error
  reject([reason])
}

function rejectFolder(error: unknown): never {
  if (error instanceof Error && error.name === 'SandboxRefused') reject([error.message])
  console.error(startFault(error, process.env['TACIT_DATA_DIR'] ?? 'data'))
  process.exit(1)
}

function reject(reasons: readonly string[]): never {
  console.error(`settings rejected:\n${reasons.join('\n')}`)
  process.exit(1)
}

/** Ends in order the current form of the process: nothing yet, a node that follows, or a venue. */
let stop = async (): Promise<void> => undefined
/** The shutdown under way: its reason and its start in monotonic milliseconds. */
let ending: { reason: string; at_ms: number } | undefined

/** The first call drains, a later one exits at once. */
function end(reason: string): void {
  const now_ms = clock.monotonicMs()
  if (ending !== undefined) {
    if (reason === ending.reason && now_ms - ending.at_ms < SIGNAL_ECHO_MS) return
    process.exit(1)
  }
  ending = { reason, at_ms: now_ms }
  log.write('info', 'ending', { reason })
  stop().then(
    () => process.exit(0),
    (error) => fatal(error instanceof Error ? error : new Error('stop failed')),
  )
}

/** Exits at once: memory that may be ahead of the disk must not be served. */
function fatal(error: Error): void {
  log.write('error', 'fatal', placeOf(error))
  process.exit(1)
}

function parts(with_config: Config): ProcessParts {
  return {
    config: with_config,
    version,
    log,
    clock,
    fatal,
    drain: () => end('operator'),
    following: (stopNode) => {
      stop = stopNode
    },
    self_check: {
      policy: {},
      collect: (quote) => collectCollateral(INTEL_PCS, quote, COLLATERAL_CALL_MS),
    },
    openChain: async (enclave, hash) =>
      openChain({
        rpc_urls: with_config.rpc_urls!,
        rpc_send_urls: with_config.rpc_send_urls,
        program_id: with_config.program_id!,
        settlement_seed: enclave.settlement_seed,
        authority_seed: await enclave.deriveKey(KEY_PATHS.epoch_authority),
        quoteEpoch: (bound) => enclave.quoteEpoch(bound),
        fee_seed: await enclave.deriveKey(KEY_PATHS.fees),
        hash,
        successors_needed: with_config.engine.enclave === 'dstack',
        monotonicMs: clock.monotonicMs,
      }),
  }
}

process.on('SIGTERM', () => end('SIGTERM'))
process.on('SIGINT', () => end('SIGINT'))
process.on('uncaughtException', fatal)
// An unhandled rejection is a bug to fix, not a reason to crash the process.
process.on('unhandledRejection', (reason) => log.write('error', 'unhandled_rejection', placeOf(reason)))

try {
  const running = await (sandbox === undefined
    ? joinProcess(parts(config))
    : sandbox.openSandbox(parts(config), options.counterparty === true))
  stop = () => running.stop()
} catch (error) {
  // Errors at startup concern settings and environment and contain no order: print the message for the operator.
  console.error(startFault(error, config.engine.data_dir))
  fatal(error instanceof Error ? error : new Error('start failed'))
}
