/** `bun run account`: the operator's command for keys, account records and posting them to the venue. */

import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { encodeBase58 } from '../../protocol/base58'
import { type AccountRecord, isAccountId, readAccountRecord } from '../../protocol/bodies/account_record'
import { fromHex, toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { runCommand, UsageFault } from '../run_command'
import {
  type AccountTerms,
  callOperator,
  DEFAULT_TERMS,
  issueAccount,
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
  metrics | drain --operator-key KEYFILE --url OPERATOR_LISTENER --venue HEX [--ca CERT_PEM]
      reads the venue's metrics, or lets it finish and stop

Existing files are never overwritten. A record holds no secret.`

const OPTIONS = {
  'operator-key': { type: 'string' },
  out: { type: 'string' },
  record: { type: 'string' },
  account: { type: 'string' },
  capacity: { type: 'string' },
  refill: { type: 'string' },
  orders: { type: 'string' },
  keys: { type: 'string' },
  url: { type: 'string' },
  venue: { type: 'string' },
  ca: { type: 'string' },
} as const

type Options = Partial<Record<keyof typeof OPTIONS, string>>

async function run(args: string[]): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true, strict: true })
  const [command, ...rest] = positionals
  if (command === undefined || rest.length > 0) throw new UsageFault()
  if (command === 'operator-keygen') return makeOperatorKey(values)
  const seed = readSeed(required(values, 'operator-key'))
  if (command === 'issue') {
    const { record, credentials } = await issueAccount(readTerms(values), seed, Date.now())
    writeRecord(required(values, 'out'), record)
    print({ account_id: record.account_id, version: record.version, ...credentials })
  } else if (command === 'rotate') {
    const { record, credentials } = await rotateAccount(readRecord(values), seed, Date.now())
    writeRecord(required(values, 'out'), record)
    print({ account_id: record.account_id, version: record.version, ...credentials })
  } else if (command === 'suspend' || command === 'resume') {
    const status = command === 'suspend' ? 'suspended' : 'active'
    const record = setStatus(readRecord(values), status, seed, Date.now())
    writeRecord(required(values, 'out'), record)
    print({ account_id: record.account_id, version: record.version, status })
  } else if (command === 'post') {
    const body = JSON.stringify(readRecord(values))
    await call(values, seed, { method: 'POST', path: '/accounts', body })
  } else if (command === 'metrics')
    await call(values, seed, { method: 'GET', path: '/metrics', body: undefined })
  else if (command === 'drain') await call(values, seed, { method: 'POST', path: '/drain', body: undefined })
  else throw new UsageFault()
}

async function call(
  values: Options,
  operator_seed: Uint8Array,
  operation: Parameters<typeof callOperator>[1],
): Promise<void> {
  const ca = values.ca === undefined ? undefined : readFileSync(values.ca, 'utf8')
  const target = { url: required(values, 'url'), venue: readVenue(values), operator_seed, ca }
  console.log(await callOperator(target, operation, Date.now()))
}

function makeOperatorKey(values: Options): void {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  writeNew(required(values, 'out'), `${toHex(seed)}\n`, 0o600)
  print({ operator_key: encodeBase58(publicKeyOf(seed)) })
}

function readTerms(values: Options): AccountTerms {
  const whole = (name: 'capacity' | 'refill' | 'orders' | 'keys', fallback: number) => {
    const text = values[name]
    if (text === undefined) return fallback
    if (!/^[0-9]{1,15}$/.test(text)) throw new UsageFault(`--${name} is not a whole number`)
    return Number(text)
  }
  const account_id = required(values, 'account')
  if (!isAccountId(account_id))
    throw new UsageFault('--account is 1 to 32 characters of a-z 0-9 _ -, the first a letter or digit')
  return {
    account_id,
    rate_capacity: whole('capacity', DEFAULT_TERMS.rate_capacity),
    rate_refill_per_s: whole('refill', DEFAULT_TERMS.rate_refill_per_s),
    orders_live_max: whole('orders', DEFAULT_TERMS.orders_live_max),
    keys_max: whole('keys', DEFAULT_TERMS.keys_max),
  }
}

function readSeed(file: string): Uint8Array {
  const seed = fromHex(readFileSync(file, 'utf8').trim(), 32)
  if (seed === undefined) throw new Error('the operator key file does not hold 64 hex digits')
  return seed
}

function readRecord(values: Options): AccountRecord {
  const file = required(values, 'record')
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

function readVenue(values: Options): Uint8Array {
  const venue = fromHex(required(values, 'venue'), 32)
  if (venue === undefined) throw new UsageFault('--venue is not 64 hex digits')
  return venue
}

function required(values: Options, name: keyof typeof OPTIONS): string {
  const value = values[name]
  if (value === undefined) throw new UsageFault(`--${name} is missing`)
  return value
}

function writeRecord(file: string, record: AccountRecord): void {
  writeNew(file, `${JSON.stringify(record, null, 2)}\n`, 0o644)
}

function writeNew(file: string, text: string, mode: number): void {
  writeFileSync(file, text, { flag: 'wx', mode })
}

function print(value: unknown): void {
  console.log(JSON.stringify(value, null, 2))
}

await runCommand(USAGE, run)
