/**
 * The operator's way from a clone to a verified deployment, as far as one machine goes: keys, inputs of the image, manifest,
 * a venue started from the clone, its verification and an account. The simulator stands for dstack, and no image is pushed.
 */
import { afterAll, expect, test } from 'bun:test'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { scripts } from '../../package.json'
import { fromHex, toHex } from '../../protocol/bytes'
import { sha256 } from '../../protocol/sha256'
import type { SandboxFacts } from '../../sandbox/open_sandbox'
import { BUN_SHA256 } from '../../tools/image/image_contents'
import { accountId, testCredential } from '../kit/venue/test_login'

const ROOT = join(import.meta.dir, '../..')
const is_clone = existsSync(join(ROOT, '.git'))
const clone = mkdtempSync(join(tmpdir(), 'tacit-clone-'))
const at = (name: string) => join(clone, name)
let venue: Bun.Subprocess<'ignore', 'pipe', 'inherit'> | undefined
afterAll(async () => {
  venue?.kill('SIGKILL')
  await venue?.exited
  rmSync(clone, { recursive: true, force: true })
})

/** A command of package.json, run in the clone. */
async function give(line: string): Promise<string> {
  const [name, ...args] = line.split(' ')
  const script = scripts[name as keyof typeof scripts].split(' ').at(-1)!
  const child = Bun.spawn([process.execPath, script, ...args], { cwd: clone, stdout: 'pipe', stderr: 'pipe' })
  const out = await new Response(child.stdout).text()
  const error = await new Response(child.stderr).text()
  expect([line, await child.exited, error]).toEqual([line, 0, ''])
  return out
}

test.skipIf(!is_clone)(
  'from a clone to a verified venue',
  async () => {
    expect(Bun.spawnSync(['git', 'clone', '--quiet', '--shared', ROOT, clone]).exitCode).toBe(0)
    // In place of `bun install --frozen-lockfile`, which needs the registry.
    symlinkSync(join(ROOT, 'node_modules'), at('node_modules'))

    const { operator_key } = JSON.parse(await give('account operator-keygen --out operator.key'))
    const { operator_key: fee_key } = JSON.parse(await give('account operator-keygen --out fee.key'))
    // Another Bun than the pinned one is rejected, which wrong_inputs.test.ts holds.
    if (toHex(sha256(readFileSync(process.execPath))) === BUN_SHA256) {
      const inputs = await give('image-inputs --out inputs.tar')
      expect(inputs).toContain(toHex(sha256(readFileSync(at('inputs.tar')))))
    }

    const settings = {
      image: `registry.example/tacit@sha256:${'ab'.repeat(32)}`,
      TACIT_PROGRAM_ID: '4Nd1mBQtrMJVYVfKf2PJy9NZUZdTAsp7D4xWLs4gDB4T',
      TACIT_OPERATOR_KEY: operator_key,
      TACIT_FEE_KEY: fee_key,
      SOLANA_RPC_URL: 'https://one.example/,https://two.example/,https://three.example/',
      TACIT_TLS_NAMES: 'venue.example.org',
    }
    const set = Object.entries(settings).map(([name, value]) => `--set ${name}=${value}`)
    const made = await give(`manifest --key-provider-id ${'ab'.repeat(91)} ${set.join(' ')}`)
    const hash = /compose hash +([0-9a-f]{64})/.exec(made)![1]!
    expect(toHex(sha256(readFileSync(at('app-compose.json'))))).toBe(hash)
    expect(await give('manifest --check app-compose.json')).toContain(hash)

    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('TACIT_'))
    venue = Bun.spawn([process.execPath, 'server/main.ts'], {
      cwd: clone,
      env: {
        ...Object.fromEntries(own),
        TACIT_DATA_DIR: at('data'),
        TACIT_LISTEN: '127.0.0.1:0',
        TACIT_OPERATOR_LISTEN: '127.0.0.1:0',
        TACIT_OPERATOR_KEY: operator_key,
        TACIT_FEE_KEY: fee_key,
      },
      stdin: 'ignore',
      stdout: 'pipe',
      stderr: 'inherit',
    })
    let printed = ''
    for await (const bytes of venue.stdout) {
      printed += new TextDecoder().decode(bytes)
      if (printed.includes('Tacit serves at')) break
    }
    const facts = JSON.parse(readFileSync(at('data/laptop.json'), 'utf8')) as SandboxFacts
    const { certificate, collateral, operator_url, policy, url } = facts
    const verified = await give(`tacit verify ${url} --policy ${policy} --collateral ${collateral}`)
    // Exit code 0: what is skipped is what the sandbox's policy permits.
    expect(verified).toMatch(/: \d+ passed, 0 failed, \d+ skipped/)
    for (const check of ['1.2', '3.1', '5.3', '6.1', '6.3']) expect(verified).toContain(`${check} pass`)

    const tls = { ca: readFileSync(certificate, 'utf8') }
    const info = (await (await fetch(`${url}/info`, { tls })).json()) as { venue: string }
    writeFileSync(at('desk.json'), JSON.stringify(testCredential('desk', fromHex(info.venue, 32)!).request))
    const target = `--operator-key operator.key --url ${operator_url} --venue ${info.venue} --ca ${certificate}`
    await give(`account admit --request desk.json ${target}`)
    expect(await give(`account list ${target}`)).toContain(accountId('desk'))
    await give(`account drain ${target}`)
    expect(await venue.exited).toBe(0)
  },
  180_000,
)
