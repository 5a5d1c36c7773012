/** `bun run reference`: a price source's key and signed prices, and the operator's command that posts them. */
import { readFileSync, writeFileSync } from 'node:fs'
import { Options, readInputText, runCommand, UsageFault } from '../../client/cli/command'
import { encodeBase58 } from '../../protocol/base58'
import {
  isSourceName,
  type SignedReferencePrice,
  signReferencePrice,
} from '../../protocol/bodies/signed_calls'
import { toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { callOperator, operatorTarget } from '../account/call_operator'

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

const TEXTS = [
  ...(['out', 'record', 'source-key', 'operator-key', 'url', 'venue', 'ca'] as const),
  ...(['symbol', 'source', 'price', 'publish-unix-ms'] as const),
] as const
type PriceOptions = Options<(typeof TEXTS)[number]>

async function run(args: string[]): Promise<void> {
  const options: PriceOptions = new Options(args, { texts: TEXTS, words: 1 })
  const [command = ''] = options.words
  if (command === 'keygen') makeKey(options.text('out'))
  else if (command === 'sign') console.log(JSON.stringify(signed(options)))
  else if (command === 'post') await post(options)
  else throw new UsageFault(command && `there is no command '${command}'`)
}

function makeKey(file: string): void {
  const seed = crypto.getRandomValues(new Uint8Array(32))
  writeFileSync(file, `${toHex(seed)}\n`, { flag: 'wx', mode: 0o600 })
  console.log(JSON.stringify({ key: encodeBase58(publicKeyOf(seed)) }))
}

function signed(options: PriceOptions): SignedReferencePrice {
  const source = options.text('source')
  if (!isSourceName(source)) throw new UsageFault('--source is 1 to 16 characters of a-z 0-9 -')
  const body = {
    venue: options.hex32('venue'),
    symbol: options.text('symbol'),
    price: options.amount('price'),
    publish_unix_ms: options.count('publish-unix-ms', Date.now(), 15),
    source,
  }
  return signReferencePrice(body, options.seed('source-key'))
}

async function post(options: PriceOptions): Promise<void> {
  const target = operatorTarget(options)
  const record = options.optional('record')
  // The venue judges the record; here it is only carried.
  const body =
    record === undefined
      ? JSON.stringify(signed(options))
      : record === '-'
        ? readFileSync(0, 'utf8')
        : readInputText(record)
  console.log(await callOperator(target, { method: 'POST', path: '/references', body }, Date.now()))
}

await runCommand(USAGE, run)
