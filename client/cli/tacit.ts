#!/usr/bin/env bun
/** Runs `tacit`, the command of traders and auditors: `verify` judges a venue, `archive` keeps a vault's history. */
import { EvidenceUnavailable } from '../verify/collect/collect_venue'
import { Refused } from '../verify/transcript'
import { ARCHIVE_USAGE, runArchive } from './archive'
import { judgeChain } from './chain_failures'
import { runCommand, UsageFault } from './command'
import { runVerify, VERIFY_USAGE } from './verify'

const COMMANDS: Record<string, (args: string[]) => Promise<unknown>> = {
  verify: runVerify,
  archive: runArchive,
}

await runCommand(
  `${VERIFY_USAGE}\n${ARCHIVE_USAGE}`,
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
