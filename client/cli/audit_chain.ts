/** Runs `bun run audit-chain`: recomputes both roots of a vault from the chain and compares them with its accounts. */
import { parseArgs } from 'node:util'
import { toHex } from '../../protocol/bytes'
import { auditChain, type ChainAudit, type RootAudit } from '../audit/chain_audit'
import { chainFailure, openChainReader } from '../chain/chain_access'
import { readVaultEvents } from '../chain/read_history'
import { NotAVault, readVaultState } from '../chain/read_vault'
import { hashFast } from '../wallet/hash_fast'
import { HistoryIncomplete } from '../wallet/vault_history'
import { answerHelp } from './options'

const USAGE = `usage: bun run audit-chain --rpc URL --program ADDRESS [--json]
Reads every transaction of the vault from the node, so the node must keep the whole history; what it says is as true as the
node: ask one of your own, or several.
exit code: 0 agrees, 1 differs, 2 the history is incomplete, 3 no vault or no answer, 64 usage`
const EXIT = { agrees: 0, differs: 1, incomplete: 2 } as const
const NO_ANSWER = 3
const USAGE_FAULT = 64

const text = { type: 'string' } as const
const OPTIONS = { rpc: text, program: text, json: { type: 'boolean' } } as const

async function run(args: string[]): Promise<number> {
  answerHelp(USAGE)
  const asked = optionsOf(args)
  if (asked === undefined) {
    console.error(USAGE)
    return USAGE_FAULT
  }
  const { rpc, program, json } = asked
  try {
    const chain = openChainReader(rpc)
    const vault = await readVaultState(chain, program)
    const audit = auditChain(await readVaultEvents(chain, program), vault)
    console.log(json ? JSON.stringify(printed(audit), null, 2) : report(audit))
    return EXIT[audit.verdict]
  } catch (error) {
    const failure = chainFailure(error, rpc)
    console.error(failure ?? (error as Error).message)
    if (failure !== undefined || error instanceof NotAVault) return NO_ANSWER
    if (error instanceof HistoryIncomplete) return EXIT.incomplete
    if (error instanceof RangeError) return USAGE_FAULT
    throw error
  }
}

function optionsOf(args: string[]): { rpc: string; program: string; json: boolean } | undefined {
  try {
    const { rpc, program, json = false } = parseArgs({ args, options: OPTIONS }).values
    if (rpc === undefined || program === undefined || !URL.canParse(rpc)) return undefined
    return { rpc, program, json }
  } catch {
    return undefined
  }
}

function report({ slot, note_tree, spent_tree, verdict }: ChainAudit): string {
  const lines = [`accounts     finalized slot ${slot}`]
  const tree = (name: string, what: string, { count, expected, found, faults, missing }: RootAudit) => {
    lines.push(`${name}${count} ${what}`, `  account    ${toHex(expected)}`)
    lines.push(`  recomputed ${found === undefined ? 'not possible' : toHex(found)}`)
    if (missing !== undefined) lines.push(`  missing    ${missing}: ask a node that keeps the whole history`)
    lines.push(...faults.map((fault) => `  fault      ${fault}`))
  }
  tree('note tree    ', 'leaves', note_tree)
  tree('spent tree   ', 'nullifiers', spent_tree)
  lines.push(`verdict      ${verdict}`)
  return lines.join('\n')
}

function printed({ slot, note_tree, spent_tree, verdict }: ChainAudit): object {
  const one = ({ expected, found, ...rest }: RootAudit) => ({
    ...rest,
    expected: toHex(expected),
    found: found && toHex(found),
  })
  return { slot, note_tree: one(note_tree), spent_tree: one(spent_tree), verdict }
}

hashFast()
process.exit(await run(process.argv.slice(2)))
