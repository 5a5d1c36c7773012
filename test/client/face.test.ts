/**
 * The face of the client: README's block runs as printed against a real venue, and a bundle contains only the names it uses.
 */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as on_chain from '../../client/chain/index'
import * as tacit from '../../client/index'
import { CHECKS_OF_LEADER } from '../../client/verify/transcript'
import { USDC } from '../../sandbox/environment'
import { VenueProcess } from '../faults/kit/venue_process'
import { run } from '../kit/said'
import { answerCollateral, openSite } from '../kit/verify/site'

const ROOT = join(import.meta.dir, '../..')
const venue = new VenueProcess()
const folder = mkdtempSync(join(tmpdir(), 'tacit-face-'))
const wallet_path = join(folder, 'wallet.json')
let collateral_service: ReturnType<typeof Bun.serve>
let credentials: tacit.Login
let verified: tacit.VerifiedVenue
let client: tacit.VenueClient

beforeAll(async () => {
  const facts = await venue.start()
  const collateral = JSON.parse(readFileSync(facts.collateral, 'utf8')) as tacit.Collateral
  collateral_service = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: ({ url }) =>
      answerCollateral(collateral, new URL(url).pathname) ?? new Response('', { status: 404 }),
  })
  const collateral_url = `http://127.0.0.1:${collateral_service.port}`
  const policy = { ...JSON.parse(readFileSync(facts.policy, 'utf8')), collateral_url }
  writeFileSync(join(folder, 'policy.json'), JSON.stringify(policy))
  for (const part of ['client', 'protocol', 'native', 'node_modules'])
    symlinkSync(join(ROOT, part), join(folder, part))
  symlinkSync(venue.data_dir, join(folder, 'data'))
  credentials = JSON.parse(readFileSync(join(venue.data_dir, 'demo-login.json'), 'utf8')).login
  verified = await tacit.connect(facts.url, tacit.parsePolicy(JSON.stringify(policy)))
  client = new tacit.VenueClient(verified, credentials)
  tacit.saveWallet(wallet_path, await fundedWallet(facts, [500_000_000n, 500_000_000n]))
}, 180_000)
afterAll(async () => {
  await collateral_service.stop(true)
  await venue.remove()
  rmSync(folder, { recursive: true, force: true })
})

/** A wallet with one note of each amount that the venue accepts as collateral. */
async function fundedWallet(facts: VenueProcess['facts'], amounts: bigint[]): Promise<tacit.Wallet> {
  const random = () => crypto.getRandomValues(new Uint8Array(32))
  const [wallet, chain] = [
    new tacit.Wallet(random()),
    await on_chain.openChainAccess(facts.rpc_url, random()),
  ]
  const total = amounts.reduce((sum, amount) => sum + amount)
  await on_chain.airdrop(chain, 5_000_000_000n)
  await on_chain.mintTo(chain, USDC, total)
  const { bytes } = on_chain.ownAccount(chain, USDC)
  while ((await on_chain.tokenBalance(chain, bytes)) < total) await Bun.sleep(20)
  const terms = { program_id: facts.program_id, mint: USDC, key_index: 0 }
  for (const amount of amounts) {
    const { commitment } = (await on_chain.deposit(chain, wallet, { ...terms, amount })).note
    while ((await client.inclusion({ commitment }).catch(() => undefined))?.usable !== true)
      await Bun.sleep(20)
  }
  return wallet
}

/** The TypeScript block that follows a sentence of README.md, unchanged. */
function readmeBlock(sentence: string): string {
  const after = readFileSync(join(ROOT, 'README.md'), 'utf8').split(sentence)[1] ?? ''
  const [, block] = /^[^\n]*\n\n```ts\n(.*?)\n```/s.exec(after) ?? []
  if (block === undefined) throw new Error('README.md has no such block')
  return block
}

/** Runs in the folder that holds `client/`, `policy.json` and `wallet.json`. @returns the last line that was printed */
async function runInFolder(command: string[]): Promise<string> {
  const { code, out, error } = await run(command, { cwd: folder })
  if (code !== 0) throw new Error(out + error)
  return out.trim().split('\n').at(-1)!
}

