/**
 * Sends a signed request until its outcome is known. The same bytes are sent each time, so the venue applies them once; a
 * refusal proves that nothing was applied only on the first attempt, or where the venue says that it never can be.
 */
import type { Problem, Receipt } from '../../protocol/wire/trading'
import { endsTrading } from '../api/event_stream'
import { type VenueClient, VenueProblem } from '../api/venue_client'
import { NODE_RETRY_MS, SETTLE_RETRY_FIRST_MS, SETTLE_RETRY_MAX_MS } from '../limits'
import { ReceiptRefused } from '../verify/verify_receipt'
import type { WalletRequest } from '../wallet/wallet'
import { NodeLeft } from './live_venue'

/** Outcome of a request. Only `refused` says that nothing happened and nothing will. */
export type Outcome<Result = unknown> =
  | {
      status: 'accepted'
      id: string
      /** The venue's answer, the original one of a resend included; absent where only the state shows it. */
      result?: Result
      /** Verified; absent where the venue no longer has it. */
      receipt?: Receipt
    }
  | { status: 'refused'; id: string; problem: Problem }
  | { status: 'unknown'; id: string; cause: unknown }

/** @throws VenueProblem, or the error of a lost connection */
function send(client: VenueClient, sent: WalletRequest): Promise<unknown> {
  switch (sent.kind) {
    case 'place':
      return client.place(sent.request)
    case 'cancel':
      return client.cancel(sent.order_id, sent.request)
    case 'modify':
      return client.modify(sent.order_id, sent.request)
    case 'cancel_all':
      return client.cancelAll([sent.request].flat())
    case 'dead_man':
      return client.deadMan(sent.request)
    case 'withdraw':
      return client.withdraw(sent.request)
    case 'reshape':
      return client.reshape(sent.request)
  }
}

/** Codes by which the venue, after it has looked for an earlier copy of the command, says that it can never apply. */
const NEVER: ReadonlySet<string> = new Set([
  ...['nonce_stale', 'expiry_too_soon', 'order_final', 'order_unknown', 'order_id_taken'],
  ...['note_spent', 'note_wrong_mint', 'collateral_insufficient', 'withdraw_below_minimum'],
])
/** The first answers of a command that wait for the chain's decision on a closed batch end by an event, not by an answer. */
const MISSING: ReadonlySet<string> = new Set(['order_unknown', 'withdrawal_unknown', 'reshape_unknown'])

export type Patience = {
  /** Longest time until the outcome is called unknown. */
  patience_ms: number
  /** Whether the request may have been sent before this call. */
  sent_before: boolean
  /** Ends the waiting early. */
  isOver(): boolean
  /** Whether an open request may still create this order: the venue not knowing it is then no last word. */
  isAwaited(order_id: string): boolean
  /** Whether the process that this session first sent the request to still answers; it has the receipt. */
  isSameProcess(): Promise<boolean>
}

/**
 * Resolves with the known outcome when the patience is over. @throws MustStop, the refusal of a login, ReceiptRefused for an
 * answer without a receipt by the process that the request was first sent to: the outcome is open
 */
export async function settleRequest(
  client: VenueClient,
  sent: WalletRequest,
  { patience_ms, sent_before, isOver, ...venue }: Patience,
): Promise<Outcome> {
  const deadline = performance.now() + patience_ms
  let wait_ms = SETTLE_RETRY_FIRST_MS
  let perhaps_sent = sent_before
  for (;;) {
    let cause: unknown
    try {
      return answered(sent, await send(client, sent))
    } catch (error) {
      unlessOver(error)
      const known = await judge(client, sent, error, { perhaps_sent, ...venue }).catch(unlessOver)
      if (known !== undefined) return known
      cause = error
    }
    perhaps_sent = true
    const asked_ms = cause instanceof VenueProblem ? cause.problem.retry_after_ms : undefined
    // A value that is no number would end neither the wait nor the patience.
    const next_ms = Number.isFinite(asked_ms) ? Math.max(wait_ms, asked_ms!) : wait_ms
    if (isOver() || performance.now() + next_ms > deadline) return { status: 'unknown', id: sent.id, cause }
    await new Promise((resolve) => setTimeout(resolve, next_ms))
    wait_ms = Math.min(wait_ms * 2, SETTLE_RETRY_MAX_MS)
  }
}

/**
 * A request that the venue cannot serve for a moment (503, `quote_busy`), or whose node is left for another one, is sent again within
 * the patience. @throws the error of the last attempt
 */
