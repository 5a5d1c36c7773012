/** Implements the venue's write methods: intake, signatures, sequencing, and the durable answer with its receipt. */

import { venueId } from '../../protocol/bodies/statements'
import { Refusal } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { CancelAllFields, CancelFields, CommandBody } from '../commands'
import type { EngineConfig } from '../config'
import { type Arrivals, type VerifyClaims, verifyAtOnce } from '../intake/arrivals'
import { type Intake, intakeOf, type KnownNotes, type Signed } from '../intake/context'
import {
  intakeCancel,
  intakeCancelAll,
  intakeDeadMan,
  intakeModify,
  intakePlace,
  intakeReshape,
  intakeWithdrawal,
} from '../intake/requests'
import type { Answer } from '../machine/state/outcome'
import type { State } from '../machine/state/state'
import type { ChainPort } from '../ports'
import type { Answers, Venue } from '../venue'
import type { Availability } from './availability'
import type { Closing } from './closing'
import type { DisconnectGrace } from './disconnect_grace'
import { ReceiptCache } from './receipts'
import { randomHashSeed } from './seeds'
import { OutcomeUnknown, Resent, type Sequencer } from './sequencer'

type Results = { [A in Extract<Answer, { result: unknown }> as A['kind']]: A['result'] }
type Kind = 'place' | 'cancel' | 'modify' | 'cancel_all' | 'dead_man' | 'withdraw' | 'reshape'
type WithReceipt<K extends Kind> = Results[K] & { receipt: wire.Receipt }
/** A trader's command whose signatures were verified. */
export type Verified = {
  command: Extract<CommandBody, { kind: Kind }>
  body_and_signature: Uint8Array
  answers: Answers
}

type Write = 'place' | 'cancel' | 'modify' | 'cancelAll' | 'deadMan' | 'withdraw' | 'reshape'

/**
 * Verifies commands, on any node; `take` is of the one that leads. A refusal that follows from the request alone is thrown
 * synchronously; every other one rejects the promise.
 */
export class Writes implements Pick<Venue, Write> {
  constructor(
    private readonly intake: Intake,
    private readonly take: (verified: Verified) => Promise<object>,
    private readonly verifyClaims: VerifyClaims = verifyAtOnce,
  ) {}

  place(account_id: string, request: Parsed<typeof wire.PlaceRequest>, origin?: string) {
    return this.verify('place', intakePlace(this.intake, account_id, request, origin))
  }

  cancel(account_id: string, request: CancelFields, answers?: Answers) {
    return this.verify('cancel', intakeCancel(this.intake, account_id, request), answers)
  }

  modify(account_id: string, request: Parsed<typeof wire.ModifyParams>, origin?: string, answers?: Answers) {
    return this.verify('modify', intakeModify(this.intake, account_id, request, origin), answers)
  }

  cancelAll(account_id: string, items: CancelAllFields[]) {
    return this.verify('cancel_all', intakeCancelAll(this.intake, account_id, items))
  }

  deadMan(account_id: string, request: Parsed<typeof wire.DeadManRequest>) {
    return this.verify('dead_man', intakeDeadMan(this.intake, account_id, request))
  }

  withdraw(account_id: string, request: Parsed<typeof wire.WithdrawalRequest>) {
    return this.verify('withdraw', intakeWithdrawal(this.intake, account_id, request))
  }

  reshape(account_id: string, request: Parsed<typeof wire.ReshapeRequest>) {
    return this.verify('reshape', intakeReshape(this.intake, account_id, request))
  }

  /** Refuses `signature_invalid` first. */
  private verify<K extends Kind>(
    _kind: K,
    { claims, command, body_and_signature }: Signed<Extract<CommandBody, { kind: K }>>,
    answers: Answers = 'held',
  ): Promise<WithReceipt<K>> {
    return new Promise((resolve, reject) => {
      this.verifyClaims(claims, (holds) => {
        try {
          if (!holds) throw new Refusal('signature_invalid')
          const verified = { command: command(), body_and_signature, answers } as unknown as Verified
          resolve(this.take(verified) as Promise<WithReceipt<K>>)
        } catch (error) {
          reject(error)
        }
      })
    })
  }
}

type SequenceParts = {
  state: State
  sequencer: Sequencer
  availability: Availability
  grace: DisconnectGrace
  receipts: ReceiptCache
  closing: Closing
}

/** Sequences verified commands and answers them with their receipts. */
class Sequencing {
  constructor(private readonly parts: SequenceParts) {}

