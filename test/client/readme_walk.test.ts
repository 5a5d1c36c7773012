/** README's commands as printed, from a venue that was just started to a finalized trade: at most eight of them. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scripts } from '../../package.json'
import { VenueProcess } from '../faults/kit/venue_process'

const ROOT = join(import.meta.dir, '../..')
/** What README asks of a newcomer, `start` included. */
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

/** @returns what the command printed */
async function run(command: string): Promise<string> {
  count += 1
  const words = command.split(' ')
  expect(words[0]).toBe('bun')
  const child = Bun.spawn([process.execPath, ...words.slice(1)], {
    cwd: folder,
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, error] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
  ])
  expect({ command, code: await child.exited, error: error.replace(/^\$ .*\n/gm, '') }).toMatchObject({
    code: 0,
  })
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