export async function untilServed<T>(patience_ms: number, ask: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + patience_ms
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      const is_away = error instanceof VenueProblem && (error.status === 503 || error.code === 'quote_busy')
      if (!(is_away || error instanceof NodeLeft) || performance.now() > deadline) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, NODE_RETRY_MS))
  }
}

/** @throws an error after which no attempt follows */
function unlessOver(error: unknown): undefined {
  if (endsTrading(error) || error instanceof ReceiptRefused) throw error
}

/** Undefined unless the venue shows the command; a shown one is sent once more, because the answer has its receipt. */
export async function findAccepted(client: VenueClient, sent: WalletRequest): Promise<Outcome | undefined> {
  if (!(await shows(client, sent))) return undefined
  const once = { patience_ms: 0, sent_before: true, isOver: () => true, isAwaited: () => true }
  const again = await settleRequest(client, sent, { ...once, isSameProcess: async () => false })
  return again.status === 'accepted' ? again : { status: 'accepted', id: sent.id }
}

const accepted = ({ id }: WalletRequest, result: unknown): Outcome => ({ status: 'accepted', id, result })

/** The process that took the command has its receipt. @throws ReceiptRefused */
function answered(sent: WalletRequest, result: unknown): Outcome {
  if (Object(result).receipt === undefined) throw new ReceiptRefused('the answer has no receipt')
  return accepted(sent, result)
}

/** The outcome that a failed attempt proves; undefined while it is open. */
async function judge(
  client: VenueClient,
  sent: WalletRequest,
  error: unknown,
  { perhaps_sent, ...venue }: { perhaps_sent: boolean } & Pick<Patience, 'isAwaited' | 'isSameProcess'>,
): Promise<Outcome | undefined> {
  if (!(error instanceof VenueProblem)) return undefined
  const { problem, code } = error
  if (code === 'order_exists') {
    const has_none = Object(problem.result).receipt === undefined
    return (has_none && (await venue.isSameProcess()) ? answered : accepted)(sent, problem.result)
  }
  if (error.applied !== 'no') return undefined
  if (!perhaps_sent) return { status: 'refused', id: sent.id, problem }
  if (!NEVER.has(code)) return undefined
  if (code === 'order_unknown' && 'order_id' in sent && venue.isAwaited(sent.order_id)) return undefined
  const shown = await shows(client, sent, problem)
  if (shown === undefined) return undefined
  return shown ? { status: 'accepted', id: sent.id } : { status: 'refused', id: sent.id, problem }
}

/** Whether the venue's state includes the effect of the command; undefined if it does not show that. */
async function shows(
  client: VenueClient,
  sent: WalletRequest,
  problem?: Problem,
): Promise<boolean | undefined> {
  switch (sent.kind) {
    case 'place':
      return exists(client.order(sent.id))
    case 'withdraw':
      return exists(client.withdrawal(sent.id))
    case 'reshape':
      return exists(client.reshapeOf(sent.id))
    case 'modify': {
      // The old order first: while the change waits for its batch, neither order shows it.
      const old = await found(client.order(sent.order_id))
      if (old?.pending !== undefined) return undefined
      return exists(client.order(sent.id))
    }
    case 'cancel': {
      const order = await found(client.order(sent.order_id))
      if (order === undefined) return problem === undefined ? undefined : false
      const { status, pending } = order
      if (pending !== undefined || (status !== 'accepted' && status !== 'partially_filled')) return true
      // Had it applied before a later nonce, the order would have ended.
      if (problem?.code === 'nonce_stale') return problem.nonce_last === sent.request.cancel_nonce
      return undefined
    }
    case 'cancel_all':
      return usedNonce([sent.request].flat().at(-1)!.cancel_nonce, problem)
    case 'dead_man':
      return usedNonce(sent.request.cancel_nonce, problem)
  }
}

/** The key signs one command per nonce, so the last nonce used is this command's or a later one's. */
function usedNonce(cancel_nonce: string, problem: Problem | undefined): boolean | undefined {
  if (problem?.nonce_last === undefined) return undefined
  return problem.nonce_last === cancel_nonce ? true : undefined
}

async function exists(answer: Promise<unknown>): Promise<boolean> {
  return (await found(answer)) !== undefined
}

/** Undefined for a name that the venue does not know. @throws any other error of the call */
async function found<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof VenueProblem && MISSING.has(error.code)) return undefined
    throw error
  }
}
