/** The venue's write methods: intake, signatures, sequencing, and the answer with its receipt once it is durable. */

import { venueId } from '../../protocol/bodies/venue_id'
import { Refusal } from '../../protocol/refusals'
import type * as wire from '../../protocol/wire/trading'
import type { CommandBody } from '../commands'
import type { EngineConfig } from '../config'
import { intakeCancel, intakeCancelAll, intakeDeadMan } from '../intake/cancel'
import { type Intake, intakeOf, type Signed } from '../intake/context'
import { intakeReshape, intakeWithdrawal } from '../intake/payments'
import { intakeModify, intakePlace } from '../intake/place'
import { SIGNATURES_INLINE, type Signatures, SignatureThread } from '../intake/signatures'
import type { Answer } from '../machine/state/outcome'
import type { State } from '../machine/state/state'
import type { ChainPort } from '../ports'
import type { Availability } from './availability'
import type { DisconnectGrace } from './disconnect_grace'
import { ReceiptCache } from './receipts'
import type { Sequencer } from './sequencer'

// Callers waiting for a journal seq to become durable, released in order.

type Waiter = { seq: number; resolve: () => void; reject: (reason: Error) => void }

export class Waiters {
  /** Ascending by seq: callers wait for the newest executed record, which only grows. */
  private waiting: Waiter[] = []

  at(seq: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ seq, resolve, reject })
    })
  }

  releaseUpTo(seq: number): void {
    const first_later = this.waiting.findIndex((waiter) => waiter.seq > seq)
    const ready = this.waiting.splice(0, first_later === -1 ? this.waiting.length : first_later)
    for (const waiter of ready) waiter.resolve()
  }

  rejectAll(reason: Error): void {
    for (const waiter of this.waiting.splice(0)) waiter.reject(reason)
  }
}

// The venue's write methods: intake, signatures, sequencing, and the answer with its receipt once it is durable.

type Results = { [A in Extract<Answer, { result: unknown }> as A['kind']]: A['result'] }
type WithReceipt<K extends keyof Results> = Results[K] & { receipt: wire.Receipt }

type WriteParts = {
  intake: Intake
  signatures: Signatures
  state: State
  sequencer: Sequencer
  availability: Availability
  grace: DisconnectGrace
  receipts: ReceiptCache
}

/** What follows from the request alone is refused at once, by throwing; everything else by the promise. */
class Writes {
  constructor(private readonly parts: WriteParts) {}

  place(account_id: string, request: wire.PlaceRequest, origin?: string): Promise<wire.PlaceResult> {
    const signed = intakePlace(this.parts.intake, account_id, request, origin)
    return this.submit('place', account_id, signed, ({ order_id }) => order_id)
  }

  cancel(account_id: string, order_id: string, request: wire.CancelRequest): Promise<wire.CancelResult> {
    const signed = intakeCancel(this.parts.intake, account_id, order_id, request)
    return this.submit('cancel', account_id, signed)
  }

  modify(
    account_id: string,
    order_id: string,
    request: wire.ModifyRequest,
    origin?: string,
  ): Promise<wire.ModifyResult> {
    const signed = intakeModify(this.parts.intake, account_id, order_id, request, origin)
    return this.submit('modify', account_id, signed, ({ replacement }) => replacement.order_id)
  }

  cancelAll(account_id: string, requests: wire.CancelAllRequest[]): Promise<wire.CancelAllResult> {
    const signed = intakeCancelAll(this.parts.intake, account_id, requests)
    return this.submit('cancel_all', account_id, signed)
  }

  deadMan(account_id: string, request: wire.DeadManRequest): Promise<wire.DeadManResult> {
    return this.submit('dead_man', account_id, intakeDeadMan(this.parts.intake, account_id, request))
  }

  withdraw(
    account_id: string,
    request: wire.WithdrawalRequest,
  ): Promise<wire.Withdrawal & { receipt: wire.Receipt }> {
    const signed = intakeWithdrawal(this.parts.intake, account_id, request)
    return this.submit('withdraw', account_id, signed, ({ withdrawal_id }) => withdrawal_id)
  }

  reshape(
    account_id: string,
    request: wire.ReshapeRequest,
  ): Promise<wire.Reshape & { receipt: wire.Receipt }> {
    const signed = intakeReshape(this.parts.intake, account_id, request)
    return this.submit('reshape', account_id, signed, ({ reshape_id }) => reshape_id)
  }

  async armDisconnect(account_id: string, origin: string, armed: boolean): Promise<void> {
    this.require(account_id)
    if (armed) await this.parts.grace.returned(account_id)
    await this.parts.sequencer.submit({ kind: 'arm_disconnect', account_id, origin, armed })
  }

  async disconnected(account_id: string, origin: string): Promise<void> {
    // Orders the socket sent before it went may still wait for their signatures, and belong to what is cancelled.
    await this.parts.signatures.hold([])
    this.require(account_id)
    if (!this.parts.state.accounts.get(account_id)!.armed.has(origin)) return
    await this.parts.sequencer.submit({ kind: 'disconnected', account_id, origin })
  }

  /** A session of an account that has no record in this journal must not reach a decision. */
  private require(account_id: string): void {
    this.parts.availability.requireRunning()
    if (!this.parts.state.accounts.has(account_id)) throw new Refusal('token_invalid')
  }

  /** Refuses `signature_invalid` first. `idOf` names the id under which a resend finds the receipt. */
  private async submit<K extends keyof Results, C extends CommandBody>(
    kind: K,
    account_id: string,
    signed: Signed<C>,
    idOf?: (command: C) => Uint8Array,
  ): Promise<WithReceipt<K>> {
    const held = this.parts.signatures.hold(signed.claims)
    if (!(typeof held === 'boolean' ? held : await held)) throw new Refusal('signature_invalid')
    this.require(account_id)
    const command = signed.command()
    const made = idOf?.(command)
    try {
      const { sequencer, receipts } = this.parts
      const { answer, receipt, group } = await sequencer.submit(command, signed.body_and_signature)
      if (answer.kind !== kind || !('result' in answer) || receipt === undefined || group === undefined) {
        throw new Error('a command was answered as another')
      }
      if (made !== undefined) receipts.set(made, group, receipt.index)
      return { ...answer.result, receipt } as unknown as WithReceipt<K>
    } catch (error) {
      throw made === undefined ? error : this.withReceipt(error, made)
    }
  }

  /** An identical resend learns its original result; the receipt joins it while it is kept. */
  private withReceipt(error: unknown, made: Uint8Array): unknown {
    if (!(error instanceof Refusal) || error.code !== 'order_exists') return error
    const receipt = this.parts.receipts.get(made)
    if (receipt === undefined) return error
    return new Refusal('order_exists', {
      ...error.facts,
      result: { ...(error.facts.result as object), receipt },
    })
  }
}

// Joins what a client's command passes before it is executed: form, signatures, and the writer behind them.

/** @param generation of the vault; part of the venue id every signed body names */
export function openWrites(
  config: EngineConfig,
  state: State,
  { genesis_hash, program_id, config_account }: ChainPort,
  generation: number,
  fatal: (error: Error) => void,
  behind: Pick<WriteParts, 'sequencer' | 'availability' | 'grace'>,
) {
  const venue = venueId({ genesis_hash, program_id, config_account, generation })
  const intake: Intake = intakeOf(venue, config.instruments, state)
  const signatures = config.signature_thread === true ? new SignatureThread(fatal) : SIGNATURES_INLINE
  const writes = new Writes({ ...behind, intake, signatures, state, receipts: new ReceiptCache() })
  return { intake, signatures, writes }
}
