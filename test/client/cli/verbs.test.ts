/** Runs the example in the help of every verb of `tacit` on a venue: exit code, first line. Then help, options, completion. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Call } from '../../../client/cli/call'
import { helpOf, VERBS } from '../../../client/cli/verbs'
import { loadWallet } from '../../../client/wallet/wallet_file'
import { SOL, USDC } from '../../../sandbox/environment'
import type { LoadTrader } from '../../faults/kit/load_trader'
import { openTrader, sellOnce } from '../../faults/kit/open_trader'
import { VenueProcess } from '../../faults/kit/venue_process'
import { run as runIn } from '../../kit/said'

const ROOT = join(import.meta.dir, '../../..')
const CLI = join(ROOT, 'client/cli/tacit.ts')
const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-examples-'))
const at = (name: string): string => join(folder, name)
let other: LoadTrader
/** Words of examples that only a run knows. */
const named: Record<string, string> = { MINT: USDC, NULLIFIER: '07'.repeat(32), ID: '07'.repeat(16) }

/** Sixty commands, one after the other: by hand, with `TACIT_VERBS=1`, which also prints the table. */
const by_hand = process.env['TACIT_VERBS'] === '1'
if (!by_hand) console.log('skipped: the examples run with TACIT_VERBS=1')

beforeAll(async () => {
  if (!by_hand) return
  await venue.start()
  other = await openTrader(venue, 'counterparty', { keys: 1, notes: 1, mints: [SOL] })
  symlinkSync(venue.data_dir, at('data'))
  writeFileSync(at('password'), 'p\n', { mode: 0o600 })
  for (const name of ['policy', 'collateral'] as const) copyFileSync(venue.facts[name], at(`${name}.json`))
  copyFileSync(venue.facts.auditor_key, at('auditor.key'))
  const [shown = ''] = /\{"own".*\]\}\]\}/s.exec(helpOf('auction', VERBS['auction']!)) ?? []
  writeFileSync(at('cases.json'), shown)
}, 180_000)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

async function run(...command: string[]) {
  const ended = await runIn(command, { cwd: folder })
  return { ...ended, first: (ended.out || ended.error).split('\n')[0]! }
}
const tacit = (line: string) => run(process.execPath, CLI, ...line.split(' ').slice(1))
const notes = () => loadWallet(at('wallet.json'))?.state.notes ?? []
const free = () => notes().filter(({ state, mint }) => state === 'free' && mint === USDC)

async function settled(): Promise<void> {
  for (;;) {
    await tacit('tacit notes')
    if (notes().every(({ state }) => state !== 'pending')) return
  }
}
async function exported(): Promise<void> {
  const { certificate, operator_key, operator_url } = venue.facts
  const info = await other.client.info()
  const operator = [join(ROOT, 'tools/account/main.ts'), 'export', '--operator-key', operator_key]
  const from = ['--url', operator_url, '--venue', info.venue, '--ca', certificate]
  const batch = ['--symbol', 'SOL-USDC', '--batch', '1', '--out', 'batch.age']
  expect(await run(process.execPath, ...operator, ...from, ...batch)).toMatchObject({ code: 0, error: '' })
}

