/** `bun run account`: the operator's command for keys, admitted accounts, metrics, exports and the end of the venue. */

import { existsSync, writeFileSync } from 'node:fs'
import { InputFault, Options, readInputText, runCommand, UsageFault } from '../../client/cli/command'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { scrapeToken } from '../../protocol/bodies/signed_calls'
import { toHex } from '../../protocol/bytes'
import { SCRAPE_TOKEN_LIFE_MAX_S } from '../../protocol/limits'
import { publicKeyOf } from '../../protocol/sign'
import { CredentialRequest } from '../../protocol/wire/accounts'
import type { AccountLimits, AdmissionRequest } from '../../protocol/wire/trading'
import { parserOf } from '../../protocol/wire/values'
import { askOperator, DEFAULT_LIMITS, operatorTarget, signAdmission } from './call_operator'

const USAGE = `usage: bun run account COMMAND

  operator-keygen --out KEYFILE
      makes an operator key; prints its public half, the operator_key of the manifest
  admit --request FILE TARGET [LIMITS]
      admits the account key of a trader's request ('tacit account request') and posts the credential in it; for an account
      that is known already it posts the credential alone. No command here makes or sees a secret of a trader
  limit --account ID TARGET LIMITS
      changes limits
  suspend | resume | close --account ID TARGET
      the account can only cancel, withdraw and read; or trade again; or never again
  scrape-token --operator-key KEYFILE --venue HEX --out FILE [--days 90]
      writes a token that reads /metrics for so many days, at most 400, and does nothing else: the credentials_file of
      Prometheus
  instrument --symbol NAME --status active|paused|closed TARGET
      opens, pauses or closes an instrument; closing cancels its orders and is final
  activate --version NUMBER TARGET
      puts the next version of rules and formats in force, for good: no build that lacks it starts on this venue's disks again
  list | metrics | drain TARGET
      lists the venue's accounts, reads its metrics, or lets it finish and stop
  export --symbol SYMBOL --batch NUMBER --out FILE TARGET
      has the venue export one batch; only the auditor named in the venue's settings can read FILE ('tacit audit-batch')

TARGET is --operator-key KEYFILE --url OPERATOR_LISTENER --venue HEX [--ca CERT_PEM]
LIMITS are [--capacity 100] [--refill 50] [--orders 10000] [--keys 10000]`

const TEXTS = [
  ...(['days', 'symbol', 'status', 'version'] as const),
  ...(['operator-key', 'out', 'request', 'account', 'capacity', 'refill', 'orders', 'keys'] as const),
  ...(['url', 'venue', 'ca', 'symbol', 'batch'] as const),
] as const
type AccountOptions = Options<(typeof TEXTS)[number]>
const DAY_S = 86_400
type Listed = Pick<AdmissionRequest, 'account_key' | 'version' | 'state' | 'limits'> & { account_id: string }

const COMMANDS: Record<string, (options: AccountOptions) => void | Promise<void>> = {
  'operator-keygen': makeOperatorKey,
  'scrape-token': makeScrapeToken,
  admit,
  limit: async (options) => {
    // Read before the venue is asked: a mistyped number is reported as such also while the venue is away.
    limitsOf(options, DEFAULT_LIMITS)
    const known = await listed(options)
    await post(options, { ...known, limits: limitsOf(options, known.limits) })
  },
  suspend: (options) => become(options, 'suspended'),
  resume: (options) => become(options, 'active'),
  close: (options) => become(options, 'closed'),
  instrument: async (options) => {
    const change = { symbol: options.text('symbol'), status: options.text('status') }
    console.log(await call(options, 'POST', '/instruments', change))
  },
  activate: async (options) => {
    const activation = { version: Number(options.amount('version')) }
    console.log(await call(options, 'POST', '/activate', activation))
  },
  list: async (options) => console.log(await call(options, 'GET', '/accounts')),
  metrics: async (options) => console.log(await call(options, 'GET', '/metrics')),
  export: exportBatch,
  drain: async (options) => console.log(await call(options, 'POST', '/drain')),
}

async function run(args: string[]): Promise<void> {
  const options: AccountOptions = new Options(args, { texts: TEXTS, words: 1 })
  const [name = ''] = options.words
  if (!Object.hasOwn(COMMANDS, name)) throw new UsageFault(name && `there is no command '${name}'`)
  await COMMANDS[name]!(options)
}

