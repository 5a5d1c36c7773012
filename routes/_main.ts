#!/usr/bin/env bun
/**
 * The process: reads the environment, joins the parts, and ends as it is told.
 * With TACIT_ENCLAVE=dstack every setting of security and chain is required. Without it, and away from a guest agent, the
 * rest defaults to one machine: embedded chain, stand-in enclave, demo account; no verifier takes that for a venue.
 * `--check` names every fault of the settings, or prints them with secrets masked, and exits.
 */
import { openChain } from '../engine/chain/open_chain'
import { checkConfig } from '../engine/check_config'
import { version } from '../package.json'
import { type Config, printedSettings, readConfig } from './_config'
import { joinProcess, type ProcessParts, type Running } from './_join_process'
import { openLaptop } from './_laptop'
import { isLaptop, laptopEnvironment } from './_laptop_environment'
import { LaptopRefused } from './_laptop_secrets'
import { type LogLevel, openLog } from './_log'
import { placeOf } from './_problem'

const laptop = isLaptop(process.env)
/** Whole milliseconds: every time on the wire is an integer. */
const clock = { unixMs: () => Date.now(), monotonicMs: () => Math.floor(performance.now()) }
const log = openLog((line) => void process.stdout.write(line), clock.unixMs)

const environment = laptop ? await laptopEnvironment(process.env).catch(refuseFolder) : process.env
const { config, faults } = readConfig(environment)
if (faults !== undefined) refuse(faults)
if (process.argv.includes('--check')) {
  // The manifest's hash is the enclave's to say; here any value of its form stands for it.
  const compose_hash = '0'.repeat(64)
  const wrong = checkConfig({ ...config.engine, compose_hash, tacit_version: version })
  if (wrong.length > 0) refuse(wrong)
  console.log(printedSettings(environment))
  process.exit(0)
}

function refuseFolder(error: unknown): never {
  if (error instanceof LaptopRefused) refuse([error.message])
  throw error
}

function refuse(sentences: readonly string[]): never {
  console.error(`settings refused:\n${sentences.join('\n')}`)
  process.exit(1)
}

let running: Running | undefined
/** Monotonic milliseconds at which the end began. */
let ending_ms: number | undefined
/** A terminal sends Ctrl-C to the whole group, and npx and `bun run` pass it on besides: one comes up to three times. */
const ECHO_MS = 500

/** The first call drains, a later one ends at once. */
function end(reason: string): void {
  const now_ms = clock.monotonicMs()
  if (ending_ms !== undefined) {
    if (reason === 'SIGINT' && now_ms - ending_ms < ECHO_MS) return
    process.exit(1)
  }
  ending_ms = now_ms
  note('info', 'ending', reason)
  const stopped = running === undefined ? Promise.resolve() : running.stop()
  stopped.then(
    () => process.exit(0),
    (error) => fatal(error instanceof Error ? error : new Error('stop failed')),
  )
}

/** Nothing may be served from memory that may be ahead of the disk. */
function fatal(error: Error): void {
  log.write('error', 'fatal', placeOf(error))
  process.exit(1)
}

function note(level: LogLevel, event: string, reason: string): void {
  log.write(level, event, { reason })
}

function parts(with_config: Config): ProcessParts {
  return {
    config: with_config,
    version,
    log,
    clock,
    fatal,
    drain: () => end('operator'),
    openChain: (enclave, hash) =>
      openChain({
        rpc_urls: with_config.rpc_urls!,
        program_id: with_config.program_id!,
        settlement_seed: enclave.settlement_seed,
        hash,
        transactions: with_config.transactions,
        monotonicMs: clock.monotonicMs,
      }),
  }
}

process.on('SIGTERM', () => end('SIGTERM'))
process.on('SIGINT', () => end('SIGINT'))
process.on('uncaughtException', fatal)
// One request's stray promise is a fault to mend, not a reason to leave everybody else without a venue.
process.on('unhandledRejection', (reason) => log.write('error', 'unhandled_rejection', placeOf(reason)))

try {
  running = laptop ? await openLaptop(parts(config)) : await joinProcess(parts(config))
} catch (error) {
  // What is refused at start is about settings and surroundings, never about orders; its sentence helps the operator.
  console.error(error instanceof Error ? error.message : 'the venue did not start')
  fatal(error instanceof Error ? error : new Error('start failed'))
}
