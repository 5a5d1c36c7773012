/** Every command of client/README.md "Leaving without the venue" runs as written there, in that order, without a venue. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type ChainAccess, openChainAccess } from '../../../client/chain/chain_access'
import { readProofs, requestExit } from '../../../client/chain/exit_note'
import { readExitRequest } from '../../../client/chain/read_vault'
import { ownAccount, tokenBalance } from '../../../client/chain/token_account'
import { VERBS } from '../../../client/cli/verbs'
import { nullifierOfNote } from '../../../client/exit/prepare_exit'
import { Wallet, type WalletNote } from '../../../client/wallet/wallet'
import { decodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { deriveAnchor, deriveOrderId } from '../../../protocol/notes/derive'
import { encodeMemo, noteInner, outputBlinding, settlementCommitment } from '../../../protocol/notes/notes'
import { USDC } from '../../../sandbox/environment'
import { CliSite, EXIT_DELAY_S, type Said, said } from '../cli_site'
import { claimFalsely } from './false_claim'

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

/** What happens before a command; the note that it is about. */
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

async function run(words: readonly string[], note: WalletNote | undefined): Promise<Said> {
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
  return said(Bun.spawn(command, { cwd: site.folder.dir, stdout: 'pipe', stderr: 'pipe', stdin: 'ignore' }))
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