async function admit(options: AccountOptions): Promise<void> {
  const request = readRequest(options.text('request'))
  const { account_key } = request
  const known = (await accounts(options)).some((one) => one.account_key === account_key)
  const terms = {
    account_key,
    version: 0,
    state: 'active',
    limits: limitsOf(options, DEFAULT_LIMITS),
  } as const
  if (!known) await post(options, terms)
  console.log(await call(options, 'POST', '/accounts/credentials', request))
}

/** Checked before anything is sent, in case the file is another one: a trader's login, say. */
function readRequest(path: string): CredentialRequest {
  const text = readInputText(path)
  try {
    const request: unknown = JSON.parse(text)
    parserOf(CredentialRequest)(request)
    return request as CredentialRequest
  } catch {
    throw new Error(`${path} does not hold a trader's request`)
  }
}

async function become(options: AccountOptions, state: AdmissionRequest['state']): Promise<void> {
  await post(options, { ...(await listed(options)), state })
}

/** Posts the next version of an account's terms. */
async function post(options: AccountOptions, terms: Omit<Listed, 'account_id'>): Promise<void> {
  const { state, limits } = terms
  const account_key = decodeBase58(terms.account_key, 32)!
  const record = signAdmission(
    { account_key, version: terms.version + 1, state, limits },
    operatorTarget(options),
  )
  console.log(await call(options, 'POST', '/accounts', record))
}

async function accounts(options: AccountOptions): Promise<Listed[]> {
  return (JSON.parse(await call(options, 'GET', '/accounts')) as { items: Listed[] }).items
}

async function listed(options: AccountOptions): Promise<Listed> {
  const account_id = options.text('account')
  const known = (await accounts(options)).find((one) => one.account_id === account_id)
  if (known === undefined) throw new Error(`the venue lists no account ${account_id}`)
  return known
}

function limitsOf(options: AccountOptions, fallback: AccountLimits): AccountLimits {
  return {
    rate_capacity: options.count('capacity', fallback.rate_capacity, 15),
    rate_refill_per_s: options.count('refill', fallback.rate_refill_per_s, 15),
    orders_live_max: options.count('orders', fallback.orders_live_max, 15),
    keys_max: options.count('keys', fallback.keys_max, 15),
  }
}

let last_ms = 0
async function ask(
  options: AccountOptions,
  method: 'GET' | 'POST',
  path: string,
  body?: unknown,
): Promise<Response> {
  // The operator's nonces rise from call to call.
  last_ms = Math.max(Date.now(), last_ms + 1)
  const text = body === undefined ? undefined : JSON.stringify(body)
  return askOperator(operatorTarget(options), { method, path, body: text }, last_ms)
}

async function call(...args: Parameters<typeof ask>): Promise<string> {
  return (await ask(...args)).text()
}

async function exportBatch(options: AccountOptions): Promise<void> {
  const out = options.text('out')
  const name = { symbol: options.text('symbol'), batch: Number(options.amount('batch')) }
  if (existsSync(out)) throw new InputFault(`${out} exists: an export overwrites no file`)
  const file = new Uint8Array(await (await ask(options, 'POST', '/exports', name)).arrayBuffer())
  writeFileSync(out, file, { flag: 'wx' })
  console.log(JSON.stringify({ file: out, bytes: file.length }))
}

function makeOperatorKey(options: AccountOptions): void {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  writeFileSync(options.text('out'), `${toHex(seed)}\n`, { flag: 'wx', mode: 0o600 })
  console.log(JSON.stringify({ operator_key: encodeBase58(publicKeyOf(seed)) }, null, 2))
}

/** Nothing is sent: the venue judges the operator's signature. */
function makeScrapeToken(options: AccountOptions): void {
  const days = options.count('days', 90, 3)
  if (days < 1 || days * DAY_S > SCRAPE_TOKEN_LIFE_MAX_S) throw new UsageFault('--days is from 1 to 400')
  // A minute less, as the venue's clock may be behind.
  const expiry_unix_s = Math.floor(Date.now() / 1000) + days * DAY_S - 60
  const token = scrapeToken(options.hex32('venue'), expiry_unix_s, options.seed('operator-key'))
  writeFileSync(options.text('out'), token, { flag: 'wx', mode: 0o600 })
  console.log(JSON.stringify({ expiry_unix_s }, null, 2))
}

await runCommand(USAGE, run)
