/** Types the options of a session and its rejections. */
import { TacitError } from '../../protocol/tacit_error'
import type { AccountEvent, OrderType, Side } from '../../protocol/wire/trading'
import type { Login } from '../api/venue_client'
import type { ConnectOptions } from '../verified_venue'
import type { WalletStore } from '../wallet/wallet_file'
import type { PolicySource, SessionVenue } from './live_venue'

export type SessionOptions = {
  /** HTTPS origin of the venue, or of its nodes. */
  url: string | readonly string[]
  /** Whom to accept as this venue; by default the policy that `start` wrote for the venue of this machine. */
  policy?: PolicySource
  /** As `tacit account request` wrote it. */
  login: Login
  /** Path of the wallet's file, which no other session may have open, or a wallet with another place to keep it. */
  wallet: string | WalletStore
  /** Of an encrypted file. */
  password?: string
  /** Of another seed's account that the wallet's trading keys were moved to; by default the one of the wallet's seed. */
  account_id?: string
  connect?: ConnectOptions
  /** Verifies and connects by other means than `connect`. */
  open_venue?: () => Promise<SessionVenue>
  /** Longest wait for an outcome. */
  patience_ms?: number
  /** Runs after the wallet took the event; one that throws ends the session. */
  event?(event: AccountEvent): void | Promise<void>
  /** Reports the stream of events: without it the wallet is as of the last event. It reconnects by itself. */
  connection?(connected: boolean): void
  /** The session has ended by itself: nothing is sent any more. */
  ended?(reason: unknown): void
}

/** An order as a person writes it: texts are whole tokens, bigints base units and quote units per whole base token. */
export type SessionOrder = {
  symbol: string
  side: Side
  /** Default `limit`. */
  type?: OrderType
  amount: string | bigint
  /** Quote tokens per base token. */
  price: string | bigint
  min_fill?: string | bigint
  /** Slots in which it may trade; 3,000 when absent. */
  life_slots?: number
}
export type SessionWithdrawal = {
  mint: string
  /** Token account, base58. */
  destination: string
  amount: string | bigint
  life_slots?: number
}
/** No free notes of one key cover the amount; `needed` in base units of the mint. */
export class NoNote extends TacitError<{ mint: string; needed: bigint }> {
  override readonly name = 'NoNote'
  readonly code = 'no_note'
  constructor(mint: string, needed: bigint) {
    super('no free notes of one key cover the amount', { mint, needed })
  }
}

/** The session was closed, or ended for the reason given as its cause. */
export class SessionEnded extends TacitError {
  override readonly name = 'SessionEnded'
  readonly code = 'session_ended'
  constructor(cause: unknown) {
    super('the session has ended', {}, { cause })
  }
}
