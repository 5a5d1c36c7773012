/** One run of the fuzzer: honest steps move worlds along, mutated transactions try to break them, each held against the judge. */
import { equalBytes, toHex } from '../../../protocol/bytes'
import { decodeMintRecord } from '../../../protocol/vault/accounts'
import {
  mintRecordAddress,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
  vaultTokenAddress,
} from '../../../protocol/vault/addresses'
import { announceInstruction } from '../../../protocol/vault/admin'
import { registerPlatformInstructions } from '../../../protocol/vault/epochs'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import type { Draft, Report } from './judge/call'
import { tokensIn } from './judge/tokens'
import { judgeTransaction } from './judge/transaction'
import { ACCOUNT_MUTATIONS, DATA_MUTATIONS, TRANSACTION_MUTATIONS } from './mutations'
import { needed, planOpenAttestedEpoch } from './plans/admin'
import { PLANS } from './plans/all'
import { initialization, instructionsOf, type Plan, registration } from './plans/opening'
import { type Named, namedAccounts, type RawAccount, type Witness } from './raw_chain'
import { CERTIFICATES, World } from './world'

/** `wrong` is a finding: something the program must not have done. */
type Attempt =
  | { kind: 'unsendable' }
  | { kind: 'refused'; error: string; wrong?: string }
  | { kind: 'landed'; wrong: string }
  | { kind: 'landed'; wrong?: undefined; units: bigint; keep: () => string | undefined; undo: () => void }

/**
 * Ends of a program that the vault itself may never have, for any transaction. A token program that it calls may: it leaves to
 * the runtime that the accounts it writes are its own.
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

/** The first account with wrong content. */
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

