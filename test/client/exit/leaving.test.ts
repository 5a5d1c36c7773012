/** Leaving as client/README.md says, without a venue, in that order; and with one, where a batch serves the request. */

import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChainAccess, openChainAccess } from '../../../client/chain/chain_access'
import { deposit, mintTo } from '../../../client/chain/deposit'
import { readProofs, requestExit } from '../../../client/chain/exit_note'
import { readVaultHistory } from '../../../client/chain/read_history'
import { ownAccount, readExitRequest, tokenBalance } from '../../../client/chain/read_vault'
import { TransactionFailed } from '../../../client/chain/send_instructions'
import { VERBS } from '../../../client/cli/verbs'
import { markSpent, nullifierOfNote } from '../../../client/wallet/absorb'
import { recoverWallet } from '../../../client/wallet/recover'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { decodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { deriveAnchor, deriveOrderId } from '../../../protocol/notes/derive'
import { encodeMemo, noteInner, outputBlinding, settlementCommitment } from '../../../protocol/notes/notes'
import { USDC } from '../../../sandbox/environment'
import { run as runProgram, type Said } from '../../kit/said'
import { EmbeddedSite } from '../../kit/venue/embedded_site'
import { bytes } from '../../kit/venue/memory_chain'
import { CliSite, EXIT_DELAY_S } from '../cli_site'
import { claimFalsely } from '../lying_node'
import { WalletTrader } from '../wallet_trader'

const ROOT = join(import.meta.dir, '../../..')
const wallet = new Wallet(crypto.getRandomValues(new Uint8Array(32)))
let site: CliSite
let program_id: string
let stranger: ChainAccess
/** Paid by an exit, traded, asked to leave in vain, only claimed. */
let paid: WalletNote
let traded: WalletNote
let unserved: WalletNote
let claimed: WalletNote

beforeAll(async () => {
  site = await CliSite.open()
  program_id = site.program_id
  writeFileSync(site.path('seed'), toHex(wallet.seed), { mode: 0o600 })
  await site.fund(site.payer('key.json'), USDC, '1')
  stranger = await openChainAccess(site.chain.url, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(stranger.payer.address, USDC, '1')
  const notes = await site.deposit(wallet, 1_000n, 2_000n, 3_000n, 4_000n)
  ;[paid, traded, unserved, claimed] = notes as [WalletNote, WalletNote, WalletNote, WalletNote]
}, 180_000)
afterAll(() => site.close())

const commands = (() => {
  const text = readFileSync(join(ROOT, 'client/README.md'), 'utf8')
  const [, section = ''] = text.split('## Leaving without the venue')
  return section
    .split('\n## ')[0]!
    .split('\n')
    .filter((line) => line.startsWith('    bun run '))
    .map((line) => line.trim().split(/ +/).slice(2))
})()

const request = async (note: WalletNote): Promise<void> => {
  const to = { program_id, destination: ownAccount(stranger, USDC).bytes }
  await requestExit(stranger, wallet, note, { ...to, proofs: await readProofs(stranger, program_id) })
}

/** A batch that spends a note for proceeds of the wallet's first command, as a trade does. */
async function trade(note: WalletNote): Promise<void> {
  const parts = { anchor: deriveAnchor(wallet.seed, 0, 0), order_id: deriveOrderId(wallet.seed, 0, 0) }
  const blinding = outputBlinding({ ...parts, nonce: 1n, generation: 0, index_role: 0 })
  const inner = noteInner(wallet.tradingKey(0), blinding)
  const commitment = settlementCommitment({ mint: decodeBase58(USDC, 32)!, amount: 2_000n, inner })
  const outputs = [{ commitment, memo: encodeMemo(blinding, 2_000n) }]
  await site.signer.settle({ nullifiers: [nullifierOfNote(note)], outputs })
}

/** An event before a command; the note that it is about. */
type Scene = { note?: () => WalletNote; before?: () => Promise<void>; expected: string }
const SCENES: Record<string, Scene[]> = {
  'tacit wallet recover': [{ expected: '10000' }],
  'tacit exit request': [{ note: () => paid, expected: 'deadline' }],
  'tacit exit status': [{ expected: 'requested, deadline' }],
  'tacit exit pay': [
    {
      note: () => paid,
      async before() {
        const nullifier = nullifierOfNote(paid)
        const { mint, amount, destination, refund_inner } = (await readExitRequest(
          stranger,
          program_id,
          nullifier,
        ))!
        const payouts = [{ mint, amount, destination, inner: refund_inner, nullifier }]
        await site.signer.settle({ nullifiers: [nullifier], payouts })
      },
      expected: 'payout 1',
    },
  ],
  'tacit exit close': [{ note: () => paid, expected: 'bond are back' }],
  'tacit exit refuse': [
    {
      note: () => traded,
      async before() {
        await request(traded)
        await trade(traded)
      },
      expected: "the bond is the payer's",
    },
  ],
  'tacit archive': [{ expected: 'both roots are those of the vault' }],
  'tacit wallet sync': [{ expected: 'blocks of archive' }],
  'tacit exit freeze': [
    {
      note: () => unserved,
      async before() {
        await request(unserved)
        site.chain.warpTime(EXIT_DELAY_S + 10)
        site.chain.advance(2)
      },
      expected: 'frozen',
    },
  ],
  'tacit exit claim': [
    { expected: 'claimed (window)' },
    {
      async before() {
        site.chain.warpTime(2 * EXIT_DELAY_S + 10)
        site.chain.advance(10)
      },
      expected: 'claim paid: 4000 of 4000',
    },
  ],
  'tacit exit redirect': [{ note: () => claimed, expected: 'redirected' }],
  'tacit exit challenge': [
    {
      note: () => traded,
      before: () => claimFalsely(stranger, program_id, wallet, traded),
      expected: "the bond is the payer's",
    },
  ],
  'tacit watch-escapes': [
    { before: () => claimFalsely(stranger, program_id, wallet, paid), expected: '1 false' },
  ],
}

function run(words: readonly string[], note: WalletNote | undefined): Promise<Said> {
  const named: Record<string, string> = {
    URL: site.chain.url,
    ID: program_id,
    COMMITMENT: note?.commitment ?? '',
    NULLIFIER: note === undefined ? '' : toHex(nullifierOfNote(note)),
    ACCOUNT: ownAccount(stranger, USDC).text,
  }
  const [program, ...args] = words.map((word) => named[word] ?? word)
  const file = join(ROOT, 'client/cli', `${program}.ts`)
  const command = [process.execPath, file, ...args]
  return runProgram(command, { cwd: site.folder.dir })
}

test('all of them, to the last payment', async () => {
  const scenes = structuredCloneOf(SCENES)
  let rehearsals = 0
  for (const words of commands) {
    const name = words
      .slice(
        0,
        words.findIndex((word) => word.startsWith('--')),
      )
      .join(' ')
    const scene = scenes[name]?.shift()
    if (scene === undefined) throw new Error(`the document names '${name}', which this test does not know`)
    await scene.before?.()
    site.chain.advance(10)
    if (VERBS[name.replace('tacit ', '')]!.form.includes('[--dry-run]')) {
      const kept = readFileSync(site.path('wallet.json'))
      const rehearsed = await run([...words, '--dry-run'], scene.note?.())
      expect({ name, ...rehearsed }).toMatchObject({ name, code: 0, error: '' })
      expect(rehearsed.out).toContain('the vault accepts it; nothing was sent')
      expect(readFileSync(site.path('wallet.json'))).toEqual(kept)
      rehearsals += 1
    }
    const { code, out, error } = await run(words, scene.note?.())
    expect({ name, code, error }).toEqual({ name, code: 0, error: '' })
    expect(out).toContain(scene.expected)
  }
  expect(Object.values(scenes).flat()).toEqual([])
  // `exit` request, pay, close, refuse, freeze, claim twice, redirect and challenge: each still succeeds after its dry run.
  expect(rehearsals).toBe(9)
  // Redirected to the stranger, whose account also had 1.
  expect(await tokenBalance(stranger, ownAccount(stranger, USDC).bytes)).toBe(1n + 4_000n)
}, 180_000)

/** A copy whose lists may be emptied. */
const structuredCloneOf = (scenes: Record<string, Scene[]>): Record<string, Scene[]> =>
  Object.fromEntries(Object.entries(scenes).map(([name, list]) => [name, [...list]]))

const LIMITS = { keys: 1, deposits: 10, commands: 10 }
const servedSite = new EmbeddedSite()
let trader: WalletTrader
let servedPaid: WalletNote
let unpayable: WalletNote

beforeAll(async () => {
  await servedSite.openChain()
  await servedSite.openVenue()
  trader = await WalletTrader.open(servedSite, 'ada')
  const notes = await trader.deposit(USDC, 0, 150_000_000n, 7_000_000n)
  ;[servedPaid, unpayable] = notes as [WalletNote, WalletNote]
}, 120_000)
afterAll(() => servedSite.remove())

/** Requests, and resolves once the payout has left the queue and the venue has returned the bond. */
async function left(note: WalletNote, destination: Uint8Array): Promise<void> {
  const { chain, wallet, program_id } = trader
  for (let is_sent = false; !is_sent; ) {
    const proofs = await readProofs(chain, program_id)
    try {
      await requestExit(chain, wallet, note, { program_id, destination, proofs })
      is_sent = true
    } catch (error) {
      // A batch landed between both: the message says to run it again.
      if (!(error instanceof TransactionFailed && error.facts['refusal'] === 'unknown_state')) throw error
    }
  }
  const nullifier = nullifierOfNote(note)
  const stage = async () =>
    (await readVaultHistory(chain, program_id)).exits.get(toHex(nullifier))?.stage ?? ''
  while (!['paid', 'refunded'].includes(await stage())) await Bun.sleep(20)
  while ((await readExitRequest(chain, program_id, nullifier)) !== undefined) await Bun.sleep(20)
}

test('a note that backs a live order leaves: the order is cancelled, the whole note is paid', async () => {
  const { chain, wallet } = trader
  const placed = await trader.place(servedPaid, {
    side: 'buy',
    amount: 1_000_000_000n,
    price_limit: 90_000_000n,
  })
  if (!('order_id' in placed)) throw new Error(placed.code)
  const account = ownAccount(chain, USDC).bytes
  const before = await tokenBalance(chain, account)
  await left(servedPaid, account)
  expect((await tokenBalance(chain, account)) - before).toBe(150_000_000n)
  await trader.sync()
  const order = await servedSite.venue.order('ada', placed.order_id)
  expect(order).toMatchObject({ status: 'cancelled', reason: 'note_exited' })
  expect(wallet.order(placed.order_id)?.open).toBe(false)
  expect(servedPaid.state).toBe('pending')
}, 120_000)

test('an exit to nowhere comes back as a note that recovery finds', async () => {
  const { chain, wallet, program_id } = trader
  await left(unpayable, bytes(32))
  await trader.sync()
  servedSite.chain.advance(10)
  const { history, vault } = await readProofs(chain, program_id)
  // Two deposits sent at once land in either order.
  const byLeaf = [servedPaid, unpayable].sort((a, b) => a.leaf_index! - b.leaf_index!)
  const marked = markSpent(wallet, history).sort((a, b) => a.leaf_index! - b.leaf_index!)
  expect(marked).toEqual(byLeaf)
  expect(markSpent(wallet, history)).toEqual([])
  const recovered = recoverWallet(wallet.seed, history, vault.config.generation, LIMITS)
  const [refund] = recovered.freeNotes(USDC)
  expect(refund).toMatchObject({ amount: '7000000', origin: 'refund', key_index: 0 })
  expect(recovered.balance(USDC)).toBe(7_000_000n)
  expect(recovered.counters(0).deposits).toBe(wallet.counters(0).deposits)
  expect(servedSite.fatal).toEqual([])
}, 120_000)

test('a deposit of a second copy of the seed takes the blinding of a refund: both notes are there, and both leave', async () => {
  const { chain, wallet, program_id } = trader
  const [leaving] = await trader.deposit(USDC, 0, 9_000_000n)
  const copy = new Wallet(wallet.seed, structuredClone(wallet.state))
  const account = ownAccount(chain, USDC).bytes
  const before = await tokenBalance(chain, account)
  await mintTo(chain, USDC, 4_000_000n)
  while ((await tokenBalance(chain, account)) < before + 4_000_000n) await Bun.sleep(5)
  const [{ note }] = await Promise.all([
    deposit(chain, copy, { program_id, mint: USDC, amount: 4_000_000n, key_index: 0 }),
    left(leaving!, bytes(32)),
  ])
  expect(copy.counters(0)).toEqual(wallet.counters(0))
  servedSite.chain.advance(10)
  const { history, vault } = await readProofs(chain, program_id)
  const recovered = recoverWallet(wallet.seed, history, vault.config.generation, LIMITS)
  const alike = recovered.state.notes.filter(({ blinding }) => blinding === note.blinding)
  expect(alike.map(({ amount, origin, state }) => `${amount} ${origin} ${state}`).sort()).toEqual([
    '4000000 deposit free',
    '9000000 refund free',
  ])
  for (const one of alike) await left(one, account)
  expect(await tokenBalance(chain, account)).toBe(before + 4_000_000n + 9_000_000n)
  expect(servedSite.fatal).toEqual([])
}, 120_000)
