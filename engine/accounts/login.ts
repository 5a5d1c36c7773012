/** Logs an account in: verifies the secret in constant time, then the passphrase in a bounded queue. */

import { Refusal } from '../../protocol/refusals'
import type { TokenRequest, TokenResponse } from '../../protocol/wire/trading'
import { LIMITS } from '../limits'
import type { PassphraseAnswer, PassphraseQuestion } from './passphrase_worker'
import type { WrongSecrets } from './rate_limits'
import type { Registry } from './registry'
import type { Tokens } from './tokens'

/** The DOM's Worker type lacks Bun's methods. */
type BunWorker = Worker & { ref(): void; unref(): void }
type Waiting = { account_id: string; resolve: (right: boolean) => void; reject: (error: Refusal) => void }

/** A bounded queue of passphrase checks in the argon2id worker. */
export class Passphrases {
  /** Starts with the first check; keeps the process alive only during checks. */
  private worker: BunWorker | undefined
  private readonly waiting = new Map<number, Waiting>()
  private next_id = 1
  private broken = false

  /** Throws `login_busy` when too many checks wait, in total or for this account; `internal` after a worker failure. */
  async check(account_id: string, passphrase: string, passphrase_hash: string): Promise<boolean> {
    if (this.broken) throw new Refusal('internal')
    let own = 0
    for (const other of this.waiting.values()) if (other.account_id === account_id) own++
    if (own >= LIMITS.account_logins_waiting_max || this.waiting.size >= LIMITS.logins_waiting_max)
      throw new Refusal('login_busy', { retry_after_ms: this.waiting.size * LIMITS.login_check_ms })
    const question: PassphraseQuestion = { id: this.next_id++, passphrase, passphrase_hash }
    const answered = Promise.withResolvers<boolean>()
    this.waiting.set(question.id, { account_id, resolve: answered.resolve, reject: answered.reject })
    this.worker ??= this.start()
    this.worker.ref()
    this.worker.postMessage(question)
    return answered.promise
  }

  async close(): Promise<void> {
    this.fail()
    this.worker?.terminate()
  }

  private start(): BunWorker {
    const worker = new Worker(new URL('./passphrase_worker.ts', import.meta.url).href) as BunWorker
    worker.onmessage = ({ data }: MessageEvent<PassphraseAnswer>) => this.answer(data)
    worker.onerror = () => this.fail()
    return worker
  }

  private answer({ id, right }: PassphraseAnswer): void {
    this.waiting.get(id)?.resolve(right)
    this.waiting.delete(id)
    if (this.waiting.size === 0) this.worker?.unref()
  }

  private fail(): void {
    this.broken = true
    for (const { reject } of this.waiting.values()) reject(new Refusal('internal'))
    this.waiting.clear()
    this.worker?.unref()
  }
}

type LoginParts = {
  registry: Registry
  tokens: Tokens
  passphrases: Passphrases
  wrong_secrets: WrongSecrets
}

/**
 * A suspended account may log in, because it can still cancel. Throws `credentials_invalid` for any wrong credential,
 * `login_limited` instead after too many failures of one API key, and `login_busy` when the queue is full.
 */
export async function login(parts: LoginParts, request: TokenRequest): Promise<TokenResponse> {
  const { registry, tokens, passphrases } = parts
  const { api_key, api_secret, passphrase } = request
  const account = registry.recognise(api_key, api_secret)
  if (account === undefined) throw wrong(parts, api_key)
  const { account_id, passphrase_hash } = account.record
  const right = await passphrases.check(account_id, passphrase, passphrase_hash)
  const rotated_meanwhile = registry.byApiKey(api_key)?.record.passphrase_hash !== passphrase_hash
  if (!right || rotated_meanwhile) throw wrong(parts, api_key)
  return {
    access_token: tokens.issue(account_id),
    token_type: 'Bearer',
    expires_in: tokens.ttl_s,
    account_id,
  }
}

function wrong({ wrong_secrets }: LoginParts, api_key: string): Refusal {
  const retry_after_ms = wrong_secrets.count(api_key)
  if (retry_after_ms === 0) return new Refusal('credentials_invalid')
  return new Refusal('login_limited', { retry_after_ms })
}
