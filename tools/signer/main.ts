/**
 * `bun run read-signer URL --compose-hash HEX [--collateral FILE] [--policy FILE]`: the settlement key of a machine whose
 * vault does not exist yet. Prints it only when the quote is genuine, current, over a fresh nonce and that key, and of a
 * machine that runs the manifest. Exit code: 0 proven, 1 refused, 64 usage.
 */
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { BARE_POLICY, parsePolicy } from '../../client/verify/policy'
import { parseCollateral } from '../../client/verify/tdx/collateral_form'
import { fromHex } from '../../protocol/bytes'
import { runCommand, UsageFault } from '../run_command'
import { readSigner } from './read_signer'

const USAGE = 'usage: bun run read-signer URL --compose-hash HEX [--collateral FILE] [--policy FILE]'
const text = { type: 'string' } as const

await runCommand(USAGE, async (args) => {
  const { values, positionals } = parseArgs({
    args,
    options: { 'compose-hash': text, collateral: text, policy: text },
    allowPositionals: true,
  })
  const [url] = positionals
  const compose_hash = values['compose-hash']
  if (url === undefined || positionals.length > 1 || compose_hash === undefined || !URL.canParse(url))
    throw new UsageFault()
  if (fromHex(compose_hash, 32) === undefined) throw new UsageFault('--compose-hash is not 64 hex digits')
  const policy = values.policy === undefined ? BARE_POLICY : parsePolicy(readFileSync(values.policy, 'utf8'))
  const given = values.collateral
  const collateral = given === undefined ? {} : { collateral: parseCollateral(readFileSync(given, 'utf8')) }
  const signer = await readSigner({ url, compose_hash, policy, ...collateral }, Date.now())
  console.log(JSON.stringify(signer, null, 2))
})
