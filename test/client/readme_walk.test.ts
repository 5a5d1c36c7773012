/** README's commands, and those of client/README.md and client/PACKAGE.md, as printed, on venues that were just started. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  copyFileSync,
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Call } from '../../client/cli/call'
import { verbIn } from '../../client/cli/verbs'
import { scripts } from '../../package.json'
import { toHex } from '../../protocol/bytes'
import { VenueProcess } from '../faults/kit/venue_process'
import { run as runIn } from '../kit/said'

const ROOT = join(import.meta.dir, '../..')
/** README's steps for a newcomer, `start` included. */
const COMMANDS_MAX = 8
/** The words that `start` adds, by which the other side of the market runs. */
const [, ...started] = scripts.start.split(' && bun ').at(-1)!.split(' ')
const venue = new VenueProcess({}, [], started)
const begun_ms = performance.now()
const folder = mkdtempSync(join(tmpdir(), 'tacit-readme-'))
beforeAll(async () => {
  await venue.start()
  for (const part of ['client', 'protocol', 'native', 'node_modules'])
    symlinkSync(join(ROOT, part), join(folder, part))
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'))
  symlinkSync(venue.data_dir, join(folder, 'data'))
}, 180_000)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

/** The commands of the shell block that follows a sentence of README.md, without their comments. */
function commandsAfter(sentence: string): string[] {
  const after = readFileSync(join(ROOT, 'README.md'), 'utf8').split(sentence)[1] ?? ''
  const [, block = ''] = /```sh\n(.*?)\n```/s.exec(after) ?? []
  const commands = block.split('\n').map((line) => line.replace(/ +#.*$/, ''))
  if (commands.length < 2) throw new Error('README.md has no such block')
  return commands
}

let count = 1
test('in code, the venue of this machine needs no policy by name, and an address that stays silent delays no other', async () => {
  using silent = Bun.listen({ hostname: '127.0.0.1', port: 0, socket: { data() {} } })
  const { url, policy, collateral } = venue.facts
  const program = `import * as tacit from './client'
    import { readFileSync } from 'node:fs'
    const { transcript } = await tacit.connect('${url}')
    const elsewhere = await tacit.connect('https://localhost:1').catch((error) => error.message)
    const named = tacit.parsePolicy(readFileSync('${policy}', 'utf8'))
    const options = { timeout_ms: 600_000, collateral: JSON.parse(readFileSync('${collateral}', 'utf8')) }
    const nodes = ['https://localhost:${silent.port}', 'https://localhost:1', '${url}']
    const second = await tacit.connect(nodes, named, options)
    console.log(JSON.stringify([transcript.verdict, elsewhere, second.transcript.verdict]))
    process.exit()`
  writeFileSync(join(folder, 'default.ts'), program)
  const child = Bun.spawn([process.execPath, 'default.ts'], {
    cwd: folder,
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const said = JSON.parse(await new Response(child.stdout).text())
  const refused = expect.stringContaining('a policy is needed for https://localhost:1')
  expect(said).toEqual(['partial', refused, 'partial'])
}, 120_000)

/** @returns the command's output */
async function run(command: string): Promise<string> {
  count += 1
  const words = command.split(' ')
  expect(words[0]).toBe('bun')
  const { code, out, error } = await runIn([process.execPath, ...words.slice(1)], { cwd: folder })
  expect({ command, code, error: error.replace(/^\$ .*\n/gm, '') }).toMatchObject({ code: 0 })
  return out
}

test('eight commands lead to a finalized trade', async () => {
  for (const printed of commandsAfter("A wallet on the sandbox's chain")) await run(printed)
  const [place, watch, ...others] = commandsAfter('Trading by hand')
  const [order_id = ''] = /[0-9a-f]{32}/.exec(await run(place!)) ?? []
  expect(order_id).not.toBe('')
  expect(await run(watch!.replace('ORDER', order_id))).toContain('finalized')
  const seconds = Math.round((performance.now() - begun_ms) / 1_000)
  console.log(`README: ${count} commands, ${seconds} s from start to a finalized trade`)
  expect(count).toBeLessThanOrEqual(COMMANDS_MAX)
  const [fill = '', ...more] = (await run('bun run tacit fills')).trim().split('\n')
  expect([fill, more]).toEqual([expect.stringMatching(/SOL-USDC buy 1\.5 @ 150.* finalized/), []])
  expect(others).toHaveLength(2)
  for (const printed of others) expect(await run(printed.replace('ORDER', order_id))).not.toBe('')
  expect(await run('bun run tacit receipt verify receipt.json')).toContain('by the accepted evidence')
}, 180_000)

/** Processes of the counterparty of this venue. */
const counterparties = (): string[] =>
  readdirSync('/proc').filter((pid) => {
    if (!/^[0-9]+$/.test(pid)) return false
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(`counterparty.ts\0${venue.data_dir}\0`)
    } catch {
      return false
    }
  })

test('the counterparty ends with a killed venue, and another goes on with its wallet and orders', async () => {
  const [first] = counterparties()
  expect(first).toBeDefined()
  await venue.kill()
  while (counterparties().length > 0) await Bun.sleep(50)
  await venue.start()
  const [order_id = ''] = /[0-9a-f]{32}/.exec(await run('bun run tacit place SOL-USDC sell 1 @ 149')) ?? []
  expect(await run(`bun run tacit watch --until ${order_id}`)).toContain('finalized')
  expect(counterparties()).toEqual([expect.not.stringMatching(`^${first}$`)])
}, 180_000)

const readmeVenue = new VenueProcess({}, [], started)
const readmeFolder = mkdtempSync(join(tmpdir(), 'tacit-commands-'))
const at = (name: string): string => join(readmeFolder, name)
const named: Record<string, string> = {}

beforeAll(async () => {
  const facts = await readmeVenue.start()
  for (const part of ['client', 'protocol', 'native', 'node_modules', 'tools', 'package.json', 'engine'])
    symlinkSync(join(ROOT, part), at(part))
  symlinkSync(readmeVenue.data_dir, at('data'))
  for (const [name, path] of [
    ['policy.json', facts.policy],
    ['operator.key', facts.operator_key],
    ['cert.pem', facts.certificate],
  ] as const)
    copyFileSync(path, at(name))
  // The collateral of a venue of this machine is in a file.
  writeFileSync(at('tacit.json'), JSON.stringify({ collateral: facts.collateral }))
  writeFileSync(at('password'), 'a password\n', { mode: 0o600 })
  writeFileSync(at('payer.hex'), toHex(crypto.getRandomValues(new Uint8Array(32))), { mode: 0o600 })
  const { venue: venue_id } = JSON.parse(readFileSync(at('data/demo-login.json'), 'utf8'))
  const { url, rpc_url, program_id, operator_url } = facts
  Object.assign(named, { URL: url, HOST: new URL(url).host, VENUE_ID: venue_id })
  Object.assign(named, { RPC: rpc_url, ID: program_id, OPERATOR_LISTENER: new URL(operator_url).host })
}, 180_000)
afterAll(async () => {
  await readmeVenue.remove()
  rmSync(readmeFolder, { recursive: true, force: true })
})

const read = (document: string): string => readFileSync(join(ROOT, document), 'utf8')
/** The commands of a document between two texts, without their comments. */
function commandsOf(document: string, from = '', to = '\n## '): string[] {
  const text = read(document)
  const after = text.slice(text.indexOf(from) + from.length)
  const lines = (to === '' ? after : after.split(to)[0]!).split('\n').map((line) => line.trim())
  const commands = lines.filter((line) => /^bun run (tacit|account) /.test(line))
  if (commands.length === 0) throw new Error(`${document} has no commands after ${from}`)
  return commands.map((line) => line.replace(/ +#.*$/, '').replaceAll(/ +/g, ' '))
}

/** @returns its output; of a command that ends with another code its error */
async function readmeRun(printed: string, names: Record<string, string> = {}, code = 0): Promise<string> {
  const known = { ...named, ...names }
  const filled = printed.replaceAll(/\b[A-Z_]{2,}\b/g, (word) => known[word] ?? word)
  const [command = '', into] = filled.split(' > ')
  const [, ...words] = command.split(' ')
  const { out, ...ended } = await runIn([process.execPath, ...words], { cwd: readmeFolder })
  expect({ command, ...ended }).toMatchObject({ code })
  if (into !== undefined) writeFileSync(at(into), out)
  return code === 0 ? out : ended.error
}

test('every command of a document fits its verb', () => {
  let count = 0
  for (const document of [
    'README.md',
    'client/README.md',
    'docs/quickstart.md',
    'docs/receipts.md',
    'docs/archive.md',
  ])
    for (const [, line = ''] of read(document).matchAll(/^ *bun run tacit ([^#\n|>]*)(?=#|$)/gm)) {
      if (line.includes('…')) continue
      const { name, verb, args } = verbIn(line.trim().split(/ +/))
      expect([document, name, verb === undefined]).toEqual([document, name, false])
      expect(() => new Call(verb!, args)).not.toThrow()
      count += 1
    }
  expect(count).toBeGreaterThan(45)
})

test('a login, from its request over its admission to its revocation and suspension', async () => {
  const [request, credential, revoke, show] = commandsOf('client/README.md', '## Your login')
  const [keygen, admit, suspend] = commandsOf('README.md', 'reads:\n')
  await readmeRun(keygen!.replace('operator.key', 'other.key'))
  await readmeRun('bun run tacit wallet create --seed-file seed')
  await readmeRun(request!)
  renameSync(at('request.json'), at('desk-1.json'))
  await readmeRun(admit!)
  const { credential_id } = JSON.parse(await readmeRun(credential!))
  expect(credential_id).toMatch(/^[0-9a-f]{32}$/)
  expect(await readmeRun(show!)).toContain(credential_id)
  await readmeRun(revoke!, { ID: credential_id })
  const [statistics] = commandsOf('client/README.md', '## Market statistics')
  expect(await readmeRun(statistics!)).toStartWith('start,open,high,low,close,volume,auctions')
  const { account_id } = JSON.parse(readFileSync(at('login.json'), 'utf8'))
  await readmeRun(suspend!, { ACCOUNT_ID: account_id })
  expect(await readmeRun(show!)).toContain('"suspended"')
}, 180_000)

test("a wallet's file: made, written on paper, backed up, lost and restored", async () => {
  const [create, words, backup, restore] = commandsOf('client/README.md', "## The wallet's file")
  rmSync(at('seed'))
  await readmeRun(create!)
  expect((await readmeRun(words!)).match(/[a-z]+/g)).toHaveLength(24)
  await readmeRun(backup!)
  const lost = readFileSync(at('wallet.json'))
  rmSync(at('wallet.json'))
  await readmeRun(restore!)
  expect(readFileSync(at('wallet.json')).length).toBe(lost.length)
}, 180_000)

test('evidence is kept; seed and public chain alone give the wallet, its history and the audit', async () => {
  const [verify] = commandsOf('README.md', 'Verify a venue')
  expect(await readmeRun(verify!)).toMatch(/ passed, 0 failed/)
  expect(JSON.parse(readFileSync(at('evidence.json'), 'utf8'))).toHaveProperty('attestation')
  rmSync(at('wallet.json'), { force: true })
  await readmeRun('bun run tacit wallet create --seed-file seed.hex')
  const leaving = commandsOf('README.md', 'Leaving without the venue').filter((line) => !line.includes('…'))
  expect(leaving).toHaveLength(6)
  for (const line of leaving) {
    const is_claim = line.includes('exit claim')
    const said = await readmeRun(line, { URL: named['RPC']! }, is_claim ? 64 : 0)
    if (is_claim) expect(said).toContain("the vault is not frozen: leave by 'exit request'")
  }
}, 600_000)

test('the program of client/PACKAGE.md trades on the venue of this machine', async () => {
  const [, block] = /\n\n((?: {4}.*\n|\n)+)/.exec(read('client/PACKAGE.md')) ?? []
  rmSync(at('wallet.json'), { force: true })
  const { login } = JSON.parse(readFileSync(at('data/demo-login.json'), 'utf8'))
  writeFileSync(at('login.json'), JSON.stringify(login), { mode: 0o600 })
  await readmeRun('bun run tacit wallet create --seed-file trader.hex --wallet wallet.json')
  await readmeRun('bun run tacit faucet USDC 500 --payer payer.hex')
  await readmeRun('bun run tacit deposit USDC 300 --wallet wallet.json --payer payer.hex')
  const program = block!
    .replace("'tacit-client'", "'./client/index'")
    .replace("'https://venue.example'", `'${named['URL']}'`)
    .replace(/ *policy: .*\n/, '')
  expect(program).toContain('Session.open')
  writeFileSync(at('trade.ts'), `${program}\nconsole.log(status)\nprocess.exit(0)\n`)
  expect(await readmeRun('bun trade.ts')).toBe('accepted\n')
}, 180_000)
