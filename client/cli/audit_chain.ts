/** Runs `bun run audit-chain`: recomputes both roots of a vault from the chain and compares them with its accounts. */
import { toHex } from '../../protocol/bytes'
import { auditChain, type ChainAudit, type RootAudit } from '../audit/chain_audit'
import { chainFailure, openChainReader } from '../chain/chain_access'
import { readVaultEvents } from '../chain/read_history'
import { NotAVault, readVaultState } from '../chain/read_vault'
import { hashFast } from '../wallet/hash_fast'
import { HistoryIncomplete } from '../wallet/vault_history'
import { type Failure, Options, runCommand, UsageFault } from './command'

const USAGE = `usage: bun run audit-chain --rpc URL --program ADDRESS [--json]
Reads every transaction of the vault from the node, so the node must keep the whole history; what it says is as true as the
node: ask one of your own, or several.
exit code: 0 agrees, 1 differs, 2 the history is incomplete, 3 no vault or no answer, 64 usage`
const EXIT = { agrees: 0, differs: 1, incomplete: 2 } as const

let rpc = ''

async function run(args: string[]): Promise<number> {
  const options = new Options(args, { texts: ['rpc', 'program'], flags: ['json'] })
  rpc = options.text('rpc')
  if (!URL.canParse(rpc)) throw new UsageFault()
  const [chain, program] = [openChainReader(rpc), options.text('program')]
  const vault = await readVaultState(chain, program)
  const audit = auditChain(await readVaultEvents(chain, program), vault)
  console.log(options.flag('json') ? JSON.stringify(printed(audit), null, 2) : report(audit))
  return EXIT[audit.verdict]
}

function judge(error: Error): Failure | undefined {
  const failure = chainFailure(error, rpc)
  const message = failure ?? error.message
  if (failure !== undefined || error instanceof NotAVault) return { code: 3, message }
  if (error instanceof HistoryIncomplete) return { code: EXIT.incomplete, message }
  return error instanceof RangeError ? { code: 64, message } : undefined
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
await runCommand(USAGE, run, judge)
