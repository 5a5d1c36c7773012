#!/usr/bin/env bun
/** Runs `tacit`, the one command of traders and auditors. */
import { printable } from '../verify/transcript'
import { hashFast } from '../wallet/hash_fast'
import { Call } from './call'
import { runCommand, UsageFault } from './command'
import { judge } from './failures'
import { helpOf, listOf, VERBS, verbIn } from './verbs'

const given = process.argv.slice(2)
const asked = given[0] === 'help' ? given.slice(1) : given
const { name, verb, args } = verbIn(asked)
const group = Object.keys(VERBS).filter((one) => one.startsWith(`${name} `))
const usage = verb === undefined ? listOf(group.length > 0 ? group : Object.keys(VERBS)) : helpOf(name, verb)
if (verb === undefined && group.length === 0 && /^[^-]/.test(name)) {
  console.error(`there is no verb '${printable(name)}'; 'tacit help' lists all`)
  process.exit(64)
}
/** Asked after a failure: it names the node, and the transaction that may have been sent. */
let call: Call | undefined

const SENT = "what was sent already may still land: 'wallet sync' or 'exit status' shows it"
const SETTLE = "'tacit settle' asks for the outcome of what was sent already"
const pays = verb?.reads?.includes('payer') === true
// A verb that can be rehearsed is one that sends.
if (pays || verb?.form.includes('--dry-run') === true)
  process.once('SIGINT', () => {
    console.error(`stopped; ${pays ? SENT : SETTLE}`)
    process.exit(130)
  })

await runCommand(
  usage,
  async () => {
    if (verb === undefined) throw new UsageFault()
    call = new Call(verb, args)
    await hashFast()
    const code = await verb.run(call)
    call.finish()
    return code
  },
  (error) => {
    const failure = judge(error, call?.node)
    if (failure?.code === 3 && pays && call?.node !== undefined) failure.message += `\n${SENT}`
    return failure
  },
)
