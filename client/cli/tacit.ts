#!/usr/bin/env bun
/** Runs `tacit`, the command of traders and auditors: `verify`, `account`, `statistics`, `archive`, `audit-batch` and `watch-escapes`. */
import { EvidenceUnavailable } from '../verify/collect/collect_venue'
import { Refused } from '../verify/transcript'
import { ACCOUNT_USAGE, runAccount } from './account'
import { ARCHIVE_USAGE, runArchive } from './archive'
import { AUDIT_BATCH_USAGE, runAuditBatch } from './audit_batch'
import { judgeChain } from './chain_failures'
import { runWatchEscapes, WATCH_USAGE } from './claim_commands'
import { runCommand, UsageFault } from './command'
import { runStatistics, STATISTICS_USAGE } from './statistics'
import { runVerify, VERIFY_USAGE } from './verify'

const COMMANDS: Record<string, (args: string[]) => Promise<unknown>> = {
  verify: runVerify,
  account: runAccount,
  statistics: runStatistics,
  archive: runArchive,
  'audit-batch': runAuditBatch,
  'watch-escapes': runWatchEscapes,
}

const CODES =
  'exit code of archive and watch-escapes: 0 done, 1 refused by the chain or its history, 2 no answer from the node, 64 usage, 74 a file or folder fails'

await runCommand(
  [VERIFY_USAGE, ACCOUNT_USAGE, STATISTICS_USAGE, ARCHIVE_USAGE, WATCH_USAGE, AUDIT_BATCH_USAGE, CODES].join(
    '\n',
  ),
  ([command = '', ...args]) => {
    const run = COMMANDS[command]
    if (run === undefined) throw new UsageFault()
    return run(args)
  },
  (error) => {
    if (error instanceof EvidenceUnavailable) return { code: 3, message: error.message }
    if (error instanceof Refused || error instanceof RangeError) return { code: 64, message: error.message }
    return judgeChain(error, 'the node')
  },
)
