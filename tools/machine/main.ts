/**
 * `bun run read-machine URL --compose-hash HEX [--collateral FILE] [--policy FILE]`: what the admin
 * announces for a machine that opened no epoch yet. Printed only when the quote is genuine, current, over a fresh nonce and the
 * epoch authority, and of a machine that runs the manifest. Exit code: 0 proven, 1 rejected, 64 usage.
 */
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { BARE_POLICY, parsePolicy } from '../../client/verify/policy'
import { parseCollateral } from '../../client/verify/tdx/collateral'
import { toHex } from '../../protocol/bytes'
import { readMachine } from './read_machine'

const USAGE = 'usage: bun run read-machine URL --compose-hash HEX [--collateral FILE] [--policy FILE]'
await runCommand(USAGE, async (args) => {
  const options = new Options(args, { texts: ['compose-hash', 'collateral', 'policy'], words: 1 })
  const [url] = options.words
  const compose_hash = toHex(options.hex32('compose-hash'))
  if (url === undefined || !URL.canParse(url))
    throw new UsageFault(`'${url ?? ''}' is not the URL of a machine`)
  const [policy_text, given] = [options.file('policy'), options.file('collateral')]
  const policy = policy_text === undefined ? BARE_POLICY : parsePolicy(policy_text)
  const collateral = given === undefined ? {} : { collateral: parseCollateral(given) }
  const facts = await readMachine({ url, compose_hash, policy, ...collateral }, Date.now())
  console.log(JSON.stringify(facts, null, 2))
})
