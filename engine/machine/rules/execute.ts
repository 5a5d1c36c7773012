/** Executes a command, the only way to change the state: decides it and, unless it is rejected, applies it. */
import type { Command, CommandKind, CommandOf } from '../../commands'
import { type Answer, Effects, type Env, type Outcome, type RefusedOutcome } from '../state/outcome'
import type { State } from '../state/state'
import {
  applyAccountRecord,
  applyCredential,
  applyLogin,
  applyRebind,
  applyTokenEnded,
  decideAccountRecord,
  decideCredential,
  decideLogin,
  decideRebind,
} from './accounts'
import {
  applyArmDisconnect,
  applyCancel,
  applyCancelAll,
  applyDeadMan,
  applyDisconnected,
  applyNodeAbsent,
  decideCancel,
  decideCancelAll,
  decideDeadMan,
} from './cancel'
import {
  applyActivate,
  applyConfigure,
  applyEpochIntended,
  applyEpochOpened,
  applyHalted,
  applyInstrumentStatus,
  applyLeaves,
  applyQueueCapacity,
  applyQueueRestored,
  applyReference,
  applyResumed,
  applySnapshotTaken,
  applySpentRestored,
} from './chain_facts'
import { applyClosed, applyDecided, applySlot } from './decide_batch'
import { applyReshape, applyWithdraw, decideReshape, decideWithdraw } from './payment'
import { applyModify, applyPlace, decideModify, decidePlace } from './place'
import { applyBatchSigned, applyBatchStage, applyExit, applyHashed, applyPayoutStage } from './settled'

/**
 * Deterministic: the same state and command give the same outcome and new state on every machine. A refusal changes
 * nothing. An order in an event contains the fills whose commitments are known; later fills follow as `fill.matched`.
 * With events `skipped` they are numbered, but not built.
 * @throws Error when the command contradicts the state in a way no client can cause; the process must stop
 */
export function execute(
  state: State,
  command: Command,
  env: Env,
  events: 'kept' | 'skipped' = 'kept',
): Outcome {
  // Places are most commands of a journal: this path is the same without a closure per command.
  if (command.kind === 'place') {
    const plan = decidePlace(state, command, env)
    if (!plan.ok) return plan
    const fx = begin(state, command, events)
    return outcomeOf(applyPlace(state, fx, command, plan), fx)
  }
  const decision = decide(state, command, env)
  if (!decision.ok) return decision
  const fx = begin(state, command, events)
  return outcomeOf(decision.apply(fx), fx)
}

/** The first write of an accepted command. */
function begin(state: State, command: Command, events: 'kept' | 'skipped'): Effects {
  state.unix_ms = command.unix_ms
  const slot = command.kind === 'slot' ? Math.max(command.slot, state.slot) : state.slot
  return new Effects(slot, command.unix_ms, events === 'kept')
}

function outcomeOf(answer: Answer, { events, auctions, effects }: Effects): Outcome {
  return { ok: true, answer, events, auctions, effects }
}

type Accepted = { ok: true; apply: (fx: Effects) => Answer }

/** Only reads the state; the returned `apply` writes it. */
function decide(
  state: State,
  command: Exclude<Command, { kind: 'place' }>,
  env: Env,
): Accepted | RefusedOutcome {
  switch (command.kind) {
    case 'modify':
      return when(decideModify(state, command, env), (plan, fx) => applyModify(state, fx, command, plan))
    case 'cancel':
      return when(decideCancel(state, command, env), (plan, fx) => applyCancel(state, fx, command, plan))
    case 'cancel_all':
      return when(decideCancelAll(state, command), (plan, fx) => applyCancelAll(state, fx, command, plan))
    case 'dead_man':
      return when(decideDeadMan(state, command), (plan) => applyDeadMan(state, command, plan))
    case 'withdraw':
      return when(decideWithdraw(state, command, env), (plan, fx) => applyWithdraw(state, fx, command, plan))
    case 'reshape':
      return when(decideReshape(state, command, env), (plan, fx) => applyReshape(state, fx, command, plan))
    case 'account_record':
      return when(decideAccountRecord(state, command), (_, fx) => applyAccountRecord(state, fx, command))
    case 'credential':
      return when(decideCredential(state, command), (_, fx) => applyCredential(state, fx, command))
    case 'login':
    case 'token_issued':
      return when(decideLogin(state, command), (_, fx) => applyLogin(state, fx, command))
    case 'rebind':
      return when(decideRebind(state, command), (plan, fx) => applyRebind(state, fx, command, plan))
    default: {
      const apply = FACTS[command.kind] as ApplyFact<FactKind>
      return { ok: true, apply: (fx) => apply(state, fx, command) }
    }
  }
}

function when<Plan extends { ok: true }>(
  plan: Plan | RefusedOutcome,
  apply: (plan: Plan, fx: Effects) => Answer,
): Accepted | RefusedOutcome {
  return plan.ok ? { ok: true, apply: (fx) => apply(plan, fx) } : plan
}

type RequestKind =
  | ('place' | 'modify' | 'cancel' | 'cancel_all' | 'dead_man' | 'withdraw' | 'reshape')
  | ('account_record' | 'credential' | 'login' | 'token_issued' | 'rebind')
type FactKind = Exclude<CommandKind, RequestKind>
type ApplyFact<K extends FactKind> = (state: State, fx: Effects, command: CommandOf<K>) => Answer

/** Facts from the chain, the clock and the operator are never rejected. */
const FACTS: { readonly [K in FactKind]: ApplyFact<K> } = {
  slot: applySlot,
  closed: (state, _, command) => applyClosed(state, command),
  decided: applyDecided,
  leaves: (state, _, command) => applyLeaves(state, command),
  hashed: applyHashed,
  batch_signed: (state, _, command) => applyBatchSigned(state, command),
  batch_stage: applyBatchStage,
  payout_stage: applyPayoutStage,
  queue_capacity: (state, _, command) => applyQueueCapacity(state, command),
  epoch_intended: (state, _, command) => applyEpochIntended(state, command),
  epoch_opened: (state, _, command) => applyEpochOpened(state, command),
  reference: (state, _, command) => applyReference(state, command),
  exit_requested: applyExit,
  halted: applyHalted,
  resumed: applyResumed,
  instrument_status: applyInstrumentStatus,
  arm_disconnect: (state, _, command) => applyArmDisconnect(state, command),
  disconnected: applyDisconnected,
  node_absent: (state, _, command) => applyNodeAbsent(state, command),
  configure: (state, _, command) => applyConfigure(state, command),
  spent_restored: (state, _, command) => applySpentRestored(state, command),
  queue_restored: (state, _, command) => applyQueueRestored(state, command),
  snapshot_taken: (state, _, command) => applySnapshotTaken(state, command),
  token_ended: (state, _, command) => applyTokenEnded(state, command),
  activate: (state, _, command) => applyActivate(state, command),
  // The boot reads it; no decision does.
  released: () => ({ kind: 'done' }),
}
