/** `tacit archive` writes a vault's public events; `tacit audit-chain` recomputes its roots and queue from them and compares. */
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import { ArchiveRejected } from '../archive/block'
import { auditChain, type ChainAudit, type QueueAudit, type RootAudit } from '../audit/chain_audit'
import { currentHistory, NodesDisagree, newest, readEventsFrom } from '../chain/current_history'
import { NotAVault } from '../chain/read_vault'
import { HistoryIncomplete } from '../wallet/vault_history'
import type { Call, Verb } from './call'
import { timeOf } from './command'
import { lockPath } from './config'
import { ARCHIVED, described, reporting } from './recover_notes'

const EXIT = { agrees: 0, differs: 1, incomplete: 2 } as const

async function audit(call: Call): Promise<number> {
  const [chain, archive] = [call.reader(), call.optional('archive')]
  const from = archive === undefined ? {} : { archive }
  const { events, vaults } = await readEventsFrom(chain, call.program(), from, reporting())
  const found = auditChain(events, newest(vaults))
  call.print(printed(found), () => report(found))
  if (vaults.some((vault) => auditChain(events, vault).verdict !== found.verdict))
    throw new NodesDisagree('the nodes show vaults of different histories')
  return EXIT[found.verdict]
}

/** What the nodes show is no history of one vault: neither an agreement nor a difference. */
function unread(error: unknown): number {
  if (error instanceof HistoryIncomplete) return EXIT.incomplete
  if ([NotAVault, ArchiveRejected, NodesDisagree].some((kind) => error instanceof kind)) return 3
  throw error
}

export const AUDIT_CHAIN: Verb = {
  form: ARCHIVED,
  reads: ['chain'],
  says: `rebuilds note tree, spent log and payout queue of a vault from public events and compares them with its accounts: 0 they
  agree, 1 they differ, 2 the history is incomplete. Without --archive the node must keep the whole history. What it says is as
  true as the node: ask one of your own, or several`,
  example: 'tacit audit-chain',
  run: (call) =>
    audit(call).catch((error: unknown) => {
      const code = unread(error)
      console.error((error as Error).message)
      return code
    }),
}

const SLOT_S = 0.4
const YEAR_S = 31_557_600

function report({ slot, note_tree, spent_log, queue, open_exits, verdict }: ChainAudit): string[] {
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
  return lines
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

export const ARCHIVE: Verb = {
  form: '--out FOLDER',
  reads: ['chain'],
  says: `writes every event of a vault, or what came since the last time, and checks both trees against the vault; the files
  may be mirrored as they are: wallet recover, wallet sync, exit and audit-chain take --archive FOLDER|URL`,
  example: 'tacit archive --out archive',
  async run(call) {
    const from = { folder: call.text('out') }
    lockPath(from.folder)
    const current = await currentHistory(call.reader(), call.program(), from, reporting())
    call.say('archive', described(current))
  },
}
