/** `bun run reference`: a price source's key and signed prices, and the operator's command that posts them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { encodeBase58 } from '../../protocol/base58'
import {
  isSourceName,
  type SignedReferencePrice,
  signReferencePrice,
} from '../../protocol/bodies/reference_price'
import { fromHex, toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { parseU64 } from '../../protocol/units'
import { callOperator } from '../account/issue_account'
import { runCommand, UsageFault } from '../run_command'

const USAGE = `usage: bun run reference COMMAND

  keygen --out KEYFILE
      makes a source key; prints its public half, a key of TACIT_REFERENCE_SOURCES
  sign PRICE --source-key KEYFILE
      prints a signed price: what a source gives to the operator
  post --record FILE OPERATOR            (FILE - reads standard input)
      sends a signed price to the venue's operator listener
  post PRICE --source-key KEYFILE OPERATOR
      signs and sends in one step, where one machine holds both keys

PRICE is --venue HEX --symbol SYMBOL --source NAME --price UNITS [--publish-unix-ms N], in quote units per whole base token,
published now when no time is named. OPERATOR is --operator-key KEYFILE --url OPERATOR_LISTENER --venue HEX [--ca CERT_PEM].`

const text = { type: 'string' } as const
const OPTIONS = {
  out: text,
  record: text,
  'source-key': text,
  'operator-key': text,
  url: text,
  venue: text,
  ca: text,
  symbol: text,
  source: text,
  price: text,
  'publish-unix-ms': text,
} as const
type Name = keyof typeof OPTIONS
type Options = Partial<Record<Name, string>>

async function run(args: string[]): Promise<void> {
  const { positionals, values } = parseArgs({ args, options: OPTIONS, allowPositionals: true, strict: true })
  const [command, ...rest] = positionals
  if (rest.length > 0) throw new UsageFault()
  if (command === 'keygen') makeKey(required(values, 'out'))
  else if (command === 'sign') console.log(JSON.stringify(signed(values)))
  else if (command === 'post') await post(values)
  else throw new UsageFault()
}

function makeKey(file: string): void {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  writeFileSync(file, `${toHex(seed)}\n`, { flag: 'wx', mode: 0o600 })
  console.log(JSON.stringify({ key: encodeBase58(publicKeyOf(seed)) }))
}

function signed(values: Options): SignedReferencePrice {
  const source = required(values, 'source')
  if (!isSourceName(source)) throw new UsageFault('--source is 1 to 16 characters of a-z 0-9 -')
  const price = parseU64(required(values, 'price'))
  if (price === undefined) throw new UsageFault('--price is a whole number of quote units')
  const time = values['publish-unix-ms'] ?? String(Date.now())
  if (!/^[1-9][0-9]{0,14}$/.test(time)) throw new UsageFault('--publish-unix-ms is a whole number')
  const symbol = required(values, 'symbol')
  const body = { venue: hex32(values, 'venue'), symbol, price, publish_unix_ms: Number(time), source }
  return signReferencePrice(body, seedIn(values, 'source-key'))
}

async function post(values: Options): Promise<void> {
  const operator_seed = seedIn(values, 'operator-key')
  const ca = values.ca === undefined ? undefined : readFileSync(values.ca, 'utf8')
  const target = { url: required(values, 'url'), venue: hex32(values, 'venue'), operator_seed, ca }
  const { record } = values
  // The venue judges the record; here it is only carried.
  const body =
    record === undefined ? JSON.stringify(signed(values)) : readFileSync(record === '-' ? 0 : record, 'utf8')
  console.log(await callOperator(target, { method: 'POST', path: '/references', body }, Date.now()))
}

function seedIn(values: Options, name: 'source-key' | 'operator-key'): Uint8Array {
  const seed = fromHex(readFileSync(required(values, name), 'utf8').trim(), 32)
  if (seed === undefined) throw new Error(`the file of --${name} does not hold 64 hex digits`)
  return seed
}

function hex32(values: Options, name: Name): Uint8Array {
  const bytes = fromHex(required(values, name), 32)
  if (bytes === undefined) throw new UsageFault(`--${name} is not 64 hex digits`)
  return bytes
}

function required(values: Options, name: Name): string {
  const value = values[name]
  if (value === undefined) throw new UsageFault(`--${name} is missing`)
  return value
}

await runCommand(USAGE, run)
