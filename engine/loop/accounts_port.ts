/** What the venue needs of the account edge (engine/accounts): login, tokens, limits and signed records. */
import type { TokenRequest, TokenResponse } from '../../protocol/wire'
import type { AccountRecord } from '../commands'
import type { LimitState, Session } from '../venue'

/** A record whose operator signature and form hold; `record` is the record as it came. */
export type VerifiedRecord = Omit<AccountRecord, 'kind'>

export interface AccountsPort {
  login(request: TokenRequest): Promise<TokenResponse>
  /** Throws token_invalid, token_expired or token_revoked. */
  authenticate(token: string): Session
  revoke(session: Session): void
  refresh(session: Session, token: string): Session
  takeLimit(account_id: string, cost: number): LimitState
  /** Calls `ended` once when the token dies: revoked, expired or its account suspended. Returns how to stop listening. */
  onEnded(token_id: string, ended: () => void): () => void
  /** Throws `operator_signature_invalid` or `record_invalid`. */
  verifyRecord(record: unknown): VerifiedRecord
  /** Puts a durable record into force; suspending ends the account's tokens. */
  applyRecord(record: VerifiedRecord): unknown
  close(): Promise<void>
}
