/** The calls of a simulated trader, and their expected results. */
import { VenueProblem } from '../../client/api/venue_client'
import type { Session } from '../../client/session/session'
import { NoNote, SessionEnded } from '../../client/session/session_options'
import type { Outcome } from '../../client/session/settle'
import { EvidenceUnavailable } from '../../client/verify/collect/collect_evidence'
import type { WalletNote } from '../../client/wallet/wallet'
import { NotWritten } from '../../client/whole_file'
import { encodeBase58 } from '../../protocol/base58'
import { utf8 } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { Random } from '../kit/random'
import { Ended } from './faulty_files'
import type { Focus } from './guide'

/** Of SOL-USDC at every simulated venue. */
export const LOT = 1_000_000n
export const TICK = 10_000n
/** Highest of the numbers that choose the kind. */
const [MODIFY, SETTLE, REVOKE] = [6, 12, 19]

type Kind =
  | 'place'
  | 'cancel'
  | 'cancel_all'
  | 'dead_man'
  | 'modify'
  | 'withdraw'
  | 'reshape'
  | 'settle'
  | 'revoke'
export type Call = { kind: Kind; run: (session: Session) => Promise<Outcome> }

const KINDS: readonly [RegExp, string][] = [
  [/^POST \/orders\/cancel-all/, 'cancel_all'],
  [/^POST \/orders\/dead-man/, 'dead_man'],
  [/^POST \/orders$/, 'place'],
  [/^PUT \/orders/, 'modify'],
  [/^DELETE \/orders/, 'cancel'],
  [/^POST \/withdrawals/, 'withdraw'],
  [/^POST \/notes\/reshape/, 'reshape'],
  [/^POST \/auth\/token/, 'login'],
]
export const kindOf = (method: string, path: string): string =>
  KINDS.find(([form]) => form.test(`${method} ${path}`))?.[1] ?? 'read'

/** Parts of a request that count once: its ids and nonces. */
export function namesOf(kind: string, body: unknown): string[] {
  const of = Object(Array.isArray(body) ? body[0] : body) as Record<string, string>
  if (kind === 'place') return [of['order_id']!]
  if (kind === 'modify') return [(of['replacement'] as never as Record<string, string>)['order_id']!]
  if (kind === 'withdraw' || kind === 'reshape') return [`${of['trading_key']}#${of['nonce']}`]
  return [`${of['trading_key']}/${of['cancel_nonce']}`]
}

/** How many calls and mishaps of one trader, in which time. */
export type Size = {
  calls: number
  mishaps: number
  trading_ms: number
  is_thin: boolean
  focus: Focus
  /** Planned stops of processes. */
  stops: number
  /** Ends of processes at awaits that lack them: in a run, and in a start on what is left. */
  hunted: { run: number; start: number }
}

