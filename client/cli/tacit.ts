#!/usr/bin/env bun
/** Runs `tacit`, the command of traders and auditors: `tacit verify`. */
import { EvidenceUnavailable } from '../verify/collect/collect_venue'
import { Refused } from '../verify/transcript'
import { runCommand, UsageFault } from './command'
import { runVerify, VERIFY_USAGE } from './verify'

await runCommand(
  VERIFY_USAGE,
  ([command, ...args]) => {
    if (command !== 'verify') throw new UsageFault()
    return runVerify(args)
  },
  (error) => {
    if (error instanceof EvidenceUnavailable) return { code: 3, message: error.message }
    return error instanceof Refused ? { code: 64, message: error.message } : undefined
  },
)
