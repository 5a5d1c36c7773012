/** Commands help when asked, take keys in the forms operators have, and name every wrong input by message and exit code. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readSeed } from '../../client/cli/command'
import { scripts } from '../../package.json'
import { concatBytes, toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'
import { VenueProcess } from '../faults/kit/venue_process'
import { run } from '../kit/said'
import { tlsMaterial } from '../kit/server/harness'
import { testCredential } from '../kit/venue/test_login'

const ROOT = join(import.meta.dir, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
const folder = mkdtempSync(join(tmpdir(), 'tacit-wrong-'))
const at = (name: string) => join(folder, name)
const venue = new VenueProcess()
let venue_id = ''

/** Words of the rows below that are longer in truth. */
const words: Record<string, string> = {
  VENUE: 'ab'.repeat(32),
  ADDRESS: '4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T',
  DOWN: 'https://127.0.0.1:1',
  NODE: 'http://127.0.0.1:1',
  CALL: '--operator-key seed --url https://127.0.0.1:1 --venue VENUE',
  PRICE: '--venue VENUE --symbol SOL-USDC --source desk --price 5 --source-key seed',
}

beforeAll(async () => {
  writeFileSync(at('seed'), `${'ab'.repeat(32)}\n`)
  writeFileSync(at('other'), `${'cd'.repeat(32)}\n`)
  writeFileSync(at('rubbish'), 'rubbish')
  writeFileSync(at('closed'), `${'ab'.repeat(32)}\n`)
  mkdirSync(at('folder'))
  const { certificate, operator_key, operator_url, url } = await venue.start()
  const tls = { ca: readFileSync(certificate, 'utf8') }
  venue_id = ((await (await fetch(`${url}/info`, { tls })).json()) as { venue: string }).venue
  const here = `--url ${operator_url} --ca ${certificate}`
  words['OPEN'] = `--operator-key ${operator_key} ${here} --venue ${venue_id}`
  words['STRANGER'] = `--operator-key seed ${here} --venue ${venue_id}`
  words['ELSEWHERE'] = `--operator-key ${operator_key} ${here} --venue VENUE`
  words['UNTRUSTED'] = `--operator-key ${operator_key} --url ${operator_url} --venue ${venue_id}`
}, 180_000)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

function argsOf(line: string): string[] {
  const filled = line.replace(/\b[A-Z]{4,}\b/g, (word) => words[word] ?? word)
  return (filled === line ? filled : argsOf(filled).join(' ')).split(' ')
}

function give(line: string, before: readonly string[] = []) {
  const [name, ...args] = argsOf(line)
  const main = join(ROOT, scripts[name as keyof typeof scripts].split(' ').at(-1)!)
  const { SOLANA_RPC_URL: _, TACIT_PROGRAM_ID: __, ...env } = process.env
  return run([...before, process.execPath, main, ...args], { cwd: folder, env })
}

/** Line, exit code, and a part of the message. */
type Row = readonly [line: string, code: number, says: RegExp]

/** @param at_once an operator's nonces rise, so calls of one key come one after the other */
async function hold(rows: readonly Row[], at_once = 3): Promise<void> {
  const before = readdirSync(folder).sort()
  const waiting = [...rows]
  const work = async () => {
    for (let row = waiting.shift(); row !== undefined; row = waiting.shift()) {
      const [line, code, says] = row
      const given = await give(line)
      expect([line, given.code, given.error]).toEqual([line, code, expect.stringMatching(says)])
      expect([line, `${given.out}${given.error}`]).toEqual([line, expect.not.stringMatching(/^ +at /m)])
    }
  }
  await Promise.all(Array.from({ length: at_once }, work))
  expect(readdirSync(folder).sort()).toEqual(before)
}