test("README's block compiles and runs as printed", async () => {
  const program = `
${readmeBlock('In code, verification comes before the transport')}
while (wallet.state.seq === 0) await Bun.sleep(10)
stream.close()
const { order_id, collateral_commitment } = request
const state = wallet.note(collateral_commitment)?.state
console.log(JSON.stringify({ order_id, epoch: receipt.epoch, seq: wallet.state.seq, state }))
process.exit(0)
`
  writeFileSync(join(folder, 'snippet.ts'), program)
  const project = { extends: join(ROOT, 'tsconfig.json'), include: ['snippet.ts'] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(project))
  await runInFolder([process.execPath, 'node_modules/typescript/bin/tsc', '-p', '.'])
  const printed = JSON.parse(await runInFolder([process.execPath, 'snippet.ts']))
  expect(printed).toMatchObject({ epoch: verified.info.epoch, state: 'pending' })
  expect(await client.order(printed.order_id)).toMatchObject({ status: 'accepted', side: 'buy' })
  expect(printed.seq).toBeGreaterThan(0)
  // The file was saved before the order left, so its counters and its pending note are those of the order.
  expect(tacit.loadWallet(wallet_path)?.order(printed.order_id)?.open).toBe(true)
}, 120_000)

test('a modify replaces the order on its note, and a rejected one leaves both as they were', async () => {
  const wallet = tacit.loadWallet(wallet_path)!
  const identity = tacit.identityOf(verified)
  const [instrument, { slot }] = await Promise.all([client.instrument('SOL-USDC'), client.time()])
  const terms = { instrument, side: 'buy', amount: 1_000_000_000n, price_limit: 140_000_000n } as const
  const life = { expiry_slot: slot + 3_000 }
  const uncovered = wallet.noteFor(USDC, 10n ** 12n)
  expect(() => tacit.preparePlace(wallet, identity.venue, { ...terms, ...life }, uncovered)).toThrow(
    new RangeError('no free note covers the order'),
  )
  const note = wallet.noteFor(USDC, 1n)!
  const request = tacit.preparePlace(wallet, identity.venue, { ...terms, ...life }, note)
  const placed = await client.place(request)

  const late = tacit.prepareModify(wallet, identity.venue, request.order_id, { ...terms, expiry_slot: 1 })
  const refused = await client.modify(request.order_id, late).catch((error: unknown) => error)
  expect(refused).toMatchObject({ name: 'VenueProblem', applied: 'no' })
  tacit.dropRefused(wallet, late.replacement.order_id)
  expect(note.state).toBe('pending')
  expect(wallet.order(request.order_id)?.open).toBe(true)

  const cheaper = { ...terms, ...life, price_limit: 139_000_000n }
  const modify = tacit.prepareModify(wallet, identity.venue, request.order_id, cheaper)
  const { receipt, order_id } = await client.modify(request.order_id, modify)
  const sent = { kind: 'modify', order_id: request.order_id, request: modify } as const
  const bytes = tacit.commandBytes(identity.venue, sent)
  await tacit.verifyReceipt(receipt, identity, bytes, placed.receipt.seq)
  for (const event of (await client.events()).items)
    tacit.absorbEvent(wallet, verified.info.generation, event)
  expect(note.state).toBe('pending')
  expect(wallet.order(request.order_id)?.open).toBe(false)

  await client.cancel(order_id, tacit.prepareCancel(wallet, identity.venue, order_id, note.key_index))
  const { items } = await client.events({ after: wallet.state.seq })
  for (const event of items) tacit.absorbEvent(wallet, verified.info.generation, event)
  expect(note.state).toBe('free')
  expect(() => tacit.prepareModify(wallet, identity.venue, order_id, cheaper)).toThrow(RangeError)
})

/** The exports for a program without a file system and without Bun. */
const PORTABLE = `VenueClient, followEvents, judgeEvidence, parsePolicy, collectEvidence, identityOf, verifyReceipt,
  Wallet, preparePlace, commandBytes, absorbEvent, recoverWallet, auditChain`
