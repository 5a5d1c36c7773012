/** A claim survives a second copy of its wallet, a second watcher, a killed command and a node that misstates it. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChainAccess, openChainAccess } from '../../../client/chain/chain_access'
import { readClaim } from '../../../client/chain/claims'
import { freezeVault, readProofs, requestExit } from '../../../client/chain/exit_note'
import { ownAccount, tokenBalance } from '../../../client/chain/token_account'
import { nullifierOfNote } from '../../../client/exit/prepare_exit'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { saveWallet } from '../../../client/wallet/wallet_file'
import { decodeBase58 } from '../../../protocol/base58'
import { ACCOUNT_LAYOUTS } from '../../../protocol/vault/accounts'
import { USDC } from '../../../sandbox/environment'
import { CliSite, EXIT_DELAY_S, type Said, said } from '../cli_site'
import { LyingNode } from '../lying_node'
import { claimFalsely, misstating } from './false_claim'

const TACIT = join(import.meta.dir, '../../../client/cli/tacit.ts')
const GAPS = ['--gap-keys', '2', '--gap-deposits', '10', '--gap-commands', '60']
/** Two copies of one wallet, each with a separate payer. */
const COPIES = ['one', 'two'] as const
const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
const stranger = new Wallet(crypto.getRandomValues(new Uint8Array(32)))

let site: CliSite
let chain: ChainAccess
let program_id: string
let payers: Uint8Array[]
let notes: WalletNote[]
let gone: WalletNote

