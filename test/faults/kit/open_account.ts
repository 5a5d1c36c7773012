/** An account on a running venue: issued as the operator's command does, posted to the operator's listener. */

import { readFileSync } from 'node:fs'
import { type Login, VenueClient } from '../../../client/api/venue_client'
import { signCredential } from '../../../client/wallet/account'
import { fromHex } from '../../../protocol/bytes'
import { publicKeyOf } from '../../../protocol/sign'
import type { Info } from '../../../protocol/wire/trading'
import { callOperator, type OperatorTarget, signAdmission } from '../../../tools/account/call_operator'
import { accountSeed, testCredential } from '../../kit/venue/test_login'
import type { VenueProcess } from './venue_process'
import { venueTransport } from './venue_transport'

/** So that no test waits for its bucket to refill. */
const LIMITS = {
  rate_capacity: 100_000,
  rate_refill_per_s: 10_000,
  orders_live_max: 10_000,
  keys_max: 10_000,
}

export async function operatorTarget(venue: VenueProcess): Promise<OperatorTarget> {
  const answer = await venueTransport(venue).fetch('/info')
  const info = (await answer.json()) as Info
  const { facts } = venue
  return {
    url: facts.operator_url,
    venue: fromHex(info.venue, 32)!,
    operator_seed: fromHex(readFileSync(facts.operator_key, 'utf8').trim(), 32)!,
    ca: readFileSync(facts.certificate, 'utf8'),
  }
}

let posting: Promise<unknown> = Promise.resolve()
let last_call_ms = 0
/** Milliseconds that rise from call to call, as the operator's nonces must. */
export function operatorNow(): number {
  last_call_ms = Math.max(Date.now(), last_call_ms + 1)
  return last_call_ms
}

/** @param credential_of whose credential is admitted under the account key of `account_id` */
export async function openAccount(
  venue: VenueProcess,
  account_id: string,
  credential_of = account_id,
): Promise<{ client: VenueClient; credentials: Login }> {
  const target = await operatorTarget(venue)
  const account_key = publicKeyOf(accountSeed(account_id))
  const record = signAdmission({ account_key, version: 1, state: 'active', limits: LIMITS }, target)
  const { login: credentials, request } = testCredential(credential_of, target.venue)
  const { account_key: _, signature: __, ...fields } = request
  const signed = signCredential(accountSeed(account_id), target.venue, fields)
  await post(target, '/accounts', record)
  await post(target, '/accounts/credentials', signed)
  return { client: new VenueClient(venueTransport(venue), credentials), credentials }
}

/** The operator's nonces rise in the order of arrival, so one call is under way at a time. */
function post(target: OperatorTarget, path: string, body: unknown): Promise<string> {
  const call = { method: 'POST', path, body: JSON.stringify(body) } as const
  const posted = posting.then(() => callOperator(target, call, operatorNow()))
  posting = posted.catch(() => {})
  return posted
}
