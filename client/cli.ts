#!/usr/bin/env bun
/**
 * `tacit`: what a trader or auditor runs beside a venue.
 *   tacit verify URL [--policy FILE] [--collateral FILE] [--manifest FILE] [--bundle OUT] [--json]
 *   tacit verify --offline BUNDLE [--policy FILE] [--json]
 */
import { asksHelp } from './commands/asks_help'
import { runVerify, VERIFY_USAGE } from './verify_command'

const [command, ...rest] = process.argv.slice(2)
if (asksHelp(process.argv.slice(2))) {
  console.log(VERIFY_USAGE)
  process.exit(0)
}
if (command === 'verify') process.exit(await runVerify(rest))
console.error(VERIFY_USAGE)
process.exit(64)
