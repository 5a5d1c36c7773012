/** Names the points of a simulation: what happens while something else is under way. A long run must reach each of them. */
import type { Command } from '../../engine/commands'
import type { State } from '../../engine/machine/state/state'
import { DEATHS } from './relay'

const SITUATIONS: readonly (readonly [name: string, holds: (state: State) => boolean])[] = [
  ['a batch is closed', ({ closed }) => closed !== undefined],
  ['a settlement is not final', ({ settlement }) => settlement.batches.size > 0],
  ['a payout is open', ({ settlement }) => settlement.payouts_open > 0],
  ['an exit is open', ({ settlement }) => settlement.exits.size > 0],
]
const STAGES = ['submitted', 'confirmed', 'finalized'] as const
const COMMANDS = [
  ...['place', 'modify', 'cancel', 'cancel_all', 'dead_man', 'withdraw', 'reshape', 'arm_disconnect'],
  ...[
    'disconnected',
    'reference',
    'instrument_status',
    'slot',
    'closed',
    'decided committed',
    'decided void',
    'hashed',
  ],
  ...['leaves', 'epoch_intended', 'epoch_opened', 'batch_signed'],
  ...STAGES.map((stage) => `batch_stage ${stage}`),
  ...STAGES.map((stage) => `payout_stage ${stage}`),
  ...['confirmed', 'finalized', 'vanished'].map((stage) => `exit_requested ${stage}`),
]
const LOST = ['deposited', 'settled', 'paid', 'exit_requested', 'exit_closed', 'exit_refused']

const of = (what: string, situation: string) => `${what} while ${situation}`

/** A decision ends the closed batch, and the slots that an opening waits for decide one. */
const ABSENT = new Set(
  ['decided committed', 'decided void', 'epoch_opened'].map((name) =>
    of(`command ${name}`, 'a batch is closed'),
  ),
)

/** @param operations names of everything a simulation does */
export function pointsOf(operations: readonly string[]): string[] {
  const happens = [
    ...operations.map((name) => `operation ${name}`),
    ...COMMANDS.map((name) => `command ${name}`),
    ...DEATHS.map((at) => `death ${at}`),
    ...LOST.map((kind) => `fork without ${kind}`),
  ]
  const all = happens.flatMap((what) => SITUATIONS.map(([situation]) => of(what, situation)))
  return all.filter((point) => !ABSENT.has(point))
}

export const reachedBy = (what: string, state: State): string[] =>
  SITUATIONS.filter(([, holds]) => holds(state)).map(([situation]) => of(what, situation))

export function nameOfCommand(command: Command): string {
  if (command.kind === 'decided') return `decided ${command.outcome}`
  if (command.kind === 'batch_stage' || command.kind === 'payout_stage')
    return `${command.kind} ${command.stage.stage}`
  return command.kind === 'exit_requested' ? `exit_requested ${command.request.stage}` : command.kind
}
