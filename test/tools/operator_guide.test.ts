/**
 * Runs every `bun run program` and `bun run account` line of docs/operations.md as printed, in order: those with a multisig
 * as admin from the start, these on a venue process. Exports have a separate test (audit_batch.test.ts).
 */
import { expect, test } from 'bun:test'
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scripts } from '../../package.json'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { concatBytes, fromHex, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import { NATIVE_MINT } from '../../sandbox/chain/faucet'
import { VenueProcess } from '../faults/kit/venue_process'
import { withChain } from '../kit/chain/chain_folder'
import { MULTISIG_ADDRESS, OperatorDesk } from '../kit/program_command'
import { accountId, testCredential } from '../kit/venue/test_login'

const ROOT = join(import.meta.dir, '../..')
const GUIDE = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8')
const LINES = GUIDE.split('\n').filter((line) => line.startsWith('bun run program '))

/** Words of the lines that are the same in each run. */
const FIXED = {
  MINT: NATIVE_MINT,
  NEXT: 'next.so',
  COMPOSE_HASH: '5a'.repeat(32),
  MINIMUM: '04'.repeat(18),
}

/** Where the other commands of the guide are run. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  account: 'test/tools/operator_guide.test.ts',
  'cluster-repair': 'test/tools/cluster_guide.test.ts',
  'image-inputs': 'test/tools/image_inputs.test.ts',
  image: 'test/tools/command_use.test.ts',
  manifest: 'test/tools/manifest.test.ts',
  'read-machine': 'test/tools/read_machine.test.ts',
  tacit: 'test/tools/command_use.test.ts',
  restore: 'test/tools/backup.test.ts',
  reference: 'test/tools/reference_command.test.ts',
  'validator-demo': 'test/tools/command_use.test.ts',
}

test('every command of the guide is run by a test', () => {
  const named = new Set([...GUIDE.matchAll(/bun run ([a-z-]+)/g)].map(([, name]) => name!))
  named.delete('program')
  expect([...named].sort()).toEqual(Object.keys(ELSEWHERE).sort())
  for (const [name, path] of Object.entries(ELSEWHERE)) {
    expect(Object.keys(scripts)).toContain(name)
    expect(existsSync(join(ROOT, path))).toBe(true)
  }
  const usage = Bun.spawnSync([
    process.execPath,
    join(ROOT, 'tools/program/main.ts'),
    '--help',
  ]).stdout.toString()
  const verbs = [...usage.matchAll(/^ {2}([a-z][a-z -|]*?)(?= +(?:--|UNSIGNED))/gm)].flatMap(([, words]) =>
    words!.split(' | ').map((word) => word.split(' ')[0]!),
  )
  const shown = new Set(LINES.map((line) => line.split(' ')[3]!))
  expect(verbs.filter((verb) => !shown.has(verb))).toEqual([])
})

test('the program lines of the guide, in order', async () => {
  await withChain({ slot_ms: 4, finalized_depth: 4 }, async (chain) => {
    using desk = new OperatorDesk(chain)
    const program = desk.key('program.json')
    const facts: Record<string, string> = {
      URL: chain.url,
      ID: program,
      MULTISIG: MULTISIG_ADDRESS,
      PAYER: desk.key('payer.json'),
      NEW_ADMIN: desk.key('new-admin.json'),
      ...FIXED,
      NONCE: 'printed by create-nonce',
      BUFFER: 'named in upgrade.json',
    }
    for (const address of [facts['PAYER']!, desk.key('deployer.json'), MULTISIG_ADDRESS, facts['NEW_ADMIN']!])
      await desk.fund(address)
    const next = concatBytes(readFileSync(join(ROOT, 'program/vault.so')), Uint8Array.of(1, 2, 3, 4))
    writeFileSync(desk.path('next.so'), next)
    writeFileSync(desk.path('next.so.sha256'), `${toHex(sha256(next))}  next.so\n`)

    const shown = async (): Promise<Record<string, unknown> & { vault: Record<string, unknown> }> => {
      const { out } = await desk.run(['show', '--rpc', chain.url, '--program', program])
      return JSON.parse(out)
    }
    let pending = ''
    for (const line of LINES) {
      const args = line
        .replace(/ +#.*$/, '')
        .split(' ')
        .slice(3)
      const words = args.map((word) => facts[word] ?? word)
      if (words[0]!.startsWith('apply-')) chain.warpTime(2 * 604_800 + 60)
      const typed = words[0] === 'set-authority' ? `${MULTISIG_ADDRESS}\n` : ''
      const { code, out, error } = await desk.run(words, typed)
      expect([line, code, error]).toEqual([line, 0, ''])
      facts['NONCE'] = /nonce account: (\w+)/.exec(out)?.[1] ?? facts['NONCE']!
      const file = words[words.indexOf('--unsigned') + 1]!
      if (words[0] === 'deploy' && words.includes('--unsigned')) {
        const { accounts } = JSON.parse(readFileSync(desk.path(file), 'utf8')).instructions[0]
        facts['BUFFER'] = accounts.find(({ name }: { name: string }) => name === 'buffer').pubkey
        pending = file
      } else if (words.includes('--unsigned') && !words.includes('--nonce'))
        await desk.execute(file, 'payer.json')
      if (words.includes('--buffer')) {
        const buffer = { authority: MULTISIG_ADDRESS, code_is_tested: true }
        expect(JSON.parse(out)).toMatchObject({ code_is_tested: false, buffer })
        await desk.execute(pending, 'payer.json')
      }
      if (words[0] === 'register-mint') {
        const { vault, ...rest } = await shown()
        expect(vault).toMatchObject({ admin: MULTISIG_ADDRESS, epoch: 0, pending: [] })
        expect(rest).toMatchObject({ code_is_tested: true })
      }
      if (words[0] === 'pause') expect((await shown()).vault).toMatchObject({ paused: true })
      if (words[0] === 'unpause') expect((await shown()).vault).toMatchObject({ paused: false })
    }
    const { vault, ...rest } = await shown()
    expect(vault).toMatchObject({ admin: facts['NEW_ADMIN'], paused: false, pending: [] })
    expect(rest).toMatchObject({ authority: null, code_is_tested: false })
    const code = chain.machine.bank.newest(program)!.data.subarray(4, 36)
    const held = chain.machine.bank.newest(encodeBase58(code))!.data
    expect(toHex(held.subarray(45, 45 + next.length))).toBe(toHex(next))
    expect(decodeBase58(facts['NONCE']!, 32)).toBeDefined()
  })
}, 240_000)

test('the account lines of the guide, in order, from an admission to the drain', async () => {
  const lines = GUIDE.split('\n').filter((line) => /^bun run (account|reference) /.test(line))
  const folder = mkdtempSync(join(tmpdir(), 'tacit-guide-'))
  const venue = new VenueProcess()
  try {
    const { certificate, operator_key, operator_url, url } = await venue.start()
    const tls = { ca: readFileSync(certificate, 'utf8') }
    const info = (await (await fetch(`${url}/info`, { tls })).json()) as { venue: string }
    const { request } = testCredential('desk', fromHex(info.venue, 32)!)
    writeFileSync(join(folder, 'desk-1.json'), JSON.stringify(request))
    const account_id = accountId('desk')
    const facts: Record<string, string> = {
      URL: operator_url,
      VENUE_ID: info.venue,
      ACCOUNT_ID: account_id,
      TARGET: `--operator-key operator.key --url ${operator_url} --venue ${info.venue} --ca ${certificate}`,
    }
    const give = async (line: string) => {
      const [name, ...args] = line
        .replace(/ +#.*$/, '')
        .split(' ')
        .slice(2)
        .flatMap((word) => (facts[word] ?? word).split(' '))
      // The guide's operator has a public certificate where no --ca is named.
      const ca = args.includes('--url') && !args.includes('--ca') ? ['--ca', certificate] : []
      const main = join(ROOT, `tools/${name}/main.ts`)
      const child = Bun.spawn([process.execPath, main, ...args, ...ca], {
        cwd: folder,
        stdout: 'pipe',
        stderr: 'pipe',
      })
      const out = await new Response(child.stdout).text()
      const error = await new Response(child.stderr).text()
      expect([line, await child.exited, error]).toEqual([line, 0, ''])
      return out
    }
    const known = async () => {
      const { items } = JSON.parse(await give('bun run account list TARGET')) as {
        items: { account_id: string; state: string; version: number; limits: object }[]
      }
      return items.find((one) => one.account_id === account_id)
    }
    let drained = false
    const states: Record<string, object> = {
      admit: { state: 'active', version: 1, limits: { orders_live_max: 500, rate_capacity: 100 } },
      limit: { version: 2, limits: { orders_live_max: 500, rate_capacity: 200 } },
      suspend: { state: 'suspended', version: 3 },
      resume: { state: 'active', version: 4 },
      close: { state: 'closed', version: 5 },
    }
    for (const line of lines) {
      const verb = line.split(' ')[3]!
      // The drain of the backup has its test in backup.test.ts; here the venue is gone by then.
      if (['export', 'post'].includes(verb) || (verb === 'drain' && drained)) continue
      drained ||= verb === 'drain'
      const out = await give(line)
      if (verb === 'operator-keygen') copyFileSync(operator_key, join(folder, 'operator.key'))
      if (verb === 'metrics') expect(out).toContain('tacit_ready 1')
      if (verb in states) expect([verb, await known()]).toMatchObject([verb, states[verb]!])
    }
    expect(drained).toBe(true)
    expect(await venue.ended()).toBe(0)
  } finally {
    await venue.remove()
    rmSync(folder, { recursive: true, force: true })
  }
}, 120_000)
