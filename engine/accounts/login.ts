/** Owns the login: the secret first, in constant time; only then the dear passphrase. */
import { Refusal } from '../../protocol/refusals'
import type { TokenRequest, TokenResponse } from '../../protocol/wire'
import type { Passphrases } from './passphrases'
import type { Registry } from './registry'
import type { Tokens } from './tokens'
import type { WrongSecrets } from './wrong_secrets'

export type LoginParts = {
  registry: Registry
  tokens: Tokens
  passphrases: Passphrases
  wrong_secrets: WrongSecrets
}

/**
 * A suspended account may log in: it can still cancel. Refuses `credentials_invalid` (whatever was wrong),
 * `login_limited` instead of it after too many failures of one api key, `login_busy` beyond the bound on checks.
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
