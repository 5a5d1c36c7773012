/** The guide's backup, command by command: taken from a drained venue, judged, and put back after the disk was lost. */
import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fromHex } from '../../protocol/bytes'
import { VenueProcess } from '../faults/kit/venue_process'
import { accountId, testCredential } from '../kit/venue/test_login'

const ROOT = join(import.meta.dir, '../..')
const SECTION = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
  .split(/^## /m)
  .find((text) => text.startsWith('20. '))!
/** The lines of the section's block: drain, take, judge, put back. */
const [DRAIN, TAKE, JUDGE, PUT_BACK] = /```sh\n([^`]+)```/
  .exec(SECTION)![1]!
  .split('\n')
  .map((line) => line.replace(/ +#.*$/, '')) as [string, string, string, string]

const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-backup-'))
const extracted = join(folder, 'extracted')
mkdirSync(extracted)
afterAll(async () => {
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

let target = ''
/** The operator's commands, once the venue serves. */
async function open(): Promise<void> {
  const { certificate, operator_key, operator_url, url } = venue.facts
  const tls = { ca: readFileSync(certificate, 'utf8') }
  const info = (await (await fetch(`${url}/info`, { tls })).json()) as { venue: string }
  target = `--operator-key ${operator_key} --url ${operator_url} --venue ${info.venue} --ca ${certificate}`
}

/** Gives a line of the guide; `BACKUP` is `archive`. */
async function give(line: string, archive: string) {
  const words = line
    .replace('TARGET', target)
    .replace('--rpc URL,URL --program ID', `--laptop ${venue.data_dir}`)
    .split(' ')
    .map((word) => ({ BACKUP: archive, DATA: venue.data_dir, DIR: extracted })[word] ?? word)
  const script = words.slice(0, 2).join(' ') === 'bun run'
  const command = script
    ? [process.execPath, join(ROOT, `tools/${words[2]}/main.ts`), ...words.slice(3)]
    : words
  const child = Bun.spawn(command, { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const out = await new Response(child.stdout).text()
  const error = await new Response(child.stderr).text()
  return { code: await child.exited, out, error }
}
async function done(line: string, archive: string): Promise<string> {
  const { code, error, out } = await give(line, archive)
  expect([line, code, error]).toEqual([line, 0, ''])
  return out
}

async function admit(name: string): Promise<void> {
  const request = join(folder, `${name}.json`)
  const venue_id = fromHex(/--venue (\w+)/.exec(target)![1]!, 32)!
  writeFileSync(request, JSON.stringify(testCredential(name, venue_id).request))
  await done(`bun run account admit --request ${request} TARGET`, '')
}
async function accounts(): Promise<string[]> {
  const { items } = JSON.parse(await done('bun run account list TARGET', '')) as {
    items: { account_id: string }[]
  }
  return items.map((one) => one.account_id)
}

async function take(archive: string): Promise<void> {
  await done(DRAIN, archive)
  expect(await venue.ended()).toBe(0)
  await done(TAKE, archive)
}
async function judge(archive: string) {
  rmSync(extracted, { recursive: true })
  mkdirSync(extracted)
  await done(PUT_BACK.replace('DATA', 'DIR'), archive)
  const { code, out } = await give(JUDGE, archive)
  return { code, ...(JSON.parse(out) as { may_trade: boolean; fault?: string }) }
}
/** Everything of the venue but what is not its data: chain and keys of the sandbox. */
function loseDisk(): void {
  const data = ['journal', 'snapshots', 'stores', 'history', 'hashing']
  expect(readdirSync(venue.data_dir)).toEqual(expect.arrayContaining(data))
  for (const name of data) rmSync(join(venue.data_dir, name), { recursive: true })
}

test('the newest backup goes on where the venue stopped; an older one is refused by check and start', async () => {
  const [older, newest] = [join(folder, 'older.tar'), join(folder, 'newest.tar')]
  await venue.start()
  await open()
  await admit('desk')
  await take(older)
  await venue.start()
  await open()
  await admit('fund')
  await take(newest)

  expect(await judge(newest)).toMatchObject({ code: 0, may_trade: true })
  expect(await judge(older)).toMatchObject({ code: 1, may_trade: false, fault: 'rolled_back' })

  loseDisk()
  await done(PUT_BACK, newest)
  await venue.start()
  await open()
  expect(await accounts()).toEqual(expect.arrayContaining([accountId('desk'), accountId('fund')]))
  const status = async () => {
    const { certificate, url } = venue.facts
    const tls = { ca: readFileSync(certificate, 'utf8') }
    return (await (await fetch(`${url}/system/status`, { tls })).json()) as {
      ready: boolean
      reasons: string[]
    }
  }
  while (!(await status()).ready) await Bun.sleep(50)
  await venue.stop()

  loseDisk()
  await done(PUT_BACK, older)
  await venue.start()
  const { ready, reasons } = await status()
  expect([ready, reasons.join()]).toEqual([false, expect.stringContaining('rolled_back')])
}, 240_000)