beforeAll(async () => {
  site = await CliSite.open()
  program_id = site.program_id
  chain = await openChainAccess(site.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(chain.payer.address, USDC, '1')
  const addresses = COPIES.map((name) => site.payer(`${name}.key`))
  for (const address of addresses) await site.fund(address, USDC, '1')
  payers = addresses.map((address) => decodeBase58(address, 32)!)
  notes = await site.deposit(wallet, 1_000n, 2_000n, 4_000n)
  ;[gone] = (await site.deposit(stranger, 10n)) as [WalletNote]
  await site.signer.settle({ nullifiers: [nullifierOfNote(gone)] })
  const to = { program_id, destination: ownAccount(chain, USDC).bytes }
  await requestExit(chain, wallet, notes[0]!, { ...to, proofs: await readProofs(chain, program_id) })
  saveWallet(site.path('one.json'), wallet)
  copyFileSync(site.path('one.json'), site.path('two.json'))
  site.chain.warpTime(EXIT_DELAY_S + 10)
  site.chain.advance(2)
  await freezeVault(chain, program_id, nullifierOfNote(notes[0]!))
  site.chain.advance(10)
}, 180_000)
afterAll(() => site.close())

function start(name: string, command: string, rpc: string, ...args: string[]) {
  const at = ['--rpc', rpc, '--program', program_id]
  const own = ['--wallet', site.path(`${name}.json`), '--payer', site.path(`${name}.key`)]
  return site.start('exit', command, ...at, ...own, ...args)
}
const claim = (name: string, note: WalletNote, rpc = site.chain.url) =>
  start(name, 'claim', rpc, ...GAPS, '--note', note.commitment)
const redirect = (name: string, note: WalletNote) =>
  start(name, 'redirect', site.chain.url, '--note', note.commitment)
const claimOf = (note: WalletNote) => readClaim(chain, program_id, nullifierOfNote(note))
const codes = (ran: readonly Said[]) => ran.map(({ code }) => code).sort()

test('a command that is killed before it knows of its claim goes on from it', async () => {
  const node = new LyingNode(site.chain.url)
  const sent = Promise.withResolvers<void>()
  node.lies = {
    sendTransaction: (signature) => {
      sent.resolve()
      return signature
    },
  }
  const [note] = notes as [WalletNote]
  site.chain.faults.landing_delay_slots = 100
  const killed = claim('one', note, node.url)
  await sent.promise
  killed.kill('SIGKILL')
  await killed.exited
  site.chain.faults.landing_delay_slots = 0
  site.chain.advance(120)
  const landed = (await claimOf(note))!
  expect(landed).toMatchObject({ state: 'open', bond_payer: payers[0] })
  expect(await said(claim('one', note))).toMatchObject({ code: 0, error: '' })
  expect(await claimOf(note)).toEqual(landed)
  await node.stop()
}, 180_000)

test('of two at once one claims, redirects, cancels and collects; the other is refused by name', async () => {
  const [, note] = notes as [WalletNote, WalletNote]
  const twice = (run: (name: string) => ReturnType<typeof claim>) =>
    Promise.all(COPIES.map((name) => said(run(name))))
  const claimed = await twice((name) => claim(name, note))
  const open = (await claimOf(note))!
  expect(open.state).toBe('open')
  // One that looks only after the other landed goes on from it, and is rejected nothing.
  for (const [at, { code, out }] of claimed.entries()) {
    expect(out).toContain(code === 0 ? 'payable from' : 'already_claimed')
    if (code !== 0) expect(open.bond_payer).not.toEqual(payers[at])
  }
  const redirected = await twice((name) => redirect(name, note))
  const moved = (await claimOf(note))!
  expect(moved.sequence).toBe(redirected.filter(({ code }) => code === 0).length)
  for (const { code, error } of redirected) expect(error).toContain(code === 0 ? '' : 'wrong_sequence')

  await claimFalsely(chain, program_id, stranger, gone)
  site.chain.advance(10)
  const watched = await twice((name) =>
    Bun.spawn(
      [
        process.execPath,
        TACIT,
        'watch-escapes',
        ...site.where,
        '--payer',
        site.path(`${name}.key`),
        '--once',
      ],
      { stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' },
    ),
  )
  expect(codes(watched)).toEqual([0, 0])
  expect(watched.filter(({ out }) => out.includes('cancelled in'))).toHaveLength(1)
  expect((await claimOf(gone))!.state).toBe('cancelled')
  // Refused by a slot that is not confirmed yet: the node shows the claim open for some reads more.
  let stale_reads = 4
  const lags = misstating(site.chain.url, ({ state }) => ({ state: stale_reads-- > 0 ? 'open' : state }))
  const args = ['--rpc', lags.url, '--program', program_id, '--payer', site.path('two.key'), '--once']
  const second = Bun.spawn([process.execPath, TACIT, 'watch-escapes', ...args], {
    stdout: 'pipe',
    stderr: 'pipe',
  })
  expect(await said(second)).toMatchObject({
    code: 0,
    error: expect.stringContaining('another challenger was first'),
  })
  expect(stale_reads).toBeLessThan(0)
  await lags.stop()

  site.chain.warpTime(2 * EXIT_DELAY_S + 10)
  site.chain.advance(10)
  const { destination } = moved
  const before = await tokenBalance(chain, destination)
  const paid = await twice((name) => claim(name, note))
  for (const { code, out } of paid) expect(out).toContain(code === 0 ? 'claim paid: 2000' : 'claim_closed')
  expect(await tokenBalance(chain, destination)).toBe(before + 2_000n)
  const late = await said(redirect('one', note))
  expect([late.code, late.error]).toEqual([64, expect.stringContaining('the note has no open claim')])
  expect((await said(claim('two', note))).out).toContain('claim paid: 2000 of 2000')
}, 180_000)

test('a node that shows a claim paid or hides it, or shows one that is not there, keeps no note from its owner', async () => {
  const [open, , never] = notes as [WalletNote, WalletNote, WalletNote]
  const pays = misstating(site.chain.url, ({ amount }) => ({ state: 'paid', paid: amount }))
  expect((await claimOf(open))!.state).toBe('open')
  const collected = await said(claim('one', open, `${pays.url},${site.chain.url}`))
  expect(collected).toMatchObject({ code: 0, error: '' })
  expect((await claimOf(open))!.state).toBe('paid')
  const data = Buffer.from(ACCOUNT_LAYOUTS.escape_claim.encode((await claimOf(open))!)).toString('base64')
  const invents = new LyingNode(site.chain.url)
  invents.lies = {
    getMultipleAccounts: (told) => {
      const answer = told as { value: unknown[] }
      const invented = { data: [data, 'base64'], owner: program_id, executable: false, lamports: 1, space: 1 }
      return answer.value.length === 1 && answer.value[0] === null ? { ...answer, value: [invented] } : answer
    },
  }
  expect(await claimOf(never)).toBeUndefined()
  const claimed = await said(claim('one', never, `${invents.url},${site.chain.url}`))
  expect(claimed).toMatchObject({ code: 0, error: '' })
  expect((await claimOf(never))!.state).toBe('open')
  site.chain.warpTime(2 * EXIT_DELAY_S)
  site.chain.advance(10)
  const hides = new LyingNode(site.chain.url)
  hides.lies = {
    getMultipleAccounts: (told) => {
      const { value, ...answer } = told as { value: ({ space: number } | null)[] }
      const isClaim = (account: (typeof value)[number]) =>
        account?.space === ACCOUNT_LAYOUTS.escape_claim.size
      return { ...answer, value: value.map((account) => (isClaim(account) ? null : account)) }
    },
  }
  const late = await said(claim('one', never, `${site.chain.url},${hides.url}`))
  expect(late).toMatchObject({ code: 0, error: '' })
  expect((await claimOf(never))!.state).toBe('paid')
  await Promise.all([pays.stop(), invents.stop(), hides.stop()])
}, 180_000)
