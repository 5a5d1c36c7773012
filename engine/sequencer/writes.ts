/** Implements the venue's write methods: intake, signatures, sequencing, and the durable answer with its receipt. */

import { venueId } from '../../protocol/bodies/venue_id'
import { Refusal } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire/trading'
import type { Parsed } from '../../protocol/wire/values'
import type { CancelAllFields, CancelFields, CommandBody } from '../commands'
import type { EngineConfig } from '../config'
import { claimsHold, type Intake, intakeOf, type KnownNotes, type Signed } from '../intake/context'
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
type WithReceipt<K extends keyof Results> = Results[K] & { receipt: wire.Receipt }

type WriteParts = {
  intake: Intake
  state: State
  sequencer: Sequencer
  availability: Availability
  grace: DisconnectGrace
  receipts: ReceiptCache
  closing: Closing
}

type Write = 'place' | 'cancel' | 'modify' | 'cancelAll' | 'deadMan' | 'withdraw' | 'reshape'

/** A refusal that follows from the request alone is thrown synchronously; every other one rejects the promise. */
class Writes implements Pick<Venue, Write> {
  constructor(private readonly parts: WriteParts) {}

  place(account_id: string, request: Parsed<typeof wire.PlaceRequest>, origin?: string) {
    const signed = intakePlace(this.parts.intake, account_id, request, origin)
    return this.submit('place', account_id, signed, ({ order_id }) => order_id)
  }

  cancel(account_id: string, request: CancelFields, answers?: Answers) {
    const signed = intakeCancel(this.parts.intake, account_id, request)
    return this.submit('cancel', account_id, signed, undefined, answers)
  }

  modify(account_id: string, request: Parsed<typeof wire.ModifyParams>, origin?: string, answers?: Answers) {
    const signed = intakeModify(this.parts.intake, account_id, request, origin)
    return this.submit('modify', account_id, signed, ({ replacement }) => replacement.order_id, answers)
  }

  cancelAll(account_id: string, items: CancelAllFields[]) {
    return this.submit('cancel_all', account_id, intakeCancelAll(this.parts.intake, account_id, items))
  }

  deadMan(account_id: string, request: Parsed<typeof wire.DeadManRequest>) {
    return this.submit('dead_man', account_id, intakeDeadMan(this.parts.intake, account_id, request))
  }

  withdraw(account_id: string, request: Parsed<typeof wire.WithdrawalRequest>) {
    const signed = intakeWithdrawal(this.parts.intake, account_id, request)
    return this.submit('withdraw', account_id, signed, ({ withdrawal_id }) => withdrawal_id)
  }

  reshape(account_id: string, request: Parsed<typeof wire.ReshapeRequest>) {
    const signed = intakeReshape(this.parts.intake, account_id, request)
    return this.submit('reshape', account_id, signed, ({ reshape_id }) => reshape_id)
  }

  async armDisconnect(account_id: string, origin: string, armed: boolean): Promise<void> {
    this.require(account_id)
    if (armed) await this.parts.grace.returned(account_id)
    await this.parts.sequencer.submit({ kind: 'arm_disconnect', account_id, origin, armed })
  }

  async disconnected(account_id: string, origin: string): Promise<void> {
    if (!this.parts.state.accounts.get(account_id)?.armed.has(origin)) return
    this.require(account_id)
    await this.parts.sequencer.submit({ kind: 'disconnected', account_id, origin })
  }

  /** Refuses the session of an account without a record in this journal before a decision needs the account. */
  private require(account_id: string): void {
    this.parts.availability.requireRunning()
    if (!this.parts.state.accounts.has(account_id)) throw new Refusal('token_invalid')
  }

  /** Refuses `signature_invalid` first. `idOf` returns the id under which a resend finds the receipt. */
  private async submit<K extends keyof Results, C extends CommandBody>(
    kind: K,
    account_id: string,
    signed: Signed<C>,
    idOf?: (command: C) => Uint8Array,
    answers: Answers = 'held',
  ): Promise<WithReceipt<K>> {
    if (!claimsHold(signed.claims)) throw new Refusal('signature_invalid')
    const { handing } = this.parts.availability
    if (handing !== undefined) {
      await handing
      // Not refused: the same bytes are for the node that leads by now.
      throw new Refusal('outcome_unknown')
    }
    this.require(account_id)
    const command = signed.command()
    const created_id = idOf?.(command)
    const { sequencer, receipts, closing } = this.parts
    try {
      const { answer, receipt, group } = await sequencer.submit(command, signed.body_and_signature)
      if (answer.kind !== kind || !('result' in answer) || receipt === undefined || group === undefined) {
        throw new Error('a command was answered as another kind')
      }
      if (created_id !== undefined) receipts.set(created_id, group, receipt.index)
      if ('number' in answer && answer.number !== undefined) {
        const pending = { result: answer.result, receipt }
        closing.defer(answer.number, pending)
        return (await closing.answerTo(answer.number, answers, pending)) as WithReceipt<K>
      }
      return { ...answer.result, receipt } as unknown as WithReceipt<K>
    } catch (error) {
      if (error instanceof Resent) return (await closing.answerTo(error.number, answers)) as WithReceipt<K>
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

/**
 * @param generation of the vault; part of the venue id that every signed body carries
 * @param behind the parts that a command reaches after intake and signatures
 */
export function openWrites(
  config: EngineConfig,
  known: KnownNotes,
  { genesis_hash, program_id, config_account }: ChainPort,
  generation: number,
  behind: Pick<WriteParts, 'sequencer' | 'availability' | 'grace' | 'closing'>,
) {
  const venue = venueId({ genesis_hash, program_id, config_account, generation })
  const intake: Intake = intakeOf(venue, config.instruments, known)
  const writes = new Writes({
    ...behind,
    intake,
    state: known.state,
    receipts: new ReceiptCache(randomHashSeed()),
  })
  return { intake, writes }
}