  async armDisconnect(account_id: string, origin: string, armed: boolean): Promise<void> {
    this.require(account_id)
    if (armed) this.parts.grace.makePlace(account_id, origin)
    // Executed in this turn: the end of the socket, which comes behind it, finds it armed.
    await this.parts.sequencer.submit({ kind: 'arm_disconnect', account_id, origin, armed })
    if (armed) await this.parts.grace.returned(account_id, origin)
  }

  async disconnected(account_id: string, origin: string): Promise<void> {
    if (!this.parts.state.accounts.get(account_id)?.armed.has(origin)) return
    // No client repeats it for a socket of this node, so it is journaled even while nothing is acknowledged.
    this.parts.availability.requireServing()
    await this.parts.sequencer.submit({ kind: 'disconnected', account_id, origin })
  }

  /** Refuses the session of an account without a record in this journal before a decision needs the account. */
  private require(account_id: string): void {
    this.parts.availability.requireRunning()
    if (!this.parts.state.accounts.has(account_id)) throw new Refusal('token_invalid')
  }

  async take({ command, body_and_signature, answers }: Verified): Promise<object> {
    const { handing } = this.parts.availability
    if (handing !== undefined) {
      await handing
      // Not rejected: the same bytes are for the node that leads by now.
      throw new Refusal('outcome_unknown')
    }
    this.require(command.account_id)
    const created_id = createdBy(command)
    const { sequencer, receipts, closing } = this.parts
    try {
      const { answer, receipt, group } = await sequencer.submit(command, body_and_signature)
      if (
        answer.kind !== command.kind ||
        !('result' in answer) ||
        receipt === undefined ||
        group === undefined
      )
        throw new Error('a command was answered as another kind')
      if (created_id !== undefined) receipts.set(created_id, group, receipt.index)
      if ('number' in answer && answer.number !== undefined) {
        const pending = { result: answer.result, receipt }
        closing.defer(answer.number, pending)
        return await closing.answerTo(answer.number, answers, pending)
      }
      return { ...answer.result, receipt }
    } catch (error) {
      if (error instanceof Resent) return await closing.answerTo(error.number, answers)
      this.keepLater(error, created_id)
      throw created_id === undefined ? error : this.withReceipt(error, created_id)
    }
  }

  /** A command of unknown outcome may be released yet: its resend then finds the receipt, and a deferred one its answer. */
  private keepLater(error: unknown, created_id: Uint8Array | undefined): void {
    if (!(error instanceof OutcomeUnknown)) return
    const { receipts, closing } = this.parts
    error.later.then(
      ({ answer, group, receipt }) => {
        if (created_id !== undefined) receipts.set(created_id, group!, receipt!.index)
        if ('number' in answer && answer.number !== undefined)
          closing.defer(answer.number, { result: answer.result, receipt: receipt! })
      },
      () => undefined,
    )
  }

  /** An identical resend returns the original result; adds the receipt while it is kept. */
  private withReceipt(error: unknown, created_id: Uint8Array): unknown {
    if (!(error instanceof Refusal) || error.code !== 'order_exists') return error
    const receipt = this.parts.receipts.get(created_id)
    if (receipt === undefined) return error
    return new Refusal('order_exists', {
      ...error.facts,
      result: { ...(error.facts.result as object), receipt },
    })
  }
}

/** The id under which a resend finds the receipt. */
function createdBy(command: Verified['command']): Uint8Array | undefined {
  switch (command.kind) {
    case 'place':
      return command.order_id
    case 'modify':
      return command.replacement.order_id
    case 'withdraw':
      return command.withdrawal_id
    case 'reshape':
      return command.reshape_id
    default:
      return undefined
  }
}

/** @param generation of the vault; part of the venue id that every signed body carries */
export function openIntake(
  config: EngineConfig,
  known: KnownNotes,
  { genesis_hash, program_id, config_account }: ChainPort,
  generation: number,
): Intake {
  const venue = venueId({ genesis_hash, program_id, config_account, generation })
  return intakeOf(venue, config.instruments, known)
}

/** @param parts that a command reaches after intake and signatures */
export function openWrites(intake: Intake, arrivals: Arrivals, parts: Omit<SequenceParts, 'receipts'>) {
  const sequencing = new Sequencing({ ...parts, receipts: new ReceiptCache(randomHashSeed()) })
  const writes = new Writes(intake, (verified) => sequencing.take(verified), arrivals.verify)
  return { intake, sequencing, writes }
}
