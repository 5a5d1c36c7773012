/** Commands of README.md and client/README.md that no other walk runs, and the program of client/PACKAGE.md, as printed. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import {
  copyFileSync,
  mkdtempSync,
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

const ROOT = join(import.meta.dir, '../..')
/** With the demo counterparty, as `start` runs it. */
const [, ...started] = scripts.start.split(' && bun ').at(-1)!.split(' ')
const venue = new VenueProcess({}, [], started)
const folder = mkdtempSync(join(tmpdir(), 'tacit-commands-'))
const at = (name: string): string => join(folder, name)
const named: Record<string, string> = {}

beforeAll(async () => {
  const facts = await venue.start()
  for (const part of ['client', 'protocol', 'native', 'node_modules', 'tools', 'package.json', 'engine'])
    symlinkSync(join(ROOT, part), at(part))
  symlinkSync(venue.data_dir, at('data'))
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
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
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

/** @returns what it printed; of a command that ends with another code its error */
async function run(printed: string, names: Record<string, string> = {}, code = 0): Promise<string> {
  const known = { ...named, ...names }
  const filled = printed.replaceAll(/\b[A-Z_]{2,}\b/g, (word) => known[word] ?? word)
  const [command = '', into] = filled.split(' > ')
  const [, ...words] = command.split(' ')
  const streams = { cwd: folder, stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' } as const
  const child = Bun.spawn([process.execPath, ...words], streams)
  const texts = [new Response(child.stdout).text(), new Response(child.stderr).text()]
  const [out = '', error = ''] = await Promise.all(texts)
  expect({ command, error, code: await child.exited }).toMatchObject({ code })
  if (into !== undefined) writeFileSync(at(into), out)
  return code === 0 ? out : error
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
  await run(keygen!.replace('operator.key', 'other.key'))
  await run('bun run tacit wallet create --seed-file seed')
  await run(request!)
  renameSync(at('request.json'), at('desk-1.json'))
  await run(admit!)
  const { credential_id } = JSON.parse(await run(credential!))
  expect(credential_id).toMatch(/^[0-9a-f]{32}$/)
  expect(await run(show!)).toContain(credential_id)
  await run(revoke!, { ID: credential_id })
  const [statistics] = commandsOf('client/README.md', '## Market statistics')
  expect(await run(statistics!)).toStartWith('start,open,high,low,close,volume,auctions')
  const { account_id } = JSON.parse(readFileSync(at('login.json'), 'utf8'))
  await run(suspend!, { ACCOUNT_ID: account_id })
  expect(await run(show!)).toContain('"suspended"')
}, 180_000)

test("a wallet's file: made, written on paper, backed up, lost and restored", async () => {
  const [create, words, backup, restore] = commandsOf('client/README.md', "## The wallet's file")
  rmSync(at('seed'))
  await run(create!)
  expect((await run(words!)).match(/[a-z]+/g)).toHaveLength(24)
  await run(backup!)
  const lost = readFileSync(at('wallet.json'))
  rmSync(at('wallet.json'))
  await run(restore!)
  expect(readFileSync(at('wallet.json')).length).toBe(lost.length)
}, 180_000)

test('evidence is kept; seed and public chain alone give the wallet, its history and the audit', async () => {
  const [verify] = commandsOf('README.md', 'Verify a venue')
  expect(await run(verify!)).toMatch(/ passed, 0 failed/)
  expect(JSON.parse(readFileSync(at('evidence.json'), 'utf8'))).toHaveProperty('attestation')
  rmSync(at('wallet.json'), { force: true })
  await run('bun run tacit wallet create --seed-file seed.hex')
  const leaving = commandsOf('README.md', 'Leaving without the venue').filter((line) => !line.includes('…'))
  expect(leaving).toHaveLength(6)
  for (const line of leaving) {
    const is_claim = line.includes('exit claim')
    const said = await run(line, { URL: named['RPC']! }, is_claim ? 64 : 0)
    if (is_claim) expect(said).toContain("the vault is not frozen: leave by 'exit request'")
  }
}, 600_000)

test('the program of client/PACKAGE.md trades on the venue of this machine', async () => {
  const [, block] = /\n\n((?: {4}.*\n|\n)+)/.exec(read('client/PACKAGE.md')) ?? []
  rmSync(at('wallet.json'), { force: true })
  const { login } = JSON.parse(readFileSync(at('data/demo-login.json'), 'utf8'))
  writeFileSync(at('login.json'), JSON.stringify(login), { mode: 0o600 })
  await run('bun run tacit wallet create --seed-file trader.hex --wallet wallet.json')
  await run('bun run tacit faucet USDC 500 --payer payer.hex')
  await run('bun run tacit deposit USDC 300 --wallet wallet.json --payer payer.hex')
  const program = block!
    .replace("'tacit-client'", "'./client/index'")
    .replace("'https://venue.example'", `'${named['URL']}'`)
    .replace(/ *policy: .*\n/, '')
  expect(program).toContain('Session.open')
  writeFileSync(at('trade.ts'), `${program}\nconsole.log(status)\nprocess.exit(0)\n`)
  expect(await run('bun trade.ts')).toBe('accepted\n')
}, 180_000)
