/** `bun run account`: the operator's command for keys, account records and posting them to the venue. */

import { readFileSync, writeFileSync } from 'node:fs'
import { Options, runCommand, UsageFault } from '../../client/cli/command'
import { encodeBase58 } from '../../protocol/base58'
import {
  type AccountFields,
  type AccountRecord,
  isAccountId,
  readAccountRecord,
} from '../../protocol/bodies/account_record'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import {
  type AccountTerms,
  callOperator,
  DEFAULT_TERMS,
  issueAccount,
  operatorTarget,
  rotateAccount,
  setStatus,
} from './issue_account'

const USAGE = `usage: bun run account COMMAND

  operator-keygen --out KEYFILE
      makes an operator key; prints its public half, the operator_key of the manifest
  issue --operator-key KEYFILE --out RECORD --account ID
        [--capacity 100] [--refill 50] [--orders 10000] [--keys 10000]
      makes an account; prints its credentials once
  rotate --operator-key KEYFILE --record RECORD --out RECORD
      new credentials for the account; prints them once
  suspend | resume --operator-key KEYFILE --record RECORD --out RECORD
      the account can only cancel, or trade again
  post --record RECORD --operator-key KEYFILE --url OPERATOR_LISTENER --venue HEX [--ca CERT_PEM]
      sends a record to the venue's operator listener
  list | metrics | drain --operator-key KEYFILE --url OPERATOR_LISTENER --venue HEX [--ca CERT_PEM]
      lists the venue's accounts, reads its metrics, or lets it finish and stop

Existing files are never overwritten. A record holds no secret.`

const TEXTS = [
  ...(['operator-key', 'out', 'record', 'account', 'capacity', 'refill', 'orders', 'keys'] as const),
  ...(['url', 'venue', 'ca'] as const),
] as const
type AccountOptions = Options<(typeof TEXTS)[number]>

const COMMANDS: Record<string, (options: AccountOptions, seed: Uint8Array) => void | Promise<void>> = {
  async issue(options, seed) {
    const { record, credentials } = await issueAccount(readTerms(options), seed, Date.now())
    keep(options, record, credentials)
  },
  async rotate(options, seed) {
    const { record, credentials } = await rotateAccount(readRecord(options), seed, Date.now())
    keep(options, record, credentials)
  },
  suspend: (options, seed) => judge(options, seed, 'suspended'),
  resume: (options, seed) => judge(options, seed, 'active'),
  post: (options) => call(options, 'POST', '/accounts', JSON.stringify(readRecord(options))),
  list: (options) => call(options, 'GET', '/accounts'),
  metrics: (options) => call(options, 'GET', '/metrics'),
  drain: (options) => call(options, 'POST', '/drain'),
}

async function run(args: string[]): Promise<void> {
  const options: AccountOptions = new Options(args, { texts: TEXTS, words: 1 })
  const [name = ''] = options.words
  if (name === 'operator-keygen') return makeOperatorKey(options)
  if (!Object.hasOwn(COMMANDS, name)) throw new UsageFault()
  await COMMANDS[name]!(options, options.seed('operator-key'))
}

function judge(options: AccountOptions, seed: Uint8Array, status: AccountFields['status']): void {
  keep(options, setStatus(readRecord(options), status, seed, Date.now()), { status })
}

/** Writes the record, then prints what belongs to it. */
function keep(options: AccountOptions, record: AccountRecord, more: object): void {
  writeNew(options.text('out'), `${JSON.stringify(record, null, 2)}\n`, 0o644)
  print({ account_id: record.account_id, version: record.version, ...more })
}

async function call(options: AccountOptions, method: 'GET' | 'POST', path: string, body?: string) {
  console.log(await callOperator(operatorTarget(options), { method, path, body }, Date.now()))
}

function makeOperatorKey(options: AccountOptions): void {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  writeNew(options.text('out'), `${toHex(seed)}\n`, 0o600)
  print({ operator_key: encodeBase58(publicKeyOf(seed)) })
}

function readTerms(options: AccountOptions): AccountTerms {
  const account_id = options.text('account')
  if (!isAccountId(account_id))
    throw new UsageFault('--account is 1 to 32 characters of a-z 0-9 _ -, the first a letter or digit')
  return {
    account_id,
    rate_capacity: options.count('capacity', DEFAULT_TERMS.rate_capacity, 15),
    rate_refill_per_s: options.count('refill', DEFAULT_TERMS.rate_refill_per_s, 15),
    orders_live_max: options.count('orders', DEFAULT_TERMS.orders_live_max, 15),
    keys_max: options.count('keys', DEFAULT_TERMS.keys_max, 15),
  }
}

function readRecord(options: AccountOptions): AccountRecord {
  const file = options.text('record')
  const record = readAccountRecord(jsonOf(readFileSync(file, 'utf8')))
  if (record === undefined) throw new Error(`${file} does not hold an account record`)
  return record
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function writeNew(file: string, text: string, mode: number): void {
  writeFileSync(file, text, { flag: 'wx', mode })
}

function print(value: unknown): void {
  console.log(JSON.stringify(value, null, 2))
}

await runCommand(USAGE, run)
