#!/usr/bin/env bun
/** Runs `tacit`, the one command of traders and auditors. */
import { hashFast } from '../wallet/hash_fast'
import { Call } from './call'
import { runCommand, UsageFault } from './command'
import { judge } from './failures'
import { helpOf, listOf, VERBS, verbIn } from './verbs'

const given = process.argv.slice(2)
const { name, verb, args } = verbIn(given[0] === 'help' ? given.slice(1) : given)
const group = Object.keys(VERBS).filter((one) => one.startsWith(`${name} `))
const usage = verb === undefined ? listOf(group.length > 0 ? group : Object.keys(VERBS)) : helpOf(name, verb)
/** Asked about after a failure: it names the node, and what may have been sent. */
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
