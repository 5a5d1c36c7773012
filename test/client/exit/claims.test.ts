/** A frozen vault, as an owner and a watcher run it: notes are claimed and paid, false claims cancelled, races survived. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChainAccess, openChainAccess } from '../../../client/chain/chain_access'
import {
  freezeVault,
  payPayout,
  readClaim,
  readProofs,
  redirectClaim,
  requestExit,
} from '../../../client/chain/exit_note'
import { ownAccount, readExitRequest, tokenBalance } from '../../../client/chain/read_vault'
import { nullifierOfNote } from '../../../client/wallet/absorb'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../../client/wallet/wallet_file'
import { decodeBase58, encodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { deriveAnchor, deriveOrderId } from '../../../protocol/notes/derive'
import { encodeMemo, noteInner, outputBlinding, settlementCommitment } from '../../../protocol/notes/notes'
import { ACCOUNT_LAYOUTS, decodeConfig } from '../../../protocol/vault/accounts'
import { USDC } from '../../../sandbox/environment'
import { run, type Said, said } from '../../kit/said'
import { CliSite, EXIT_DELAY_S, until } from '../cli_site'
import { claimFalsely, LyingNode, misstating } from '../lying_node'

const TACIT = join(import.meta.dir, '../../../client/cli/tacit.ts')
const GAPS = ['--gap-keys', '1', '--gap-deposits', '8', '--gap-commands', '5']
const BOND_LAMPORTS = 50_000_000n

let site: CliSite
let program_id: string
let chain: ChainAccess
/** Deposits of one wallet: left by an exit, traded, asked to leave in vain, in a batch that never landed, untouched. */
let notes: WalletNote[]
let exited: WalletNote
let traded: WalletNote
let unserved: WalletNote
let never_landed: WalletNote
let untouched: WalletNote
/** The notes that the trade left on chain. */
let change: WalletNote
/** Spent notes of another wallet. */
const stranger = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
let gone: WalletNote[]
const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
const path = (name: string): string => site.path(name)
const own = () => ['--wallet', path('wallet.json'), '--payer', path('payer.json')]
const exit = (command: string, ...args: string[]) =>
  site.run('exit', command, ...site.where, ...(command === 'status' ? own().slice(0, 2) : own()), ...args)
const claim = (...args: string[]) => exit('claim', ...GAPS, ...args)
const tacit = async (...args: string[]) => run([process.execPath, TACIT, ...args])
const stageOf = async (note: WalletNote, ...args: string[]): Promise<string> =>
  (await claim(...args)).out.split('\n').find((line) => line.startsWith(note.commitment)) ?? 'no line'

/** Change of the wallet's command 3: an order's, after two that did not fill. */
function changeNote(amount: bigint): WalletNote {
  const parts = { anchor: deriveAnchor(wallet.seed, 0, 48), order_id: deriveOrderId(wallet.seed, 0, 3) }
  const blinding = outputBlinding({ ...parts, nonce: 4n, generation: 0, index_role: 1 })
  const inner = noteInner(wallet.tradingKey(0), blinding)
  const commitment = toHex(settlementCommitment({ mint: decodeBase58(USDC, 32)!, amount, inner }))
  const rest = { key_index: 0, mint: USDC, state: 'free', origin: 'change' } as const
  return { ...rest, commitment, amount: String(amount), blinding: toHex(blinding) }
}
const outputOf = ({ commitment, blinding, amount }: WalletNote) => ({
  commitment: new Uint8Array(Buffer.from(commitment, 'hex')),
  memo: encodeMemo(new Uint8Array(Buffer.from(blinding, 'hex')), BigInt(amount)),
})

