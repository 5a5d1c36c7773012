/** Sends one transaction into the world and holds what became of it against the judge's word. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import { decodeMintRecord } from '../../../protocol/vault/accounts'
import { mintRecordAddress, vaultTokenAddress } from '../../../protocol/vault/addresses'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import type { Report } from './judge/call'
import type { Draft } from './judge/ledger'
import { tokensIn } from './judge/tokens'
import { judgeTransaction } from './judge/transaction'
import { type Named, namedAccounts } from './message'
import type { RawAccount } from './raw_chain'
import type { World } from './world'

/** `wrong` is a finding: something the program must not have done. */
export type Attempt =
  | { kind: 'unsendable' }
  | { kind: 'refused'; error: string; wrong?: string }
  | { kind: 'landed'; wrong: string }
  | { kind: 'landed'; wrong?: undefined; units: bigint; keep: () => string | undefined; undo: () => void }

/**
 * Ends of a program that the vault itself may not come to, whatever it is sent. A token program that it calls may: it
 * leaves to the runtime that the accounts it writes are its own.
 */
const FORBIDDEN = new Set([
  'ProgramFailedToComplete',
  'ComputationalBudgetExceeded',
  'ProgramFailedToCompile',
  'ProgramEnvironmentSetupFailure',
  'ExternalAccountLamportSpend',
  'ExternalAccountDataModified',
  'ReadonlyLamportChange',
  'ReadonlyDataModified',
  'ModifiedProgramId',
  'UnbalancedInstruction',
  'PrivilegeEscalation',
  'InvalidRealloc',
  'AccountDataSizeChanged',
  'ExecutableModified',
  'ExecutableDataModified',
  'InvalidError',
  'GenericError',
  'CallDepth',
  'ReentrancyNotAllowed',
  'MaxSeedLengthExceeded',
  'InvalidSeeds',
  'MissingAccount',
  'AccountBorrowFailed',
  'MaxInstructionTraceLengthExceeded',
])

const sameAccount = (a: RawAccount, b: RawAccount): boolean =>
  a.lamports === b.lamports && equalBytes(a.owner, b.owner) && equalBytes(a.data, b.data)

/** The first account that does not hold what it should. */
function firstDifference(world: World, named: readonly Named[], draft?: Draft): string | undefined {
  for (const { address } of named) {
    if (world.untracked.has(toHex(address))) continue
    const [held, due] = [world.ledger.onChain(address), draft?.at(address) ?? world.ledger.get(address)]
    if (!sameAccount(held, due)) return `${world.nameOf(address)} does not hold what it should`
  }
  return undefined
}

function insolvency(world: World, draft: Draft): string | undefined {
  for (const { mint } of world.mints) {
    const record = decodeMintRecord(draft.at(mintRecordAddress(world.program, mint)).data)
    const held = tokensIn(draft.at(vaultTokenAddress(world.program, mint)))
    if (record === undefined || held < record.liabilities + record.queued)
      return 'a vault holds less than it owes'
  }
  return undefined
}

function landed(
  world: World,
  instructions: readonly VaultInstruction[],
  named: Named[],
  units: bigint,
): Attempt {
  const draft = world.ledger.draft()
  const { clock, chain } = world
  const rentOf = (size: number): bigint => chain.rentOf(size)
  const verdict = judgeTransaction(instructions, world.fees, { draft, clock, rentOf })
  const undo = (): void =>
    world.ledger.restore(
      named.filter(({ address }) => !world.untracked.has(toHex(address))).map(({ address }) => address),
    )
  if ('illegal' in verdict) {
    undo()
    return { kind: 'landed', wrong: `landed in spite of: ${verdict.illegal}` }
  }
  const wrong = firstDifference(world, named, draft) ?? insolvency(world, draft)
  if (wrong !== undefined) {
    undo()
    return { kind: 'landed', wrong }
  }
  const keep = (): string | undefined => {
    world.ledger.keep(draft)
    return follow(world, verdict.reports)
  }
  return { kind: 'landed', units, keep, undo }
}

/** The world's own trees after a kept transaction are those of the chain. */
function follow(world: World, reports: Map<string, Report>): string | undefined {
  world.version += 1
  const report = reports.get(toHex(world.program))
  if (report === undefined) return undefined
  world.follow(report)
  const root = world.ledger.get(world.vault.tree).data.slice(16, 48)
  if (!equalBytes(root, world.tree.root())) return 'the note root is not that of the tree beside the chain'
  const spent_root = world.ledger.get(world.vault.tree).data.slice(1_328, 1_360)
  if (!equalBytes(spent_root, world.spent.root()))
    return 'the spent root is not that of the log beside the chain'
  return undefined
}

export function attempt(
  world: World,
  instructions: readonly VaultInstruction[],
  look_closely: boolean,
): Attempt {
  const named = namedAccounts(instructions, world.fees)
  for (const { address } of named) world.ledger.get(address)
  const sent = world.chain.send(instructions, named)
  if (sent === undefined) return { kind: 'unsendable' }
  if (sent.ok) return landed(world, instructions, named, sent.units)
  const { error } = sent
  if (FORBIDDEN.has(error) && world.isVault(sent.failedIn()))
    return { kind: 'refused', error, wrong: `ended as ${error}` }
  const changed = look_closely ? firstDifference(world, named) : undefined
  return { kind: 'refused', error, ...(changed !== undefined && { wrong: `refused, yet ${changed}` }) }
}