/** @param is_thin half of the calls are of the kinds that chance alone seldom gives */
export function pickCall(session: Session, random: Random, is_thin: boolean): Call {
  const { state } = session.wallet
  const live = state.orders.filter(({ open }) => open)
  const free = state.notes.filter((note) => note.state === 'free')
  const dice = is_thin ? thin(session, random, live.length > 0) : random.below(20)
  if (dice < 3 && live.length > 0) {
    const { order_id } = random.pick(live)
    return { kind: 'cancel', run: (of) => of.cancel(order_id) }
  }
  if (dice === 3) return { kind: 'cancel_all', run: (of) => of.cancelAll(random.below(2), undefined) }
  if (dice === 4) return { kind: 'dead_man', run: (of) => of.deadMan(random.pick([0, 3, 50]), 0) }
  if (dice <= MODIFY && live.length > 0) {
    const { order_id, side } = random.pick(live)
    const order = orderOf(random, side)
    return { kind: 'modify', run: (of) => of.modify(order_id, order) }
  }
  if (dice < 9 && free.length > 0) return withdrawal(random, random.pick(free))
  if (dice < 11 && free.length > 0) return reshape(random, random.pick(free))
  if (dice <= SETTLE && session.open_requests.length > 0) {
    const { id } = random.pick(session.open_requests)
    return { kind: 'settle', run: (of) => of.settle(id) }
  }
  if (dice === REVOKE) return { kind: 'revoke', run: revoke }
  const [order, merge] = [orderOf(random, random.pick(['buy', 'sell'])), random.below(3) > 0]
  const plans = random.below(4) === 0
  const place = async (of: Session) => {
    if (plans) await of.plan(order)
    return of.place(order, { merge })
  }
  return { kind: 'place', run: place }
}
function thin({ open_requests }: Session, random: Random, is_live: boolean): number {
  const dice = random.below(20)
  if (dice < 5) return random.below(20)
  return open_requests.length > 0 && dice < 15 ? SETTLE : is_live ? MODIFY : dice
}
function orderOf(random: Random, side: 'buy' | 'sell') {
  const type = random.pick(['limit', 'limit', 'limit', 'ioc'] as const)
  const amount = BigInt(random.pick([100, 250, 600, 1_050, 1_250])) * LOT
  const price = 100_000_000n + BigInt(random.below(400) - 200) * TICK
  return { symbol: 'SOL-USDC', side, type, amount, price, life_slots: random.pick([4, 12, 3_000, 3_000]) }
}
function withdrawal(random: Random, note: WalletNote): Call {
  const part = BigInt(random.below(3))
  const amount = part === 0n ? BigInt(note.amount) - 100n : BigInt(note.amount) / (part + 1n)
  const destination = encodeBase58(sha256(utf8(`destination ${random.below(1_000_000)}`)))
  const to = { mint: note.mint, destination, amount, life_slots: random.pick([6, 3_000]) }
  const [plans, merge] = [random.below(4) === 0, random.below(4) === 0]
  const withdraw = async (of: Session) => {
    if (plans) await of.planWithdrawal(to)
    return of.withdraw(to, { merge })
  }
  return { kind: 'withdraw', run: withdraw }
}
function reshape(random: Random, note: WalletNote): Call {
  const half = BigInt(note.amount) / 2n
  const amounts = [half, BigInt(note.amount) - half]
  return { kind: 'reshape', run: (of) => of.reshape([note], amounts, random.pick([6, 3_000])) }
}

/** Ends the token of the session, which logs in again; the venue may end first. */
async function revoke({ client }: Session): Promise<Outcome> {
  const id = 'revoke'
  try {
    await client.revoke()
    return { status: 'accepted', id, result: undefined }
  } catch (cause) {
    const is_unknown = cause instanceof VenueProblem ? cause.status === 503 : isLeft(cause)
    if (is_unknown) return { status: 'unknown', id, cause }
    throw cause
  }
}

/** Of a trader's process and disk, of both sides' disks, of logins and TLS keys, and of processes of the venue. */
export const MISHAPS = [
  ...(['kill', 'full', 'failing', 'ends in save', 'tls', 'token', 'close'] as const),
  ...(['crash', 'restart', 'slow'] as const),
]

/** Whether every order of the wallet is closed, but one whose request has no outcome yet. */
export function isClosed(session: Session | undefined): boolean {
  if (session === undefined) return false
  const { wallet, open_requests } = session
  const left = new Set(open_requests.map(({ id }) => id))
  return wallet.state.orders.every(({ open, order_id }) => !open || left.has(order_id))
}

/** Another node leads before the one that was asked has answered. */
const isLeft = (error: unknown): boolean => (error as Error).name === 'NodeLeft'
export const named = (error: unknown): string =>
  error instanceof VenueProblem
    ? `VenueProblem ${error.code}`
    : error instanceof Error
      ? `${error.name}: ${error.message}`
      : String(error)

/** A venue answers so after a fork took the blockhash of its opening, or a decided commit, until that is on chain again. */
const UNREADY = ['unanchored', 'lease_lost', 'commit_reorged']

/** A trader's expectations of a session on a bad network and disk. */
export function isExpected(error: unknown): boolean {
  const expected = [NoNote, NotWritten, SessionEnded, RangeError, EvidenceUnavailable, SyntaxError, Ended]
  if (expected.some((one) => error instanceof one)) return true
  if (error instanceof TypeError) return error.message === 'connection lost'
  return (
    error instanceof VenueProblem &&
    ['rate_limited', 'draining', 'internal', 'token_expired', ...UNREADY].includes(error.code)
  )
}
