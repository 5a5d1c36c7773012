/** Logs an account in: compares the secret in constant time, then checks the passphrase in a bounded queue, then journals. */

import { createHmac, timingSafeEqual } from 'node:crypto'
import { secretHash } from '../../protocol/bodies/account'
import { utf8 } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import type { TokenRequest, TokenResponse } from '../../protocol/wire/trading'
import type { Credential } from '../commands'
import { LIMITS } from '../limits'
import type { AccountBook } from '../ports'
import type { PassphraseAnswer, PassphraseQuestion } from './passphrase_worker'
import type { WrongSecrets } from './rate_limits'
import type { Tokens } from './tokens'

/** The DOM's Worker type lacks Bun's methods. */
type BunWorker = Worker & { ref(): void; unref(): void }
type Waiting = { account_id: string; resolve: (right: boolean) => void; reject: (error: Refusal) => void }

/** A bounded queue of passphrase checks in the argon2id worker. */
export class Passphrases {
  /** Starts with the first check, and again after a failure; keeps the process alive only during checks. */
  private worker: BunWorker | undefined
  private readonly waiting = new Map<number, Waiting>()
  private next_id = 1

  /** Throws `login_busy` when too many checks wait, in total or for this account; `internal` after a worker failure. */
  async check(account_id: string, passphrase: string, credential: Credential): Promise<boolean> {
    let own = 0
    for (const other of this.waiting.values()) if (other.account_id === account_id) own++
    if (own >= LIMITS.account_logins_waiting_max || this.waiting.size >= LIMITS.logins_waiting_max)
      throw new Refusal('login_busy', { retry_after_ms: this.waiting.size * LIMITS.login_check_ms })
    const { passphrase_digest, salt } = credential
    const question: PassphraseQuestion = { id: this.next_id++, passphrase, passphrase_digest, salt }
    const answered = Promise.withResolvers<boolean>()
    this.waiting.set(question.id, { account_id, resolve: answered.resolve, reject: answered.reject })
    this.worker ??= this.start()
    this.worker.ref()
    this.worker.postMessage(question)
    return answered.promise
  }

  /** Rejects the checks that wait; the next one starts another worker. */
  close(): void {
    this.worker?.terminate()
    this.worker = undefined
    for (const { reject } of this.waiting.values()) reject(new Refusal('internal'))
    this.waiting.clear()
  }

  private start(): BunWorker {
    const worker = new Worker(new URL('./passphrase_worker.ts', import.meta.url).href) as BunWorker
    worker.onmessage = ({ data }: MessageEvent<PassphraseAnswer>) => this.answer(data)
    worker.onerror = () => this.close()
    return worker
  }

  private answer({ id, right }: PassphraseAnswer): void {
    this.waiting.get(id)?.resolve(right)
    this.waiting.delete(id)
    if (this.waiting.size === 0) this.worker?.unref()
  }
}

type LoginParts = {
  /** 32-byte key of the enclave, under which secrets are compared. */
  credential_key: Uint8Array
  book: AccountBook
  tokens: Tokens
  passphrases: Passphrases
  wrong_secrets: WrongSecrets
  token_ttl_s: number
}

/**
 * A suspended or closed account may log in, because it can still cancel, withdraw and read. The login is journaled, and an
 * event of the account, before its token exists. Throws `credentials_invalid` for any wrong credential, `login_limited`
 * instead after too many failures of one API key, `login_busy` when the queue is full, `credential_expired`, and the codes
 * of a venue that acknowledges nothing now.
 */
export async function login(parts: LoginParts, request: TokenRequest): Promise<TokenResponse> {
  const { book, tokens, passphrases, token_ttl_s } = parts
  const { api_key, passphrase } = request
  const found = recognise(parts, request)
  if (found === undefined) throw wrong(parts, api_key)
  const { account_id, credential } = found
  if (!(await passphrases.check(account_id, passphrase, credential))) throw wrong(parts, api_key)
  await book.recordLogin(account_id, credential)
  // A replacement executed after this login was journaled has ended the credential's tokens before this one exists.
  if (book.credential(api_key)?.credential.version !== credential.version) throw wrong(parts, api_key)
  const left_s = credential.expiry_s - Math.floor(book.unixMs() / 1_000)
  const expires_in = credential.expiry_s === 0 ? token_ttl_s : Math.min(token_ttl_s, left_s)
  if (expires_in <= 0) throw new Refusal('credential_expired')
  return {
    access_token: tokens.issue(account_id, credential, expires_in),
    token_type: 'Bearer',
    expires_in,
    account_id,
  }
}

/** HMAC-SHA256 under the enclave's credential key. */
export function keyed(credential_key: Uint8Array, message: Uint8Array): Uint8Array {
  return createHmac('sha256', credential_key).update(message).digest()
}

/**
 * The credential of an API key if the secret is correct. An unknown key costs the same work against an unreachable value,
 * so the time reveals neither whether a key exists nor how close a secret is.
 */
function recognise({ book, credential_key }: LoginParts, { api_key, api_secret }: TokenRequest) {
  const found = book.credential(api_key)
  const decoy = keyed(credential_key, utf8(api_key))
  const held = keyed(credential_key, found?.credential.secret_hash ?? decoy)
  const given = keyed(credential_key, secretHash(api_secret))
  return timingSafeEqual(given, held) ? found : undefined
}

function wrong({ wrong_secrets }: LoginParts, api_key: string): Refusal {
  const retry_after_ms = wrong_secrets.count(api_key)
  if (retry_after_ms === 0) return new Refusal('credentials_invalid')
  return new Refusal('login_limited', { retry_after_ms })
}