const ON_CHAIN =
  'readVaultHistory, openChainAccess, deposit, readProofs, requestExit, claimNote, readOpenClaims'

async function bundle(names: string, target: 'browser' | 'node', on_chain = ''): Promise<string> {
  const entry = join(folder, `${target}.ts`)
  const also = on_chain === '' ? '' : `\nexport { ${on_chain} } from './client/chain'`
  writeFileSync(entry, `export { ${names} } from './client'${also}`)
  const built = await Bun.build({ entrypoints: [entry], target, format: 'esm', external: ['undici'] })
  return built.outputs[0]!.text()
}

test('a browser bundle without `connect` and files takes nothing from Bun or Node', async () => {
  // The only use of Bun is its hash, where it exists (protocol/sha256.ts).
  const code = (await bundle(PORTABLE, 'browser', ON_CHAIN)).replace('globalThis.Bun?.SHA256', '')
  expect(code).not.toMatch(/["']node:|["']bun:|\bBun\b|\bBuffer\b|\bprocess\./)
})

test('the face brings no code of the chain, which is an entry apart', async () => {
  // Instruction names of Solana's packages, and the calls of a node.
  const of_chain = /sendTransaction|getSignaturesForAddress|createSolanaRpc/
  expect(await bundle(Object.keys(tacit).join(', '), 'node')).not.toMatch(of_chain)
  expect(await bundle('Wallet', 'node', ON_CHAIN)).toMatch(of_chain)
})

test('every error of the faces is the one class, with its own code', () => {
  const named = { ...tacit, ...on_chain }
  const errors = Object.values(named).filter(
    (one): one is typeof tacit.TacitError => typeof one === 'function' && one.prototype instanceof Error,
  )
  expect(
    errors.filter((one) => one !== tacit.TacitError && !(one.prototype instanceof tacit.TacitError)),
  ).toEqual([])
  const made = [
    ...[
      new tacit.NoNote(USDC, 7n),
      new tacit.EventsMissing(2, 3),
      new tacit.InexactValue('x'),
      new tacit.WrongAccount(),
    ],
    ...[new tacit.OtherVenue(), new tacit.SessionEnded(1), new tacit.InUse('w'), new tacit.NotSeedWords()],
    ...[new tacit.NotAWallet('w', 'x'), new tacit.WalletChanged('w'), new tacit.WalletLocked('w', 'x')],
    ...[
      new tacit.NotWritten('w', new Error()),
      new tacit.WalletMismatch('x'),
      new tacit.ArchiveRejected('x'),
    ],
    ...[new tacit.HistoryIncomplete('x'), new tacit.ProofUnavailable('spent'), new tacit.Refused('x')],
    ...[new tacit.ReceiptRefused('x'), new tacit.StatisticsRefused('x'), new tacit.EvidenceUnavailable('x')],
    ...[new tacit.RecoveryIncomplete(new tacit.Wallet(new Uint8Array(32)), []), new tacit.WalletOutdated(1)],
    new tacit.WalletOfOtherVault({ genesis_hash: 'g', program_id: 'p' }),
    ...[
      new on_chain.NodesDisagree('x'),
      new on_chain.NotAVault('x'),
      new on_chain.TransactionFailed('x'),
      new on_chain.NotSent('x', 1n),
    ],
  ]
  // Those of a venue's answer have the venue's code.
  const bare = ['TacitError', 'MustStop', 'VenueProblem', 'VerificationFailed']
  expect(made.map(({ name }) => name).sort()).toEqual(
    errors
      .map(({ name }) => name)
      .filter((name) => !bare.includes(name))
      .sort(),
  )
  expect(new Set(made.map(({ code }) => code)).size).toBe(made.length)
  expect(made[0]).toMatchObject({ code: 'no_note', facts: { mint: USDC, needed: 7n } })
})

const node = Bun.which('node')
if (node === null) console.log('skipped: there is no Node on this machine')

test.skipIf(node === null)(
  'Node verifies the venue, pins the key, and trades in a session',
  async () => {
    const names = 'Session, connect, loadWallet, parsePolicy'
    writeFileSync(join(folder, 'face.mjs'), await bundle(names, 'node'))
    const given = { url: venue.facts.url, account_id: credentials.account_id, login: credentials }
    const program = `
      import { readFileSync } from 'node:fs'
      import * as tacit from './face.mjs'
      const [policy, wallet] = [readFileSync('policy.json', 'utf8'), 'wallet.json']
      const session = await tacit.Session.open({ ...${JSON.stringify(given)}, policy, wallet })
      const placed = await session.place({ symbol: 'SOL-USDC', side: 'buy', amount: '1', price: '138' })
      const cancelled = await session.cancel(placed.id)
      await session.until(({ state }) => state.orders.some((one) => one.order_id === placed.id && !one.open) || undefined)
      const { orders } = session.wallet.state
      session.close()
      console.log(JSON.stringify({ placed, cancelled, open: orders.filter((one) => one.open).length }))
      process.exit(0)`
    writeFileSync(join(folder, 'run.mjs'), program)
    const told = JSON.parse(await runInFolder([node!, 'run.mjs']))
    const { placed, cancelled } = told
    expect([placed.status, cancelled.status]).toEqual(['accepted', 'accepted'])
    expect(placed.receipt.epoch).toBe(verified.info.epoch)
    expect(await client.order(placed.id)).toMatchObject({ status: 'cancelled', reason: 'by_owner' })
  },
  120_000,
)

test('the package names the face and the verifier', async () => {
  const by_name = (name: string) => import(Bun.resolveSync(name, ROOT)) as Promise<Record<string, unknown>>
  expect((await by_name('tacit'))['connect']).toBe(tacit.connect)
  expect((await by_name('tacit/verify'))['judgeEvidence']).toBe(tacit.judgeEvidence)
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  expect((await by_name('tacit/chain'))['deposit']).toBe(on_chain.deposit)
  expect(Object.keys(exports)).toEqual(['.', './verify', './chain'])
})

const ENTRY = join(import.meta.dir, '../../client/verify/index.ts')

async function bundledVerifier(minify = false): Promise<string> {
  const built = await Bun.build({ entrypoints: [ENTRY], target: 'browser', format: 'esm', minify })
  return built.outputs[0]!.text()
}

test('the bundle for a browser takes nothing from Bun or Node', async () => {
  const code = await bundledVerifier()
  expect(code).not.toMatch(/node:|\bBun\.|\bBuffer\b|process\./)
})

test('the verifier alone is at most 60 KB, minified and compressed', async () => {
  const bytes = Bun.gzipSync(Buffer.from(await bundledVerifier(true)), { level: 9 }).length
  expect(bytes).toBeLessThanOrEqual(60 * 1_024)
})

test.skipIf(node === null)('Node judges the same evidence as Bun does', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tacit-portable-'))
  const site = await openSite()
  try {
    const { evidence, transcript } = await site.connect()
    const path = join(folder, 'run.mjs')
    writeFileSync(join(folder, 'verifier.mjs'), await bundledVerifier())
    writeFileSync(
      path,
      `import { judgeEvidence, parsePolicy } from './verifier.mjs'
       globalThis.crypto ??= (await import('node:crypto')).webcrypto
       console.log(JSON.stringify(await judgeEvidence(${JSON.stringify(evidence)}, parsePolicy(${JSON.stringify(JSON.stringify(site.policy))}), 'live')))`,
    )
    const child = Bun.spawn([node!, path], { stdout: 'pipe', stderr: 'inherit' })
    const judged = JSON.parse(await new Response(child.stdout).text())
    expect(judged).toEqual(JSON.parse(JSON.stringify(transcript)))
    expect(judged.checks.length).toBe(CHECKS_OF_LEADER.length)
  } finally {
    await site.close()
    rmSync(folder, { recursive: true, force: true })
  }
})
