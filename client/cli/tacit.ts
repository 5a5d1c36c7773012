#!/usr/bin/env bun
/**
 * Runs `tacit`, the command of traders and auditors.
 *   tacit verify URL [--policy FILE] [--collateral FILE] [--manifest FILE] [--bundle OUT] [--json]
 *   tacit verify --offline BUNDLE [--policy FILE] [--json]
 */
import { answerHelp } from './options'
import { runVerify, VERIFY_USAGE } from './verify'

const [command, ...rest] = process.argv.slice(2)
answerHelp(VERIFY_USAGE)
if (command === 'verify') process.exit(await runVerify(rest))
console.error(VERIFY_USAGE)
process.exit(64)
