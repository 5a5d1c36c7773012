#!/usr/bin/env bun
/** Runs `tacit`, the command of traders and auditors. */
import { EvidenceUnavailable } from '../verify/collect/collect_venue'
import { Refused } from '../verify/transcript'
import { ACCOUNT_USAGE, runAccount } from './account'
import { ARCHIVE_USAGE, runArchive } from './archive'
import { AUDIT_BATCH_USAGE, runAuditBatch } from './audit_batch'
import { judgeChain } from './chain_failures'
import { runWatchEscapes, WATCH_USAGE } from './claim_commands'
import { runCommand, UsageFault } from './command'
import { INIT_USAGE, runInit } from './config'
import { runStatistics, STATISTICS_USAGE } from './statistics'
import { helpOf, runTrade, TRADE_USAGE, TRADE_VERBS } from './trade'
import { judgeTrading } from './trader_session'
import { runVerify, VERIFY_USAGE } from './verify'

const COMMANDS: Record<string, (args: string[]) => Promise<unknown>> = {
  ...Object.fromEntries(
    Object.keys(TRADE_VERBS).map((name) => [name, (args: string[]) => runTrade(name, args)]),
  ),
  init: runInit,
  verify: runVerify,
  account: runAccount,
  statistics: runStatistics,
  archive: runArchive,
  'audit-batch': runAuditBatch,
  'watch-escapes': runWatchEscapes,
}

const CODES =
  'exit code of archive and watch-escapes: 0 done, 1 refused by the chain or its history, 2 no answer from the node, 64 usage, 74 a file or folder fails'

const USAGES = [VERIFY_USAGE, INIT_USAGE, TRADE_USAGE, ACCOUNT_USAGE, STATISTICS_USAGE, ARCHIVE_USAGE]
const [first = '', second = ''] = process.argv.slice(2)
const verb = first === 'help' ? second : first

await runCommand(
  helpOf(verb) ?? [...USAGES, WATCH_USAGE, AUDIT_BATCH_USAGE, CODES].join('\n'),
  ([command = '', ...args]) => {
    const run = COMMANDS[command]
    if (run === undefined) throw new UsageFault()
    return run(args)
  },
  (error) => {
    if (error instanceof EvidenceUnavailable) return { code: 3, message: error.message }
    const trading = Object.hasOwn(TRADE_VERBS, verb) ? judgeTrading(error) : undefined
    if (trading !== undefined) return trading
    if (error instanceof Refused || error instanceof RangeError) return { code: 64, message: error.message }
    return judgeChain(error, 'the node')
  },
)
