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
import { newToken } from './tokens'

/** The DOM's Worker type lacks Bun's methods. */
type BunWorker = Worker & { ref(): void; unref(): void }
type Check = PassphraseQuestion & {
  credential_id: string
  resolve: (right: boolean) => void
  reject: (error: Refusal) => void
}

/**
 * A bounded queue of passphrase checks in the argon2id worker, which has one at a time. The credential that was checked
 * longest ago comes next, so however many flood, another waits for the running check only.
 */
export class Passphrases {
  /** Starts with the first check, and again after a failure; keeps the process alive only during checks. */
  private worker: BunWorker | undefined
  private running: Check | undefined
  /** In order of arrival. */
  private waiting: Check[] = []
  /** Number of the newest check by credential, the newest last; those no longer kept count as never checked. */
  private readonly checked = new Map<string, number>()
  private checks = 0

  /** Throws `login_busy` when too many checks wait, in total or of this credential; `internal` after a worker failure. */
  check(passphrase: string, credential: Credential): Promise<boolean> {
    const { credential_id, passphrase_digest, salt } = credential
    const all = this.running === undefined ? this.waiting : [this.running, ...this.waiting]
    const own = all.filter((one) => one.credential_id === credential_id).length
    if (own >= LIMITS.credential_logins_waiting_max) return Promise.reject(busy(all.length))
    if (all.length >= LIMITS.logins_waiting_max && !this.displace(credential_id))
      return Promise.reject(busy(all.length))
    const { promise, ...settle } = Promise.withResolvers<boolean>()
    this.waiting.push({ credential_id, passphrase, passphrase_digest, salt, ...settle })
    this.next()
    return promise
  }

  /** Rejects the checks that wait; the next one starts another worker. */
  close(): void {
    this.worker?.terminate()
    this.worker = undefined
    const all = this.running === undefined ? this.waiting : [this.running, ...this.waiting]
    this.running = undefined
    this.waiting = []
    for (const { reject } of all) reject(new Refusal('internal'))
  }

  private checkedAt(credential_id: string): number {
    return this.checked.get(credential_id) ?? 0
  }

  /** Refuses the newest waiting check of the credential checked last, if that was after the given one. */
  private displace(credential_id: string): boolean {
    const last = Math.max(...this.waiting.map((one) => this.checkedAt(one.credential_id)))
    if (last <= this.checkedAt(credential_id)) return false
    const at = this.waiting.findLastIndex((one) => this.checkedAt(one.credential_id) === last)
    for (const { reject } of this.waiting.splice(at, 1)) reject(busy(LIMITS.logins_waiting_max))
    return true
  }

  private next(): void {
    if (this.running !== undefined || this.waiting.length === 0) return
    const first = Math.min(...this.waiting.map((one) => this.checkedAt(one.credential_id)))
    const at = this.waiting.findIndex((one) => this.checkedAt(one.credential_id) === first)
    this.running = this.waiting.splice(at, 1)[0]!
    const { credential_id, passphrase, passphrase_digest, salt } = this.running
    this.checked.delete(credential_id)
    this.checked.set(credential_id, ++this.checks)
    if (this.checked.size > LIMITS.credentials_checked_max)
      this.checked.delete(this.checked.keys().next().value!)
    this.worker ??= this.start()
    this.worker.ref()
    this.worker.postMessage({ passphrase, passphrase_digest, salt } satisfies PassphraseQuestion)
  }

  private start(): BunWorker {
    const worker = new Worker(new URL('./passphrase_worker.ts', import.meta.url).href) as BunWorker
    worker.onmessage = ({ data }: MessageEvent<PassphraseAnswer>) => this.answer(data)
    worker.onerror = () => this.close()
    return worker
  }

  private answer({ right }: PassphraseAnswer): void {
    this.running?.resolve(right)
    this.running = undefined
    this.next()
    if (this.running === undefined) this.worker?.unref()
  }
}

function busy(before: number): Refusal {
  return new Refusal('login_busy', { retry_after_ms: before * LIMITS.login_check_ms })
}

type LoginParts = {
  /** 32-byte key of the enclave, under which secrets are compared. */
  credential_key: Uint8Array
  book: AccountBook
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
  const { book, passphrases, token_ttl_s } = parts
  const { api_key, passphrase } = request
  const found = recognise(parts, request)
  if (found === undefined) throw wrong(parts, api_key)
  const { account_id, credential } = found
  if (!(await passphrases.check(passphrase, credential))) throw wrong(parts, api_key)
  const left_s = Math.floor((credential.expiry_s * 1_000 - book.unixMs()) / 1_000)
  const expires_in = credential.expiry_s === 0 ? token_ttl_s : Math.min(token_ttl_s, left_s)
  if (expires_in <= 0) throw new Refusal('credential_expired')
  const { token, token_id } = newToken()
  const life_ms = expires_in * 1_000
  await book.recordLogin(account_id, credential, { token_id, until_ms: book.unixMs() + life_ms })
  // A replacement executed after this login was journaled has ended this token.
  if (book.credential(api_key)?.credential.version !== credential.version) throw wrong(parts, api_key)
  return { access_token: token, token_type: 'Bearer', expires_in, account_id }
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