const ACCOUNT: readonly Row[] = [
  ['account', 64, /^usage: /],
  ['account nonsense', 64, /there is no command 'nonsense'/],
  ['account list surplus CALL', 64, /usage: /],
  ['account list CALL --venue VENUE', 64, /--venue is given twice/],
  ['account operator-keygen', 64, /--out is missing/],
  ['account operator-keygen --out rubbish', 74, /exists, open 'rubbish'/],
  ['account operator-keygen --out nowhere/key', 74, /no such file or directory, open 'nowhere\/key'/],
  ['account scrape-token --venue VENUE --out token', 64, /--operator-key is missing/],
  ['account scrape-token --operator-key seed --venue VENUE --out rubbish', 74, /exists, open 'rubbish'/],
  [
    'account scrape-token --operator-key seed --venue VENUE --out t --days 401',
    64,
    /--days is from 1 to 400/,
  ],
  ['account admit', 64, /--request is missing/],
  ['account admit --request none CALL', 1, /none cannot be read/],
  ['account admit --request rubbish CALL', 1, /rubbish does not hold a trader's request/],
  ['account limit', 64, /--account is missing/],
  ['account limit --account 7 --capacity five CALL', 64, /--capacity is not a whole number/],
  ['account suspend', 64, /--account is missing/],
  ['account resume', 64, /--account is missing/],
  ['account close', 64, /--account is missing/],
  ['account instrument --status paused', 64, /--symbol is missing/],
  ['account list', 64, /--url is missing/],
  ['account activate --version x CALL', 64, /--version is not a whole number/],
  [
    'account list --operator-key none --url DOWN --venue VENUE',
    1,
    /the file of --operator-key cannot be read/,
  ],
  ['account list --operator-key folder --url DOWN --venue VENUE', 1, /--operator-key cannot be read/],
  ['account list --operator-key rubbish --url DOWN --venue VENUE', 1, /--operator-key holds neither a seed/],
  [
    'account list --operator-key seed --url nonsense --venue VENUE',
    1,
    /nonsense is not the URL of a listener/,
  ],
  ['account list --operator-key seed --url DOWN --venue xy', 64, /--venue is 64 lowercase hex digits/],
  ['account list CALL --ca none', 1, /none cannot be read/],
  ['account list CALL --ca rubbish', 1, /the file of --ca holds no PEM certificate/],
  ['account list CALL', 1, /^https:\/\/127.0.0.1:1 did not answer/],
  ['account metrics CALL', 1, /did not answer/],
  ['account drain CALL', 1, /did not answer/],
  ['account export --batch 1 --out file CALL', 64, /--symbol is missing/],
  ['account export --symbol SOL-USDC --batch x --out file CALL', 64, /--batch is not a whole number/],
  ['account export --symbol SOL-USDC --batch 1 --out rubbish CALL', 1, /rubbish exists/],
]

const AT_A_VENUE: readonly Row[] = [
  ['account list STRANGER', 1, /answered 401: .*operator_signature_invalid/],
  ['account drain STRANGER', 1, /answered 401: .*operator_signature_invalid/],
  ['account metrics ELSEWHERE', 1, /answered 401: .*operator_signature_invalid/],
  ['account list UNTRUSTED', 1, /name its certificate with --ca/],
  ['account suspend --account 0 OPEN', 1, /the venue lists no account 0/],
  ['account instrument --symbol NO-SUCH --status paused OPEN', 1, /answered 404: .*instrument_unknown/],
  ['account instrument --symbol SOL-USDC --status asleep OPEN', 1, /answered 400: .*field_invalid/],
  ['account activate --version 200 OPEN', 1, /answered 409: .*version_unsupported/],
  ['account export --symbol SOL-USDC --batch 999999 --out file OPEN', 1, /answered 404: .*auction_unknown/],
  ['reference post PRICE OPEN', 64, /--venue is given twice/],
  ['reference post --record rubbish OPEN', 1, /answered 400: .*json_malformed/],
]

const OTHERS: readonly Row[] = [
  ['cluster-repair', 64, /--venue is missing/],
  ['cluster-repair --venue xy', 64, /--venue is 64 lowercase hex digits/],
  ['cluster-repair --venue VENUE --head VENUE --seq 0', 1, /--seq is a positive integer/],
  ['cluster-repair --venue VENUE --head VENUE --seq 1', 1, /TACIT_ETCD_URLS is missing/],
  ['faults', 64, /^usage: /],
  ['faults nonsense', 64, /there is one campaign: cluster/],
  ['faults cluster --rounds x', 64, /--rounds is not a whole number/],
  ['faults cluster --fault nonsense', 64, /no such fault/],
  ['faults cluster --planted nonsense', 64, /no such bug/],
  ['mutate', 64, /--area is missing/],
  ['mutate --area nonsense', 64, /there is no area 'nonsense'/],
  ['mutate --area enclave --count x', 64, /--count is not a whole number/],
  ['mutate --area enclave --workers 0', 64, /--workers is at least 1/],
  ['mutate --area enclave --resume rubbish', 1, /rubbish is no sample of enclave/],
  ['mutate --area enclave --resume folder', 74, /'folder'|EISDIR/],
  ['simulate --colour red', 64, /Unknown option '--colour'/],
  ['simulate --runs x', 64, /--runs is not a whole number/],
  ['simulate --world nonsense', 64, /--world is one of memory, /],
  ['simulate --until noon', 64, /--until is a time of the day/],
  ['bench nonsense', 64, /no such bench: nonsense\n\nusage: bun run bench \[NAME \.\.\.\]/],
  ['reference', 64, /^usage: /],
  ['reference nonsense', 64, /there is no command 'nonsense'/],
  ['reference keygen', 64, /--out is missing/],
  ['reference keygen --out rubbish', 74, /exists, open 'rubbish'/],
  ['reference sign', 64, /--source is missing/],
  [
    'reference sign --venue VENUE --symbol S --source desk --price x --source-key seed',
    64,
    /--price is not a whole/,
  ],
  [
    'reference sign --venue VENUE --symbol S --source desk --price 5 --source-key none',
    1,
    /the file of --source-key cannot be read/,
  ],
  ['reference post --record none CALL', 1, /none cannot be read/],
  ['reference post --record folder CALL', 1, /folder cannot be read/],
  ['reference post PRICE --operator-key seed --url DOWN', 1, /did not answer/],
  ['manifest --check', 64, /argument missing/],
  ['manifest --check none', 64, /none cannot be read/],
  ['manifest --check folder', 64, /folder cannot be read/],
  ['manifest --check rubbish', 1, /manifest refused:\n {2}it is not JSON/],
  ['manifest --compose none', 64, /none cannot be read/],
  ['manifest --set nonsense --out m', 64, /nonsense: expected NAME=VALUE/],
  ['manifest --out m', 1, /manifest refused:\n.*\n.*image: still SET_ME/s],
  ['read-machine', 64, /--compose-hash is missing/],
  ['read-machine nonsense --compose-hash VENUE', 64, /'nonsense' is not the URL of a machine/],
  ['read-machine DOWN --compose-hash VENUE', 1, /the machine did not answer/],
  ['read-machine DOWN --compose-hash VENUE --collateral none', 1, /none cannot be read/],
  ['read-machine DOWN --compose-hash VENUE --collateral rubbish', 1, /the collateral is not an object/],
  ['read-machine DOWN --compose-hash VENUE --policy rubbish', 1, /the policy is not JSON/],
  ['image', 64, /--base NAME@sha256:DIGEST/],
  ['image --base base@sha256:VENUE --builder nonsense', 64, /--builder is buildah or docker/],
  ['image --base base@sha256:VENUE --bun none', 74, /open 'none'/],
  ['image-inputs --colour red', 64, /Unknown option '--colour'/],
  ['image-inputs surplus', 64, /^usage: /],
  ['image-inputs --bun none', 74, /open 'none'/],
  ['image-inputs --bun rubbish', 1, /rubbish: not the pinned Bun/],
  ['image-inputs --out rubbish/inputs.tar', 74, /'rubbish'/],
  ['restore', 64, /--verify is missing/],
  ['restore --verify folder --laptop folder', 1, /folder is not the data folder of a sandbox/],
  ['restore --verify folder', 64, /--rpc is missing/],
  ['restore --verify folder --rpc nonsense --program ADDRESS', 64, /--rpc is the URL of a Solana node/],
  ['restore --verify folder --rpc NODE --program xy', 64, /--program is not a Solana address/],
  [
    'restore --verify folder --rpc NODE --program ADDRESS --socket none',
    1,
    /^none: guest agent GetKey: unreachable/,
  ],
  ['tacit nonsense', 64, /^there is no verb 'nonsense'; 'tacit help' lists all\n$/],
  ['tacit help nonsense', 64, /^there is no verb 'nonsense'/],
  ['tacit auction', 64, /usage: /],
  ['tacit auction none', 64, /none cannot be read/],
  ['validator-demo --rpc NODE --data folder', 64, /folder exists/],
  ['validator-demo --data new', 64, /^--rpc is missing/],
  ['tacit verify', 64, /^--url is needed/],
  ['tacit verify DOWN', 3, /nothing answers at https:\/\/\S+: is the venue running/],
  ['tacit verify DOWN --policy none', 64, /none cannot be read/],
  ['tacit audit-batch none --key none --policy none', 64, /none cannot be read/],
  ['tacit audit-batch --new-key rubbish', 64, /rubbish exists/],
]

const PROGRAM: readonly Row[] = [
  ['program', 64, /^usage: /],
  ['program nonsense --rpc NODE', 64, /there is no command 'nonsense'/],
  ['program show', 64, /--rpc is missing/],
  ['program show --rpc NODE --program xy', 64, /--program is not a Solana address/],
  ['program show --rpc nonsense --program ADDRESS', 64, /--rpc is the URL of a Solana node/],
  ['program show --rpc NODE --program ADDRESS', 2, /too few RPC providers answer/],
  ['program pause --rpc NODE --program ADDRESS --admin none', 64, /the file of --admin cannot be read/],
  ['program pause --rpc NODE --program ADDRESS --admin rubbish', 64, /--admin holds neither a seed/],
  ['program pause --rpc NODE --program ADDRESS --admin seed --execute', 2, /providers|chain/],
  ['program pause --rpc NODE --program ADDRESS --admin ADDRESS --unsigned file', 2, /providers|chain/],
  [
    'program declare-outage --rpc NODE --program ADDRESS --admin seed --extra x',
    64,
    /--extra is not a whole/,
  ],
  ['program announce --rpc NODE --program ADDRESS --admin seed --list none', 64, /--list is one of build, /],
  ['program deploy --rpc NODE --payer seed --authority seed --program other', 2, /too few RPC providers/],
  [
    'program deploy --rpc NODE --payer seed --authority seed --program other --elf none',
    64,
    /none cannot be read/,
  ],
  ['program create-nonce --rpc NODE --payer seed --key ADDRESS', 2, /no answer from the chain/],
  ['program sign none --program ADDRESS --with seed --signed s', 64, /none cannot be read/],
  [
    'program sign rubbish --program ADDRESS --with seed --signed s',
    1,
    /rubbish is not a file that --unsigned wrote/,
  ],
  [
    'program submit rubbish --program ADDRESS --signed rubbish --rpc NODE',
    1,
    /rubbish is not a file that --unsigned/,
  ],
]

/** The commands that the usage of `name` lists. */
async function verbsOf(name: string): Promise<string[]> {
  const { out } = await give(`${name} --help`)
  const lines = [...out.matchAll(/^ {2}([a-z][a-z-]*(?: .*)?)$/gm)].map(([, line]) => line!)
  const found = lines.flatMap((line) => line.split(' | ').map((part) => part.trim().split(' ')[0]!))
  return [...new Set(found)].filter((word) => /^[a-z][a-z-]+$/.test(word))
}

test('account and its wrong inputs', () => hold(ACCOUNT), 120_000)
test('a running venue names its refusals', () => hold(AT_A_VENUE, 1), 120_000)
test(
  'reference, manifest, image, signer, backup and verdict, and their wrong inputs',
  () => hold(OTHERS),
  180_000,
)

test('program and its wrong inputs', async () => {
  const verbs = await verbsOf('program')
  expect(verbs.length).toBeGreaterThan(20)
  const bare = verbs.map((verb): Row => {
    const takes_file = verb === 'sign' || verb === 'submit'
    return [`program ${verb} --rpc NODE`, 64, takes_file ? /^usage: / : /--(program|payer) is missing/]
  })
  await hold([...bare, ...PROGRAM])
}, 180_000)

test('a file that this user may not read or write is named', async () => {
  chmodSync(at('closed'), 0)
  chmodSync(folder, 0o755)
  // Root may read everything.
  const user = process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'] : []
  const said = async (line: string) => {
    const { code, error } = await give(line, user)
    return [code, error.split('\n')[0]]
  }
  expect(await said('account list --operator-key closed --url DOWN --venue VENUE')).toEqual([
    1,
    'the file of --operator-key cannot be read',
  ])
  expect(await said('manifest --check closed')).toEqual([64, 'closed cannot be read'])
  if (user.length === 0) return
  expect(await said('account operator-keygen --out key')).toEqual([
    74,
    expect.stringMatching(/^EACCES: permission denied, open 'key'/),
  ])
}, 180_000)

test('every command of the usages has its wrong inputs here, and its line in the guide', async () => {
  const rows = [...ACCOUNT, ...OTHERS].map(([line]) => line)
  for (const name of ['account', 'reference'])
    for (const verb of await verbsOf(name)) {
      expect([verb, rows.some((row) => `${row} `.startsWith(`${name} ${verb} `))]).toEqual([verb, true])
      expect([verb, GUIDE.includes(`bun run ${name} ${verb} `)]).toEqual([verb, true])
    }
  const named = [...GUIDE.matchAll(/bun run ([a-z-]+)/g)].map(([, name]) => name!)
  for (const name of new Set(named))
    expect([name, name === 'program' || rows.some((row) => row.split(' ')[0] === name)]).toEqual([name, true])
}, 180_000)

const COMMANDS = [
  'account',
  'reference',
  'restore',
  'cluster-repair',
  'faults',
  'mutate',
  'soak',
  'program',
  'manifest',
  'read-machine',
  'tacit',
  'start',
  'bench',
  'demo',
  'validator-demo',
  'image',
] as const

function command(name: (typeof COMMANDS)[number], ...args: string[]) {
  // The last command of a script takes the arguments.
  const [main, ...own] = scripts[name]
    .split(/ && bun |^bun /)
    .at(-1)!
    .split(' ')
  return run([process.execPath, join(ROOT, main!), ...own, ...args])
}

for (const name of COMMANDS) {
  test(`${name} prints its usage when asked, and when misused`, async () => {
    for (const ask of ['--help', '-h']) {
      const helped = await command(name, ask)
      expect(helped).toMatchObject({ code: 0, error: '' })
      expect(helped.out).toMatch(/^usage: /)
      if (name !== 'start') expect(helped.out).toMatch(/^exit code: 0 .*64 usage/m)
    }
    const misused = await command(name, '--colour', 'red')
    expect(misused).toMatchObject({ code: 64, out: '' })
    expect(misused.error).toMatch(/^usage: |lists commands and options|\n\nusage: /m)
    expect(misused.error).not.toMatch(/^ +at /m)
  }, 120_000)
}

test('a misuse is no verdict of a backup or a batch, and an answer that cannot be given is no misuse', async () => {
  expect((await command('restore', '--verify')).code).toBe(64)
  expect((await command('restore', '--verify', '/nowhere', '--laptop', '/nowhere')).code).toBe(1)
  expect((await command('tacit', 'audit-batch')).code).toBe(64)
  expect((await command('tacit', 'audit-batch', '/nowhere', '--policy', '/nowhere')).code).toBe(64)
  expect(
    (await command('account', 'list', '--operator-key', '/nowhere', '--url', 'x', '--venue', 'ab'.repeat(32)))
      .code,
  ).toBe(1)
  expect((await command('account', 'admit', '--colour')).code).toBe(64)
  expect((await command('read-machine', 'https://127.0.0.1:1', '--compose-hash', 'ab')).code).toBe(64)
}, 120_000)

test('account names the fault of a request, a listener and a certificate', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'account-'))
  const [key, record] = [join(folder, 'operator.key'), join(folder, 'record.json')]
  const { cert_pem: cert, key_pem: key_of_it } = tlsMaterial()
  const tls = { cert, key: key_of_it }
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', tls, fetch: () => new Response('') })
  try {
    expect((await command('account', 'operator-keygen', '--out', key)).code).toBe(0)
    const admit = ['admit', '--operator-key', key, '--request', record, '--venue', 'ab'.repeat(32), '--url']
    const { login, request } = testCredential('desk', new Uint8Array(32))
    writeFileSync(record, JSON.stringify(request))
    expect((await command('account', ...admit, 'localhost:8444')).error).toContain(
      'is not the URL of a listener',
    )
    const untrusted = await command('account', ...admit, `https://127.0.0.1:${server.port}`)
    expect(untrusted.error).toContain('name its certificate with --ca')
    for (const other of ['no request', JSON.stringify(login), JSON.stringify({ ...request, salt: '' })]) {
      writeFileSync(record, other)
      const unread = await command('account', ...admit, 'https://127.0.0.1:1')
      expect([unread.code, unread.error]).toEqual([1, `${record} does not hold a trader's request\n`])
    }
  } finally {
    await server.stop(true)
    rmSync(folder, { recursive: true })
  }
}, 120_000)

const dir = mkdtempSync(join(tmpdir(), 'tacit-keys-'))
afterAll(() => rmSync(dir, { recursive: true }))
const seed = crypto.getRandomValues(new Uint8Array(32))

function file(content: string | Uint8Array): string {
  const path = join(dir, 'key')
  writeFileSync(path, content)
  return path
}

test('32 bytes, 64 hex digits and the array of solana-keygen give the same key', () => {
  const pair = JSON.stringify([...concatBytes(seed, publicKeyOf(seed))])
  for (const content of [seed, `${toHex(seed)}\n`, pair]) expect(readSeed(file(content))).toEqual(seed)
})

test('a key whose halves do not belong together is refused, and the refusal shows nothing of it', () => {
  const pair = JSON.stringify([...concatBytes(seed, seed)])
  for (const content of [pair, '[1,2]', toHex(seed).slice(2), '']) {
    expect(() => readSeed(file(content))).toThrow(/^\S+ holds neither a seed nor a key of solana-keygen$/)
  }
})