function attempt(world: World, instructions: readonly VaultInstruction[], look_closely: boolean): Attempt {
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

function land(world: World, ...instructions: VaultInstruction[]): void {
  const done = attempt(world, instructions, false)
  if (done.kind === 'refused') throw new Error(`the world does not open: ${done.error}`)
  if (done.kind !== 'landed' || done.wrong !== undefined) throw new Error('the world opens wrongly')
  const wrong = done.keep()
  if (wrong !== undefined) throw new Error(wrong)
}

/** Two vaults over the same two mints, one of each token program; most worlds begin with an epoch. */
function openWorld(seed: number, elf: Uint8Array, witness?: Witness): World {
  const world = new World(seed, elf, witness)
  for (const program of [world.program, world.other_program]) land(world, initialization(world, program))
  const pointer = { type: 18, value: new Uint8Array(64) }
  const mints = [
    world.newMint(TOKEN_PROGRAM, { freeze_authority: world.attacker }),
    world.newMint(TOKEN_2022_PROGRAM, { extensions: [pointer] }),
  ]
  for (const mint of mints) {
    land(world, registration(world, world.program, mint))
    land(world, registration(world, world.other_program, mint))
  }
  const keys = { program: world.program, admin: world.config().admin, payer: world.sponsor }
  for (const [topic, value] of needed(world)) {
    const act = { action: 'announce', ...(value && { value }) } as const
    land(world, announceInstruction({ ...keys, ...topic, ...act }))
  }
  const certificate = { ...CERTIFICATES[0]!, program: world.program, payer: world.sponsor }
  land(world, ...registerPlatformInstructions(certificate))
  const epoch = planOpenAttestedEpoch(world)!
  if (epoch.due) land(world, ...instructionsOf(epoch))
  return world
}

/** `finding`: the error, with everything needed to see it again. */
export type Tally = {
  runs: number
  worlds: number
  honest: number
  landed: number
  unsendable: number
  refused: Map<string, number>
  landed_by: Map<string, number>
  finding: string | undefined
}

export const WORLD_RUNS = 700
const HONEST_ONE_IN = 5
const LOOK_CLOSELY_ONE_IN = 8
/** Kept where an attacker alone can bring about another state of the vault; the rest is undone. */
const KEPT = new Set([
  'deposit',
  'request_exit',
  'refuse_exit',
  'freeze',
  'close_exit',
  'pay',
  'refund',
  'claim_escape',
  'challenge_escape',
  'pay_escape',
  'redirect_escape',
])

const count = (counts: Map<string, number>, name: string): void =>
  void counts.set(name, (counts.get(name) ?? 0) + 1)

/** Plans of the present state, made when first asked for. */
class Plans {
  readonly #made = new Map<string, Plan | undefined>()
  #version = -1

  constructor(
    readonly world: World,
    readonly aimed: readonly string[],
  ) {}

  get(name: string): Plan | undefined {
    if (this.world.version !== this.#version) {
      this.#made.clear()
      this.#version = this.world.version
    }
    if (!this.#made.has(name)) this.#made.set(name, PLANS.find((one) => one.name === name)!.plan(this.world))
    return this.#made.get(name)
  }

  /** Any plan the state offers; less often one that the state always rejects. */
  any(): { name: string; instructions: VaultInstruction[] } | undefined {
    const name = this.world.chance.pick(this.aimed)
    const plan = this.get(name)
    const worthwhile = plan?.due || FORGED.has(name) || this.world.chance.oneIn(12)
    return plan && worthwhile ? { name, instructions: instructionsOf(plan) } : undefined
  }
}

const FORGED = new Set(PLANS.filter(({ name }) => name.startsWith('forged')).map(({ name }) => name))
const AIMED = PLANS.flatMap(({ name, aim }) => Array.from({ length: aim }, () => name))
const WEIGHTED = PLANS.flatMap(({ name, weight }) => Array.from({ length: weight }, () => name))

const NOTES_BEFORE_FREEZE = 16
/** Longer than any exit may wait. */
const OVERDUE_S = 1_100
/** After which a queue entry may be refunded. */
const WEEK_S = 604_800

/** Time passes, now and then much of it; answers the name of the next honest instruction. */
function nextStep(world: World): string {
  if (world.freezes && world.notes.length > NOTES_BEFORE_FREEZE && world.chance.oneIn(8)) {
    if (!world.config().frozen) world.passTime(2, OVERDUE_S)
    return 'freeze'
  }
  if (world.chance.oneIn(40)) world.passTime(2, WEEK_S)
  if (world.chance.oneIn(3))
    world.passTime(world.chance.below(12), world.chance.below(world.chance.oneIn(6) ? 900 : 60))
  return world.chance.pick(WEIGHTED)
}

/** A valid transaction, which must land and is kept. */
function honestStep(world: World, plans: Plans, tally: Tally): string | undefined {
  const name = nextStep(world)
  if (name === 'freeze' && !world.freezes) return undefined
  const plan = plans.get(name)
  if (!plan?.due) return undefined
  const done = attempt(world, instructionsOf(plan), false)
  if (done.kind === 'refused') return `a valid ${name} was refused: ${done.error}`
  if (done.kind === 'unsendable') return undefined
  if (done.wrong !== undefined) return `a valid ${name}: ${done.wrong}`
  tally.honest += 1
  return done.keep()
}

function mutated(
  world: World,
  plans: Plans,
): { names: string[]; instructions: VaultInstruction[] } | undefined {
  const first = plans.any()
  const second = world.chance.oneIn(12) ? plans.any() : undefined
  const chosen = [first, second].filter((one) => one !== undefined)
  if (chosen.length === 0) return undefined
  let instructions = chosen.flatMap((one) => one.instructions)
  const ours = instructions.length
  // Unchanged, a plan is tried as it is: most are not due.
  const times = world.chance.oneIn(3) ? world.chance.below(5) : 1
  for (let time = 0; time < times; time++) {
    const kinds = [DATA_MUTATIONS, ACCOUNT_MUTATIONS, ACCOUNT_MUTATIONS]
    const mutation = world.chance.pick(world.chance.pick(kinds))
    instructions = mutation(world, instructions, world.chance.below(ours))
  }
  if (world.chance.oneIn(10)) instructions = world.chance.pick(TRANSACTION_MUTATIONS)(world, instructions, 0)
  return { names: chosen.map(({ name }) => name), instructions }
}

const describe = (names: readonly string[], instructions: readonly VaultInstruction[]): string =>
  `${names.join(' + ')}: ${instructions
    .map(({ data, accounts }) => `${toHex(data).slice(0, 80)} on ${accounts.length} accounts`)
    .join(', ')}`

function settleAttempt(
  world: World,
  names: readonly string[],
  done: Attempt,
  tally: Tally,
): string | undefined {
  if (done.kind === 'unsendable') {
    tally.unsendable += 1
    return undefined
  }
  if (done.kind === 'refused') {
    count(tally.refused, done.error)
    return done.wrong
  }
  if (done.wrong !== undefined) return done.wrong
  tally.landed += 1
  count(tally.landed_by, names.join(' + '))
  const kept = names.every((name) => KEPT.has(name) && (world.freezes || name !== 'freeze'))
  if (kept && world.chance.oneIn(4)) return done.keep()
  done.undo()
  return undefined
}

type Campaign = {
  seed: number
  elf: Uint8Array
  runs: number
  isOver: () => boolean
  /** Only plans of such names are mutated. */
  aim: RegExp
  witness?: Witness
}

/** Runs until `runs` mutated transactions were tried, it is over, or something is found. */
export function campaign({ seed, elf, runs, isOver, aim, witness }: Campaign): Tally {
  const aimed = AIMED.filter((name) => aim.test(name))
  const tally: Tally = {
    runs: 0,
    worlds: 0,
    honest: 0,
    landed: 0,
    unsendable: 0,
    refused: new Map(),
    landed_by: new Map(),
    finding: undefined,
  }
  while (tally.runs < runs && !isOver()) {
    const world_seed = (seed + Math.imul(tally.worlds, 0x9e3779b1)) | 0
    tally.worlds += 1
    const world = openWorld(world_seed, elf, witness)
    const plans = new Plans(world, aimed)
    const end = Math.min(runs, tally.runs + WORLD_RUNS)
    while (tally.runs < end && !isOver()) {
      let finding: string | undefined
      if (world.chance.oneIn(HONEST_ONE_IN)) finding = honestStep(world, plans, tally)
      const tried = mutated(world, plans)
      if (tried !== undefined && finding === undefined) {
        tally.runs += 1
        const done = attempt(world, tried.instructions, world.chance.oneIn(LOOK_CLOSELY_ONE_IN))
        const wrong = settleAttempt(world, tried.names, done, tally)
        if (wrong !== undefined) finding = `${wrong} (${describe(tried.names, tried.instructions)})`
      }
      if (finding !== undefined)
        return { ...tally, finding: `world ${world_seed}, run ${tally.runs}: ${finding}` }
    }
  }
  return tally
}
