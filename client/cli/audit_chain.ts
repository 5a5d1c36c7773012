/** Runs `bun run audit-chain`: recomputes roots and queue of a vault from the chain and compares them with its accounts. */
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { ArchiveRejected } from '../archive/block'
import { auditChain, type ChainAudit, type QueueAudit, type RootAudit } from '../audit/chain_audit'
import { chainFailure, openChainReader } from '../chain/chain_access'
import { NodesDisagree, newest, readEventsFrom } from '../chain/current_history'
import { NotAVault } from '../chain/read_vault'
import { Refused } from '../verify/transcript'
import { hashFast } from '../wallet/hash_fast'
import { HistoryIncomplete } from '../wallet/vault_history'
import { type Failure, Options, runCommand, timeOf } from './command'
import { rpcOf } from './options'
import { reporting } from './recover_notes'

const USAGE = `usage: bun run audit-chain --rpc URL[,URL] --program ADDRESS [--archive FOLDER|URL] [--json]
Reads every transaction of the vault, or with --archive those that came after it, so without one the node must keep the whole
history. What it says is as true as the node: ask one of your own, or several.
exit code: 0 agrees, 1 differs, 2 the history is incomplete, 3 no vault or no answer, 64 usage`
const EXIT = { agrees: 0, differs: 1, incomplete: 2 } as const

let rpc = ''

async function run(args: string[]): Promise<number> {
  const options = new Options(args, { texts: ['rpc', 'program', 'archive'], flags: ['json'] })
  rpc = options.text('rpc')
  const [chain, archive] = [openChainReader(rpcOf(rpc)), options.optional('archive')]
  const from = archive === undefined ? {} : { archive }
  const { events, vaults } = await readEventsFrom(chain, options.text('program'), from, reporting())
  const audit = auditChain(events, newest(vaults))
  console.log(options.flag('json') ? JSON.stringify(printed(audit), null, 2) : report(audit))
  if (vaults.some((vault) => auditChain(events, vault).verdict !== audit.verdict))
    throw new NodesDisagree('the nodes show vaults of different histories')
  return EXIT[audit.verdict]
}

function judge(error: Error): Failure | undefined {
  const failure = chainFailure(error, rpc)
  const message = failure ?? error.message
  const unread = [NotAVault, ArchiveRejected, NodesDisagree].some((kind) => error instanceof kind)
  if (failure !== undefined || unread) return { code: 3, message }
  if (error instanceof HistoryIncomplete) return { code: EXIT.incomplete, message }
  return error instanceof RangeError || error instanceof Refused ? { code: 64, message } : undefined
}

const SLOT_S = 0.4
const YEAR_S = 31_557_600

function report({ slot, note_tree, spent_log, queue, open_exits, verdict }: ChainAudit): string {
  const lines = [`accounts     finalized slot ${slot}`]
  const findings = ({ faults, missing }: QueueAudit | RootAudit): void => {
    if (missing !== undefined) lines.push(`  missing    ${missing}: ask a node that keeps the whole history`)
    lines.push(...faults.map((fault) => `  fault      ${fault}`))
  }
  const tree = (name: string, what: string, audit: RootAudit): void => {
    const { count, expected, found, slots_left } = audit
    lines.push(`${name}${count} ${what}`, `  account    ${toHex(expected)}`)
    lines.push(`  recomputed ${found === undefined ? 'not possible' : toHex(found)}`)
    if (slots_left !== undefined) {
      const years = Math.floor((slots_left * SLOT_S) / YEAR_S).toLocaleString('en')
      lines.push(`  full in    ${years} years at the present rate`)
    }
    findings(audit)
  }
  tree('note tree    ', 'leaves', note_tree)
  tree('spent log    ', 'batches', spent_log)
  const oldest = queue.oldest_slot === undefined ? '' : `, the oldest since slot ${queue.oldest_slot}`
  lines.push(`queue        ${queue.length} of ${queue.capacity} entries${oldest}`)
  findings(queue)
  lines.push(`exits        ${open_exits.length} requests neither served nor refused`)
  for (const [nullifier, { mint, amount, deadline_s }] of open_exits)
    lines.push(`  ${nullifier}  ${amount} of ${encodeBase58(mint)}, deadline ${timeOf(deadline_s!)}`)
  lines.push(`verdict      ${verdict}`)
  return lines.join('\n')
}

function printed({ note_tree, spent_log, open_exits, ...rest }: ChainAudit): object {
  const one = ({ expected, found, ...others }: RootAudit) => ({
    ...others,
    expected: toHex(expected),
    found: found && toHex(found),
  })
  const exits = open_exits.map(([nullifier, { mint, amount, deadline_s }]) => {
    return { nullifier, mint: encodeBase58(mint), amount: String(amount), deadline_s }
  })
  return { ...rest, note_tree: one(note_tree), spent_log: one(spent_log), open_exits: exits }
}

await hashFast()
await runCommand(USAGE, run, judge)
