/** Executes on the leading node the requests that the others pass on for their callers. */
import { fromHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { JournalSeq } from '../../protocol/units'
import type { Engine } from '../boot/assemble'
import type { Command, CommandBody, CommandKind } from '../commands'
import { decodeCommand } from '../machine/codec/command_codec'
import type { Verified } from '../sequencer/writes'
import type { Caller, LimitState, Passed, PassedAnswer } from '../venue'

const COMMANDS: readonly CommandKind[] = [
  'place',
  'cancel',
  'modify',
  'cancel_all',
  'dead_man',
  'withdraw',
  'reshape',
]
const RECORDS: readonly CommandKind[] = [
  'token_issued',
  'token_ended',
  'credential',
  'rebind',
  'arm_disconnect',
  'disconnected',
]

/** For these the end of the token is the purpose, or none is needed. */
const OF_TOKENS: readonly CommandKind[] = ['token_issued', 'token_ended', 'disconnected']

/** Resolves once no node answers by a token that has ended: each has the record, or no right to answer. */
export async function untilEnded({ fronts, node, sequencer, state }: Engine): Promise<void> {
  await Promise.all([node?.alone(), fronts?.applied(sequencer.seq_durable, state.epoch)])
}

/** @throws Refusal */
export async function passedTo(
  engine: Engine,
  passed: Passed,
  costOf: (command: CommandBody) => number,
): Promise<PassedAnswer> {
  const { accounts, ended, market, sequencer, tree } = engine
  let limits: LimitState | null = null
  const take = (access: Caller['access'], seq: JournalSeq, command: CommandBody) => {
    if (!('account_id' in command)) return
    const { account_id } = command
    if (!OF_TOKENS.includes(command.kind) && !ended.areNoneSince(seq, account_id))
      throw new Refusal('lease_lost')
    const cost = costOf(command)
    if (cost > 0) limits = accounts.takeLimit({ account_id, access }, cost)
  }
  const answer = async (): Promise<object> => {
    switch (passed.kind) {
      case 'command': {
        const { answers, signed: body_and_signature } = passed
        const command = commandOf(passed.command, COMMANDS) as Verified['command']
        take(passed.access, passed.seq, command)
        return engine.sequencing.take({ command, body_and_signature, answers })
      }
      case 'record': {
        const command = commandOf(passed.command, RECORDS)
        take(passed.access, passed.seq, command)
        return record(engine, command)
      }
      case 'statistics':
        return market.statistics(passed.symbol, passed)
      case 'tree_root':
        return tree.root()
      case 'tree_leaves':
        return tree.leaves(passed.from, passed.limit)
      case 'tree_inclusion': {
        const { leaf } = passed
        return tree.inclusion(typeof leaf === 'number' ? leaf : fromHex(leaf, 32)!)
      }
      case 'leaves':
        await engine.grace.nodeLeaves(passed.node)
        return {}
    }
  }
  const value = await answer()
  return { value, seq: sequencer.seq_durable, limits }
}

/** @throws Refusal `frame_invalid` for bytes of another kind than `kinds` */
function commandOf(bytes: Uint8Array, kinds: readonly CommandKind[]): Command {
  const command = decodeCommand(bytes)
  if (!kinds.includes(command.kind)) throw new Refusal('frame_invalid')
  return command
}

async function record(engine: Engine, command: Command): Promise<object> {
  const { availability, sequencer, sequencing } = engine
  if (command.kind === 'arm_disconnect') {
    await sequencing.armDisconnect(command.account_id, command.origin, command.armed)
    return {}
  }
  if (command.kind === 'disconnected') {
    await sequencing.disconnected(command.account_id, command.origin)
    return {}
  }
  availability.requireRunning()
  const { answer } = await sequencer.submit(command)
  if (command.kind === 'credential' || command.kind === 'token_ended') await untilEnded(engine)
  return 'result' in answer ? answer.result : {}
}