type Row = {
  verb: string
  code?: number
  first: RegExp
  before?: () => unknown
  after?: (out: string) => unknown
}
const rows: Row[] = [
  {
    verb: 'wallet create',
    first: /^seed {9}seed.hex/,
    after: () => tacit('tacit wallet create --seed-file payer.hex'),
  },
  { verb: 'wallet words', first: /^ 1 [a-z]+/ },
  { verb: 'init', first: /^tacit.json is read/ },
  { verb: 'faucet', first: /^payer {8}\w+: 1000000000 lamports more/ },
  { verb: 'deposit', first: /^note {9}[0-9a-f]{64}/ },
  { verb: 'wallet address', first: /^trading key {2}\w+/ },
  { verb: 'wallet notes', first: /^[0-9a-f]{64} .* 300000000 {2}key 0 {2}free {2}deposit/ },
  { verb: 'doctor', first: /^ok {7}settings/ },
  { verb: 'verify', first: /^https:\/\/localhost:\d+ judged at/ },
  { verb: 'watch-venue', first: /verdict partial$/ },
  { verb: 'login', first: /^account {6}[0-9a-f]{64}/ },
  {
    verb: 'transparency',
    first: /^chain {8}slot \d+, read \d+ s ago$/m,
    after: (out: string) => {
      expect(out).toMatch(/^\w+ +\S+ held for \S+ owed/m)
      expect(out).toMatch(/^admitted {5}build [0-9a-f]{64}$/m)
    },
  },
  { verb: 'check', first: /^ok {11}true|^ok {11}the venue takes this buy/ },
  { verb: 'place', first: /^accepted {2}[0-9a-f]{32}/, after: ordered },
  { verb: 'orders', first: /SOL-USDC buy 1.5 of 1.5 @ 149.25 {2}limit {2}accepted/ },
  { verb: 'order', first: /SOL-USDC buy 1.5 of 1.5 @ 149.25/ },
  { verb: 'modify', first: /^accepted {2}[0-9a-f]{32}/, after: ordered },
  { verb: 'cancel', first: /^accepted {2}/ },
  { verb: 'dead-man', first: /^accepted {2}/ },
  { verb: 'cancel-all', first: /^accepted {2}/ },
  { verb: 'settle', first: /^no request is open/ },
  {
    verb: 'watch',
    before: async () => {
      await settled()
      ordered((await tacit(VERBS['place']!.example)).out)
      await sellOnce(other)
    },
    first: /^\d+ {2}\w+\.\w+/,
    after: (out: string) => expect(out).toContain('finalized'),
  },
  { verb: 'fills', first: /SOL-USDC buy 1.5 @ 149.25, fee \S+ {2}finalized/ },
  { verb: 'events', first: /^\{"seq":2,/ },
  { verb: 'notes', first: /^[0-9a-f]{64} {2}\w+ +\S+ {2}key 0/ },
  { verb: 'receipt prove', first: /^proof {8}receipt.json/ },
  { verb: 'receipt verify', first: /^receipt {6}journal seq \d+ of epoch \d+/ },
  { verb: 'split', before: () => noted(free()[0]!.commitment), first: /^accepted {2}/, after: settled },
  { verb: 'merge', before: () => noted(free()[0]!.commitment), first: /^accepted {2}/, after: settled },
  { verb: 'withdraw', before: payerAccount, first: /^accepted {2}/, after: settled },
  { verb: 'wallet sync', first: /^history {6}\d+ leaves/ },
  { verb: 'wallet recover', first: /^history {6}\d+ leaves/ },
  { verb: 'exit status', before: () => noted(free()[0]!.commitment), first: /^history/ },
  { verb: 'exit request', first: /^history/ },
  { verb: 'exit pay', before: paid, code: 1, first: /^payout 1 is not in the queue/ },
  {
    verb: 'exit close',
    before: () => noted(notes().at(0)!.commitment),
    code: 1,
    first: /^there is no exit request/,
  },
  { verb: 'exit freeze', code: 1, first: /^there is no exit request/ },
  { verb: 'exit refuse', code: 1, first: /^history/ },
  { verb: 'exit claim', code: 64, first: /^history/ },
  { verb: 'exit redirect', code: 64, first: /^the note has no open claim/ },
  { verb: 'exit challenge', code: 1, first: /^history/ },
  { verb: 'watch-escapes', first: /^the vault is not frozen: there are no claims/ },
  { verb: 'account request', first: /^\{/ },
  { verb: 'account show', first: /^\{/ },
  { verb: 'account credential', code: 1, first: /credentials_invalid/ },
  { verb: 'account revoke', code: 1, first: /credentials_invalid/ },
  { verb: 'account rebind', code: 1, first: /credentials_invalid/ },
  { verb: 'statistics', first: /^start,open,high,low,close,volume,auctions/ },
  { verb: 'archive', first: /^archive {6}\d+ leaves/ },
  { verb: 'audit-chain', first: /^accounts {5}finalized slot \d+/ },
  { verb: 'audit-batch', before: exported, first: /^\{/ },
  { verb: 'verify-quote', before: attested, first: /^\{"verdict":"accept"/ },
  { verb: 'verify-eventlog', first: /^\{"verdict":"accept"/ },
  { verb: 'auction', first: /^\{"id":"one","price":101/ },
  { verb: 'wallet encrypt', first: /^wallet {7}\S+ is encrypted/ },
  { verb: 'wallet backup', first: /^backup {7}backup.json, encrypted/ },
  { verb: 'wallet restore', first: /^wallet {7}restored.json/ },
  { verb: 'completion', first: /^_tacit\(\) \{/ },
]

async function paid(): Promise<void> {
  while (!(await tacit('tacit exit status')).out.includes(' 0 payouts wait')) await Bun.sleep(200)
}
function ordered(out: string): void {
  named['ORDER'] = /[0-9a-f]{32}/.exec(out)![0]
}
function noted(commitment: string): void {
  named['NOTE'] = commitment
  named['COMMITMENT'] = commitment
}
async function payerAccount(): Promise<void> {
  const out = (await tacit(`tacit faucet ${USDC} 1`)).out
  named['ACCOUNT'] = /in (\w+)$/m.exec(out)![1]!
}
function attested(): void {
  const { attestation } = JSON.parse(readFileSync(at('evidence.json'), 'utf8'))
  writeFileSync(at('attestation.json'), JSON.stringify(attestation))
}

test.skipIf(!by_hand)(
  'each verb by the example of its help',
  async () => {
    expect(rows.map(({ verb }) => verb).sort()).toEqual(Object.keys(VERBS).sort())
    const table: unknown[] = []
    for (const { verb, first, before, after } of rows) {
      await before?.()
      const words = VERBS[verb]!.example.split(' ')
      const line = words
        .map((word, index) =>
          word === 'NOTE' && index === 3 ? free().at(-1)!.commitment : (named[word] ?? word),
        )
        .join(' ')
      const ran = await tacit(line)
      if (by_hand) console.log(`| \`${VERBS[verb]!.example}\` | ${ran.code} | ${ran.first.slice(0, 110)} |`)
      table.push([verb, ran.code, first.test(ran.first) ? first : `${ran.first} ${ran.error}`])
      await after?.(ran.out)
    }
    expect(table).toEqual(rows.map(({ verb, code = 0, first }) => [verb, code, first]))
  },
  3_600_000,
)

test('the help of each verb names its form, and its example fits its own parser', () => {
  for (const [name, verb] of Object.entries(VERBS)) {
    const help = helpOf(name, verb)
    expect(help).toStartWith(`usage: tacit ${name}${verb.form === '' ? '' : ' '}${verb.form}`)
    for (const part of [verb.example, '[--json]', 'exit code: 0 done']) expect(help).toContain(part)
    expect(() => new Call(verb, verb.example.split(' ').slice(1 + name.split(' ').length))).not.toThrow()
    expect(() => new Call(verb, ['--nonsense'])).toThrow()
  }
})

test('bash completes verbs, their second words and their options', async () => {
  writeFileSync(at('completion'), (await tacit('tacit completion bash')).out)
  const completed = async (...words: string[]) => {
    const typed = words.map((word) => `'${word}'`).join(' ')
    const script = `source ./completion; COMP_WORDS=(tacit ${typed}); COMP_CWORD=${words.length}; _tacit; echo "\${COMPREPLY[*]}"`
    return (await run('bash', '-c', script)).out.trim()
  }
  expect(await completed('recei')).toBe('receipt')
  expect(await completed('wallet', 'cr')).toBe('create')
  expect(await completed('place', 'SOL-USDC', '--fo')).toBe('--fok')
  expect(await completed('wallet', 'create', '--se')).toBe('--seed-file')
}, 120_000)