beforeAll(async () => {
  site = await CliSite.open()
  program_id = site.program_id
  await site.fund(site.payer('payer.json'), USDC, '1')
  site.payer('watcher.json')
  chain = await openChainAccess(site.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(chain.payer.address, USDC, '1')
  notes = await site.deposit(wallet, 1_000n, 2_000n, 3_000n, 4_000n, 5_000n)
  ;[exited, traded, unserved, never_landed, untouched] = notes as [
    WalletNote,
    WalletNote,
    WalletNote,
    WalletNote,
    WalletNote,
  ]
  const to = { program_id, destination: ownAccount(chain, USDC).bytes }
  await requestExit(chain, wallet, exited, { ...to, proofs: await readProofs(chain, program_id) })
  const nullifier = nullifierOfNote(exited)
  const request = (await readExitRequest(chain, program_id, nullifier))!
  const { mint, amount, destination, refund_inner: inner } = request
  const payouts = [{ mint, amount, destination, inner, nullifier }]
  await site.signer.settle({ nullifiers: [nullifier], payouts })
  await payPayout(chain, { program_id, number: 1, refund: false })
  change = changeNote(1_500n)
  await site.signer.settle({ nullifiers: [nullifierOfNote(traded)], outputs: [outputOf(change)] })
  gone = await site.deposit(stranger, 10n, 20n, 30n, 40n, 50n)
  await site.signer.settle({ nullifiers: gone.map(nullifierOfNote) })
  const proofs = await readProofs(chain, program_id)
  await requestExit(chain, wallet, unserved, { ...to, proofs })
  // The file of a wallet that saw a fill whose batch never landed: its collateral looks spent, its proceeds look real.
  never_landed.state = 'spent'
  untouched.state = 'pending'
  const imagined = { ...changeNote(3_999n), state: 'free' as const }
  wallet.state.notes.push(change, imagined)
  saveWallet(path('wallet.json'), wallet)
  const early = await claim()
  expect([early.code, early.error.includes('is not frozen')]).toEqual([64, true])
  site.chain.warpTime(EXIT_DELAY_S + 10)
  site.chain.advance(2)
  await freezeVault(chain, program_id, nullifierOfNote(unserved))
  site.chain.advance(10)
}, 120_000)
afterAll(() => site.close())

const stateOf = async (note: WalletNote) => (await readClaim(chain, program_id, nullifierOfNote(note)))?.state
const lamportsOf = async (name: string) => {
  const address = (await site.run('address', '--payer', path(name))).out.trim().split(/ +/)[1]!
  const answer = await chain.rpc.getBalance(address as never, { commitment: 'confirmed' }).send()
  return answer.value as bigint
}

test('every unspent note is claimed, for any content of the wallet file; a spent one is not', async () => {
  await site.fund(
    (await site.run('address', '--payer', path('payer.json'))).out.trim().split(/ +/)[1]!,
    USDC,
    '1',
  )
  const claimed = await claim()
  expect(claimed).toMatchObject({ code: 0, error: '' })
  const lines = claimed.out.split('\n').filter((line) => line.includes(': claimed (window), payable from 20'))
  expect(lines.map((line) => line.slice(0, 64)).sort()).toEqual(
    [unserved, never_landed, untouched, change].map(({ commitment }) => commitment).sort(),
  )
  const kept = loadWallet(path('wallet.json'))!.state.notes
  expect(kept.map(({ amount, state }) => `${amount} ${state}`).sort()).toEqual([
    '1000 spent',
    '1500 free',
    '2000 spent',
    '3000 free',
    '4000 free',
    '5000 free',
  ])
  expect(await stageOf(untouched)).toContain(': claimed (window), payable from 20')
  expect((await exit('status')).out).toMatch(new RegExp(`${untouched.commitment}  claimed \\(window\\)`))
  const spent = await claim('--note', traded.commitment)
  expect([spent.code, spent.out.includes('claimed')]).toEqual([0, false])
}, 180_000)

test('the watcher cancels claims for notes that a trade and an exit spent, from an archive, and leaves the others', async () => {
  await claimFalsely(chain, program_id, wallet, exited)
  await claimFalsely(chain, program_id, wallet, traded)
  site.chain.advance(10)
  const archive = ['--rpc', site.chain.url, '--program', program_id, '--out', path('public')]
  expect(await tacit('archive', ...archive)).toMatchObject({ code: 0, error: '' })
  await site.fund(
    (await site.run('address', '--payer', path('watcher.json'))).out.trim().split(/ +/)[1]!,
    USDC,
    '1',
  )
  const before = await lamportsOf('watcher.json')
  const watch = ['watch-escapes', ...site.where, '--payer', path('watcher.json')]
  const watched = await tacit(...watch, '--archive', path('public'), '--once')
  expect(watched).toMatchObject({ code: 0, error: '' })
  expect(watched.out).toContain('claims       6 open, 2 false')
  expect([await stateOf(exited), await stateOf(traded)]).toEqual(['cancelled', 'cancelled'])
  for (const note of [unserved, never_landed, untouched, change]) expect(await stateOf(note)).toBe('open')
  expect((await lamportsOf('watcher.json')) - before).toBeGreaterThan(2n * BOND_LAMPORTS - 100_000n)
  expect((await tacit(...watch, '--once')).out).toContain('claims       4 open, 0 false')
  const honest = toHex(nullifierOfNote(change))
  const challenge = await exit('challenge', '--nullifier', honest)
  expect([challenge.code, challenge.error.includes('the note is not spent')]).toEqual([1, true])
}, 180_000)

const watch = (rpc: string, ...more: string[]) => {
  const key = more.find((one) => one.endsWith('.json')) ?? 'watcher.json'
  const rest = more.filter((one) => one !== key)
  const args = ['watch-escapes', '--rpc', rpc, '--program', program_id, '--payer', path(key), ...rest]
  return Bun.spawn([process.execPath, TACIT, ...args], { stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' })
}
test('a node that shows claims closed, or of another mint, saves none of them', async () => {
  const [closes, renames] = [
    misstating(site.chain.url, () => ({ state: 'cancelled' })),
    misstating(site.chain.url, () => ({ mint: new Uint8Array(32).fill(7) })),
  ]
  const falsely = async (note: WalletNote) => {
    await claimFalsely(chain, program_id, stranger, note)
    site.chain.advance(10)
    expect(await stateOf(note)).toBe('open')
  }
  await falsely(gone[0]!)
  const thaws = new LyingNode(site.chain.url)
  thaws.lies = {
    getMultipleAccounts: (told) => {
      const answer = told as { value: ({ data: [string, string] } | null)[] }
      for (const account of answer.value) {
        const config = account && decodeConfig(new Uint8Array(Buffer.from(account.data[0], 'base64')))
        const data = config && ACCOUNT_LAYOUTS.config.encode({ ...config, frozen: false })
        if (data) account!.data[0] = Buffer.from(data).toString('base64')
      }
      return answer
    },
  }
  const thawed = await said(watch(`${thaws.url},${site.chain.url}`, '--once'))
  expect(thawed.out).toContain('claims       5 open, 1 false')
  expect(await stateOf(gone[0]!)).toBe('cancelled')
  await thaws.stop()
  await falsely(gone[4]!)
  const seen = await said(watch(`${site.chain.url},${closes.url}`, '--once'))
  expect(seen).toMatchObject({ code: 0, error: '' })
  expect(await stateOf(gone[4]!)).toBe('cancelled')
  await falsely(gone[1]!)
  const nullifier = ['--nullifier', toHex(nullifierOfNote(gone[1]!))]
  const at = ['--rpc', `${closes.url},${site.chain.url}`, '--program', program_id]
  const challenged = await site.run('exit', 'challenge', ...at, ...own(), ...nullifier)
  expect(challenged).toMatchObject({ code: 0, error: '' })
  expect(await stateOf(gone[1]!)).toBe('cancelled')
  expectFailure(await exit('challenge', ...nullifier), 'there is no open claim')
  await falsely(gone[2]!)
  const renamed = await said(watch(`${site.chain.url},${renames.url}`, '--once'))
  expect(renamed.out).toContain('claims       10 open, 2 false')
  expect(await stateOf(gone[2]!)).toBe('cancelled')
  await Promise.all([closes.stop(), renames.stop()])
}, 180_000)
const expectFailure = ({ code, error }: Said, sentence: string) =>
  expect([code, error]).toEqual([1, expect.stringContaining(sentence)])

test('a false claim that stays is a failure, and no outage ends the watcher', async () => {
  await claimFalsely(chain, program_id, stranger, gone[3]!)
  site.chain.advance(10)
  site.payer('poor.json')
  const poor = await said(watch(site.chain.url, 'poor.json', '--once'))
  expectFailure(poor, '1 false claims are not cancelled')
  let down = true
  const proxy = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async (request) =>
      down
        ? new Response('', { status: 403 })
        : fetch(site.chain.url, { method: 'POST', headers: request.headers, body: await request.text() }),
  })
  expect(await said(watch(proxy.url.href, '--once'))).toMatchObject({ code: 3, out: '' })
  const guard = watch(proxy.url.href, '--every', '1')
  await until(guard.stderr, /HTTP 403/)
  down = false
  await until(guard.stdout, /cancelled in/)
  guard.kill()
  await guard.exited
  expect(await stateOf(gone[3]!)).toBe('cancelled')
  await proxy.stop(true)
}, 180_000)

test('a claim is redirected, and paid once its time has come', async () => {
  const other = await openChainAccess(site.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(other.payer.address, USDC, '7')
  const account = ownAccount(other, USDC)
  const nowhere = ['--note', change.commitment, '--destination', encodeBase58(new Uint8Array(32).fill(5))]
  const unusable = await exit('redirect', ...nowhere)
  expect([unusable.code, unusable.error.includes('is not a token account')]).toEqual([64, true])
  const to = ['--note', change.commitment, '--destination', account.text]
  expect(await exit('redirect', ...to)).toMatchObject({ code: 0, error: '' })
  expect(await stageOf(change)).toContain('payable from')
  site.chain.warpTime(2 * EXIT_DELAY_S + 10)
  site.chain.advance(10)
  // Its owner would take less; there is enough.
  expect(await stageOf(change, '--note', change.commitment, '--accept-less')).toContain(
    'claim paid: 1500 of 1500',
  )
  // One that cannot be paid holds up no other.
  const stuck = (await readClaim(chain, program_id, nullifierOfNote(untouched)))!
  const nowhere_else = { program_id, claim: stuck, destination: new Uint8Array(32).fill(5) }
  await redirectClaim(chain, wallet, untouched, nowhere_else)
  const partly = await claim()
  expect([partly.code, partly.error.includes('1 notes did not get further')]).toEqual([1, true])
  expect(partly.out).toContain('destination_unusable')
  expect(await exit('redirect', '--note', untouched.commitment)).toMatchObject({ code: 0, error: '' })
  const paid = await claim()
  expect(paid).toMatchObject({ code: 0, error: '' })
  for (const { commitment, amount } of [unserved, never_landed, untouched])
    expect(paid.out).toContain(`${commitment}  ${amount} of ${USDC}: claim paid: ${amount} of ${amount}`)
  expect(await tokenBalance(chain, account.bytes)).toBe(7n + 1_500n)
  const payer = await openChainAccess(site.chain.url, new Uint8Array(32))
  const address = (await site.run('address', '--payer', path('payer.json'))).out.trim().split(/ +/)[1]!
  const mine = { ...payer, payer: { ...payer.payer, address: address as never } }
  expect(await tokenBalance(chain, ownAccount(mine, USDC).bytes)).toBe(2n + 3_000n + 4_000n + 5_000n)
  expect((await claim()).out).toContain('claim paid: 1500 of 1500')
}, 180_000)

const RACE_GAPS = ['--gap-keys', '2', '--gap-deposits', '10', '--gap-commands', '60']
/** Two copies of one wallet, each with a separate payer. */
const COPIES = ['one', 'two'] as const
const racer = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
const rival = new Wallet(crypto.getRandomValues(new Uint8Array(32)))

let race: CliSite
let raceChain: ChainAccess
let race_id: string
let payers: Uint8Array[]
let raceNotes: WalletNote[]
let raceGone: WalletNote

beforeAll(async () => {
  race = await CliSite.open()
  race_id = race.program_id
  raceChain = await openChainAccess(race.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await race.fund(raceChain.payer.address, USDC, '1')
  const addresses = COPIES.map((name) => race.payer(`${name}.key`))
  for (const address of addresses) await race.fund(address, USDC, '1')
  payers = addresses.map((address) => decodeBase58(address, 32)!)
  raceNotes = await race.deposit(racer, 1_000n, 2_000n, 4_000n)
  ;[raceGone] = (await race.deposit(rival, 10n)) as [WalletNote]
  await race.signer.settle({ nullifiers: [nullifierOfNote(raceGone)] })
  const to = { program_id: race_id, destination: ownAccount(raceChain, USDC).bytes }
  await requestExit(raceChain, racer, raceNotes[0]!, {
    ...to,
    proofs: await readProofs(raceChain, race_id),
  })
  saveWallet(race.path('one.json'), racer)
  copyFileSync(race.path('one.json'), race.path('two.json'))
  race.chain.warpTime(EXIT_DELAY_S + 10)
  race.chain.advance(2)
  await freezeVault(raceChain, race_id, nullifierOfNote(raceNotes[0]!))
  race.chain.advance(10)
}, 180_000)
afterAll(() => race.close())

function start(name: string, command: string, rpc: string, ...args: string[]) {
  const at = ['--rpc', rpc, '--program', race_id]
  const own = ['--wallet', race.path(`${name}.json`), '--payer', race.path(`${name}.key`)]
  return race.start('exit', command, ...at, ...own, ...args)
}
const raceClaim = (name: string, note: WalletNote, rpc = race.chain.url) =>
  start(name, 'claim', rpc, ...RACE_GAPS, '--note', note.commitment)
const redirect = (name: string, note: WalletNote) =>
  start(name, 'redirect', race.chain.url, '--note', note.commitment)
const claimOf = (note: WalletNote) => readClaim(raceChain, race_id, nullifierOfNote(note))
const codes = (ran: readonly Said[]) => ran.map(({ code }) => code).sort()

test('a command that is killed before it knows of its claim goes on from it', async () => {
  const node = new LyingNode(race.chain.url)
  const sent = Promise.withResolvers<void>()
  node.lies = {
    sendTransaction: (signature) => {
      sent.resolve()
      return signature
    },
  }
  const [note] = raceNotes as [WalletNote]
  race.chain.faults.landing_delay_slots = 100
  const killed = raceClaim('one', note, node.url)
  await sent.promise
  killed.kill('SIGKILL')
  await killed.exited
  race.chain.faults.landing_delay_slots = 0
  race.chain.advance(120)
  const landed = (await claimOf(note))!
  expect(landed).toMatchObject({ state: 'open', bond_payer: payers[0] })
  expect(await said(raceClaim('one', note))).toMatchObject({ code: 0, error: '' })
  expect(await claimOf(note)).toEqual(landed)
  await node.stop()
}, 180_000)

test('of two at once one claims, redirects, cancels and collects; the other is refused by name', async () => {
  const [, note] = raceNotes as [WalletNote, WalletNote]
  const twice = (run: (name: string) => ReturnType<typeof raceClaim>) =>
    Promise.all(COPIES.map((name) => said(run(name))))
  const claimed = await twice((name) => raceClaim(name, note))
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

  await claimFalsely(raceChain, race_id, rival, raceGone)
  race.chain.advance(10)
  const watched = await twice((name) =>
    Bun.spawn(
      [
        process.execPath,
        TACIT,
        'watch-escapes',
        ...race.where,
        '--payer',
        race.path(`${name}.key`),
        '--once',
      ],
      { stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' },
    ),
  )
  expect(codes(watched)).toEqual([0, 0])
  expect(watched.filter(({ out }) => out.includes('cancelled in'))).toHaveLength(1)
  expect((await claimOf(raceGone))!.state).toBe('cancelled')
  // Refused by a slot that is not confirmed yet: the node shows the claim open for some reads more.
  let stale_reads = 4
  const lags = misstating(race.chain.url, ({ state }) => ({
    state: stale_reads-- > 0 ? 'open' : state,
  }))
  const args = ['--rpc', lags.url, '--program', race_id, '--payer', race.path('two.key'), '--once']
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

  race.chain.warpTime(2 * EXIT_DELAY_S + 10)
  race.chain.advance(10)
  const { destination } = moved
  const before = await tokenBalance(raceChain, destination)
  const paid = await twice((name) => raceClaim(name, note))
  for (const { code, out } of paid) expect(out).toContain(code === 0 ? 'claim paid: 2000' : 'claim_closed')
  expect(await tokenBalance(raceChain, destination)).toBe(before + 2_000n)
  const late = await said(redirect('one', note))
  expect([late.code, late.error]).toEqual([64, expect.stringContaining('the note has no open claim')])
  expect((await said(raceClaim('two', note))).out).toContain('claim paid: 2000 of 2000')
}, 180_000)

test('a node that shows a claim paid or hides it, or shows one that is not there, keeps no note from its owner', async () => {
  const [open, , never] = raceNotes as [WalletNote, WalletNote, WalletNote]
  const pays = misstating(race.chain.url, ({ amount }) => ({ state: 'paid', paid: amount }))
  expect((await claimOf(open))!.state).toBe('open')
  const collected = await said(raceClaim('one', open, `${pays.url},${race.chain.url}`))
  expect(collected).toMatchObject({ code: 0, error: '' })
  expect((await claimOf(open))!.state).toBe('paid')
  const data = Buffer.from(ACCOUNT_LAYOUTS.escape_claim.encode((await claimOf(open))!)).toString('base64')
  const invents = new LyingNode(race.chain.url)
  invents.lies = {
    getMultipleAccounts: (told) => {
      const answer = told as { value: unknown[] }
      const invented = {
        data: [data, 'base64'],
        owner: race_id,
        executable: false,
        lamports: 1,
        space: 1,
      }
      return answer.value.length === 1 && answer.value[0] === null ? { ...answer, value: [invented] } : answer
    },
  }
  expect(await claimOf(never)).toBeUndefined()
  const claimed = await said(raceClaim('one', never, `${invents.url},${race.chain.url}`))
  expect(claimed).toMatchObject({ code: 0, error: '' })
  expect((await claimOf(never))!.state).toBe('open')
  race.chain.warpTime(2 * EXIT_DELAY_S)
  race.chain.advance(10)
  const hides = new LyingNode(race.chain.url)
  hides.lies = {
    getMultipleAccounts: (told) => {
      const { value, ...answer } = told as { value: ({ space: number } | null)[] }
      const isClaim = (account: (typeof value)[number]) =>
        account?.space === ACCOUNT_LAYOUTS.escape_claim.size
      return { ...answer, value: value.map((account) => (isClaim(account) ? null : account)) }
    },
  }
  const late = await said(raceClaim('one', never, `${race.chain.url},${hides.url}`))
  expect(late).toMatchObject({ code: 0, error: '' })
  expect((await claimOf(never))!.state).toBe('paid')
  await Promise.all([pays.stop(), invents.stop(), hides.stop()])
}, 180_000)
