/**
 * A wallet derives everything from one seed, prepares requests that the venue accepts, and keeps receipts, sealed, next to it.
 */

import { afterAll, afterEach, expect, test } from 'bun:test'
import {
  appendFileSync,
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RECEIPTS_KEPT_MAX } from '../../../client/limits'
import { PROOF_FORMAT } from '../../../client/verify/verify_receipt'
import { alignCounters, WalletMismatch } from '../../../client/wallet/absorb'
import {
  dropRefused,
  dropRefusedPayment,
  prepareCancel,
  prepareCancelAll,
  prepareDeadMan,
  prepareModify,
  preparePlace,
  prepareReshape,
  prepareWithdrawal,
} from '../../../client/wallet/prepare'
import { type KeptReceipt, ReceiptFile } from '../../../client/wallet/receipt_file'
import { seedSigner, Wallet } from '../../../client/wallet/wallet'
import { loadWallet, saveWallet } from '../../../client/wallet/wallet_file'
import { encodeBase58 } from '../../../protocol/base58'
import { STATEMENT_BODY } from '../../../protocol/bodies/statements'
import { fromHex, toHex } from '../../../protocol/bytes'
import { deriveAnchor, deriveOrderId, deriveTradingKey } from '../../../protocol/notes/derive'
import type { Refusal } from '../../../protocol/refusals'
import { publicKeyOf } from '../../../protocol/sign'
import { fillUp, isMountable, withSmallVolume } from '../../kit/small_volume'
import { bytes } from '../../kit/venue/memory_chain'
import { TestSite } from '../../kit/venue/open_test_venue'
import { depositNote, MemoryTrader, ONE, twoTraders } from '../wallet_trader'

const site = new TestSite()
afterEach(() => site.remove())

test('one seed always gives the same keys, another seed others', () => {
  const seed = bytes(32)
  const [wallet, same, other] = [new Wallet(seed), new Wallet(seed.slice()), new Wallet(bytes(32))]
  expect(wallet.tradingKeyText(3)).toBe(same.tradingKeyText(3))
  expect(toHex(wallet.tradingKey(3))).toBe(toHex(publicKeyOf(deriveTradingKey(seed, 3))))
  expect(wallet.tradingKeyText(3)).not.toBe(wallet.tradingKeyText(4))
  expect(wallet.tradingKeyText(3)).not.toBe(other.tradingKeyText(3))
  expect(() => new Wallet(bytes(31))).toThrow(RangeError)
})

test('a note is found by its commitment after any change of the list of notes', async () => {
  const open = await site.open()
  const wallet = new Wallet(bytes(32))
  const deposit = () => depositNote(open.ledger, wallet, { side: 'base', amount: ONE, key_index: 0 })
  const [first, second] = [deposit(), deposit()]
  expect([wallet.note(first.commitment), wallet.note(second.commitment)]).toEqual([first, second])
  wallet.state.notes = [second]
  expect([wallet.note(first.commitment), wallet.note(second.commitment)]).toEqual([undefined, second])
  wallet.state.notes.push(first)
  expect(wallet.note(first.commitment)).toBe(first)
  wallet.state.notes.length = 1
  expect(wallet.note(first.commitment)).toBeUndefined()
})

test('trading keys that a device holds sign for the venue, and the seed alone signs nothing it takes', async () => {
  const open = await site.open()
  const { venue_id, expiry_slot } = await MemoryTrader.provisioned(open, 'ada')
  const [seed, device] = [bytes(32), seedSigner(bytes(32))]
  const wallet = new Wallet(seed, undefined, device)
  const note = depositNote(open.ledger, wallet, { side: 'base', amount: ONE, key_index: 0 })
  await open.chain.finalizeLeaves()
  const terms = { instrument: open.venue.instrument('SOL-USDC'), side: 'sell', amount: ONE } as const
  const priced = { ...terms, price_limit: 100_000_000n, expiry_slot }
  const request = preparePlace(wallet, venue_id, priced, note)
  expect(request.trading_key).toBe(encodeBase58(device.publicKey(0)))
  const forged = preparePlace(new Wallet(seed), venue_id, priced, { ...note, state: 'free' })
  const stolen = { ...forged, trading_key: request.trading_key }
  expect(await open.venue.place('ada', stolen).catch((error: Refusal) => error.code)).toBe(
    'signature_invalid',
  )
  expect(await open.venue.place('ada', request)).toMatchObject({ order_id: request.order_id })
})

test('the venue takes every kind of request, and each takes the next nonce, order id and anchors of its key', async () => {
  const open = await site.open()
  const trader = await MemoryTrader.provisioned(open, 'ada')
  const notes = [1n, 2n, 3n, 4n].map((tokens) => trader.deposit('base', tokens * ONE))
  await open.chain.finalizeLeaves()
  const { wallet, venue_id: venue, expiry_slot } = trader
  const place = trader.prepare(notes[0]!)
  expect(place).toMatchObject({
    order_id: toHex(deriveOrderId(wallet.seed, 0, 0)),
    nonce: '1',
    continuation_anchors: [0, 1, 2, 3].map((x) => toHex(deriveAnchor(wallet.seed, 0, x))),
  })
  await open.venue.place('ada', place)
  const second = trader.prepare(notes[1]!)
  expect(second.continuation_anchors[0]).toBe(toHex(deriveAnchor(wallet.seed, 0, 16)))
  const { cancel_nonce, signature } = prepareCancel(wallet, venue, place.order_id, 0)
  await open.venue.modify('ada', place.order_id, {
    cancel_nonce,
    cancel_signature: signature,
    replacement: second,
  })
  await open.venue.cancel('ada', second.order_id, prepareCancel(wallet, venue, second.order_id, 0))
  await open.venue.cancelAll('ada', [
    prepareCancelAll(wallet, venue, 0),
    prepareCancelAll(wallet, venue, 0, 'SOL-USDC'),
  ])
  await open.venue.deadMan('ada', prepareDeadMan(wallet, venue, 0, 50))
  const destination = encodeBase58(bytes(32))
  const withdrawal = prepareWithdrawal(wallet, venue, notes[2]!, { destination, amount: ONE, expiry_slot })
  expect(withdrawal.nonce).toBe('3')
  expect(withdrawal.change_anchor).toBe(toHex(deriveAnchor(wallet.seed, 0, 32)))
  await open.venue.withdraw('ada', withdrawal)
  await trader.sync()
  const merge = prepareReshape(wallet, venue, [notes[3]!, notes[1]!], { amounts: [6n * ONE], expiry_slot })
  await open.venue.reshape('ada', merge)
  expect(await open.venue.nonces('ada', wallet.tradingKeyText(0))).toEqual({
    place_nonce: '4',
    cancel_nonce: '5',
  })
})

test('a note prepared for one command backs no other until it is given back', async () => {
  const open = await site.open()
  const trader = await MemoryTrader.provisioned(open, 'ada')
  const note = trader.deposit('base', ONE)
  const { wallet, venue_id: venue, expiry_slot } = trader
  const request = trader.prepare(note)
  expect(wallet.noteFor(note.mint, 1n)).toBeUndefined()
  expect(wallet.balance(note.mint)).toBe(ONE)
  dropRefused(wallet, request.order_id)
  expect(wallet.noteFor(note.mint, ONE)).toBe(note)
  const to = { destination: encodeBase58(bytes(32)), amount: 1n, expiry_slot }
  const withdrawal = prepareWithdrawal(wallet, venue, note, to)
  expect(note.state).toBe('pending')
  dropRefusedPayment(wallet, withdrawal)
  expect([note.state, wallet.state.payments.length]).toEqual(['free', 0])
  expect(trader.prepare(note).nonce).toBe('3')
})

test("counters move to the venue's and never back", () => {
  const wallet = new Wallet(bytes(32))
  alignCounters(wallet, 1, { place_nonce: '7', cancel_nonce: '2' })
  alignCounters(wallet, 1, { place_nonce: '3', cancel_nonce: '9' })
  expect(wallet.counters(1)).toEqual({ commands: 7, deposits: 0, cancels: 9 })
})

test('nonces that no wallet can have used change no counter', () => {
  const wallet = new Wallet(bytes(32))
  for (const wrong of ['abc', '', '-1', '1e3', '9007199254740993', '268435456', '99999999999999999999'])
    expect(() => alignCounters(wallet, 0, { place_nonce: wrong, cancel_nonce: '0' })).toThrow(WalletMismatch)
  expect(() => alignCounters(wallet, 0, { place_nonce: '1', cancel_nonce: 'x' })).toThrow(WalletMismatch)
  alignCounters(wallet, 0, { place_nonce: '268435455', cancel_nonce: '5' })
  expect(wallet.counters(0)).toEqual({ commands: 268_435_455, deposits: 0, cancels: 5 })
})

test('an order goes on a free note, and a modify on one that its order has not consumed', async () => {
  const open = await site.open()
  const trader = await MemoryTrader.provisioned(open, 'ada')
  const note = trader.deposit('base', ONE)
  const { order_id } = trader.prepare(note)
  const before = JSON.stringify(trader.wallet.state)
  const { wallet, venue_id: venue, expiry_slot } = trader
  const to = { destination: encodeBase58(bytes(32)), amount: 1n, expiry_slot }
  for (const use of [
    () => trader.prepare(note),
    () => prepareWithdrawal(wallet, venue, note, to),
    () => prepareReshape(wallet, venue, [note], { amounts: [ONE], expiry_slot }),
  ])
    expect(use).toThrow('not free')
  expect(JSON.stringify(wallet.state)).toBe(before)
  const instrument = open.venue.instrument('SOL-USDC')
  const terms = { instrument, side: 'sell', amount: ONE, price_limit: 90_000_000n, expiry_slot: 300 } as const
  const { replacement } = prepareModify(trader.wallet, trader.venue_id, order_id, terms)
  dropRefused(trader.wallet, replacement.order_id)
  expect(note.state).toBe('pending')
  for (const state of ['spent', 'free'] as const) {
    note.state = state
    expect(() => prepareModify(trader.wallet, trader.venue_id, order_id, terms)).toThrow(RangeError)
    expect(note.state).toBe(state)
  }
})

test('an order goes on no note of another mint or of less than its collateral with the fee', async () => {
  const trader = await MemoryTrader.provisioned(await site.open(), 'ada')
  const [base, quote] = [trader.deposit('base', ONE), trader.deposit('quote', 100_099_999n)]
  const before = JSON.stringify(trader.wallet.state)
  for (const [note, change] of [
    [base, { amount: ONE + 1_000_000n }],
    [base, { side: 'buy', amount: 1_000_000n }],
    [quote, {}],
    [quote, { side: 'sell', amount: 1_000_000n }],
  ] as const)
    expect(() => trader.prepare(note, change)).toThrow('does not cover')
  expect(JSON.stringify(trader.wallet.state)).toBe(before)
  expect(trader.prepare(trader.deposit('quote', 100_100_000n)).side).toBe('buy')
  expect(trader.prepare(base).side).toBe('sell')
})

test('a recovered wallet trades on once its counters are aligned, and not before', async () => {
  const open = await site.open()
  const trader = await MemoryTrader.provisioned(open, 'ada')
  const note = trader.deposit('base', ONE)
  await open.chain.finalizeLeaves()
  const first = await trader.place(note)
  await open.venue.cancel('ada', first, prepareCancel(trader.wallet, trader.venue_id, first, 0))
  // Known to a recovery: the note, and no trace of an order that never filled.
  trader.wallet.state.keys[0]!.commands = 0
  note.state = 'free'
  const clash = await trader.place(note, { amount: ONE / 2n }).catch((error: { code: string }) => error.code)
  expect(clash).toBe('order_id_taken')
  note.state = 'free'
  const key = trader.wallet.tradingKeyText(0)
  trader.wallet.state.keys[0]!.commands = 0
  alignCounters(trader.wallet, 0, await open.venue.nonces('ada', key))
  expect(await trader.place(note)).not.toBe(first)
})

test('the smallest note that covers is chosen, and none that does not', async () => {
  const open = await site.open()
  const trader = await MemoryTrader.provisioned(open, 'ada')
  const [, two] = [5n, 2n, 1n].map((tokens) => trader.deposit('base', tokens * ONE))
  expect(trader.wallet.noteFor(two!.mint, ONE + 1n)).toBe(two)
  expect(trader.wallet.noteFor(two!.mint, 6n * ONE)).toBeUndefined()
})

test('a save that the disk cuts short is an error and leaves the file before it', () => {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-wallet-'))
  const path = join(dir, 'wallet.json')
  const file = join(import.meta.dir, '../../../client/wallet')
  const save = `
    import { saveWallet } from ${JSON.stringify(`${file}/wallet_file.ts`)}
    import { Wallet } from ${JSON.stringify(`${file}/wallet.ts`)}
    const wallet = new Wallet(new Uint8Array(32))
    const hash = 'c'.repeat(64)
    const note = { commitment: hash, key_index: 0, mint: '1'.repeat(32), amount: '1', blinding: hash, state: 'free', origin: 'deposit' }
    for (let n = 0; n < process.argv[2]; n++) wallet.state.notes.push(note)
    saveWallet(process.argv[1], wallet, { replace: true })`
  const run = (limit: string, notes: string, to = path) => {
    const limited = `trap '' XFSZ; ulimit -f ${limit}; exec "$0" -e "$1" "$2" "$3"`
    const { stderr } = Bun.spawnSync(['bash', '-c', limited, process.execPath, save, to, notes])
    return /NotWritten: .*/.exec(stderr.toString())?.[0]
  }
  expect(run('unlimited', '10')).toBeUndefined()
  const before = readFileSync(path, 'utf8')
  expect(before.length).toBeLessThan(5_000)
  // In KiB: this save is longer, and its first write is cut there.
  expect(run('5', '80')).toStartWith(`NotWritten: ${path} cannot be written: EFBIG`)
  expect(readFileSync(path, 'utf8')).toBe(before)
  const nowhere = join(dir, 'absent', 'wallet.json')
  expect(run('unlimited', '1', nowhere)).toStartWith(`NotWritten: ${nowhere} cannot be written: ENOENT`)
  rmSync(dir, { recursive: true })
})

test('a wallet file is its owner’s alone, whole after every save, and refused when it is none', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-wallet-'))
  const path = join(dir, 'wallet.json')
  const open = await site.open()
  const { buyer, money } = await twoTraders(open)
  buyer.prepare(money)
  expect(loadWallet(path)).toBeUndefined()
  for (let save = 0; save < 2; save++) saveWallet(path, buyer.wallet)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  const loaded = loadWallet(path)!
  expect(loaded.state).toEqual(buyer.wallet.state)
  expect(loaded.seed).toEqual(buyer.wallet.seed)
  chmodSync(path, 0o600)
  for (const text of ['{}', '[]', '{"seed":"00"}', readFileSync(path, 'utf8').slice(0, 50)]) {
    writeFileSync(path, text)
    expect(() => loadWallet(path)).toThrow()
  }
  rmSync(dir, { recursive: true })
  expect(fromHex(toHex(loaded.seed), 32)).toEqual(loaded.seed)
})

const folder = mkdtempSync(join(tmpdir(), 'tacit-receipt-file-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const SEED = new Uint8Array(32).fill(7)
const certificateOf = (epoch: bigint) => ({
  certificate: toHex(STATEMENT_BODY.encode({ venue: bytes(32), statement_key: bytes(32), epoch })),
  certificate_signature: '11'.repeat(64),
  tee_pubkey: '1'.repeat(32),
})
const receiptOf = (id: string, seq = 1, epoch = 1): KeptReceipt => {
  const bare = { epoch, seq, head: '00'.repeat(32), root: '00'.repeat(32), index: 0, path: [], signature: '' }
  return { id, command: 'c0ffee', receipt: bare as never }
}
const linesOf = (path: string): string[] =>
  readFileSync(`${path}.receipts`, 'utf8').split('\n').filter(Boolean)

test('a certificate is written once, proves the receipts of its epoch at once and after a start, and no others', () => {
  const path = join(folder, 'one')
  const file = new ReceiptFile(path, SEED)
  expect([file.certificates, file.find('a')]).toEqual([[], undefined])
  const [first, second] = [certificateOf(1n), certificateOf(2n)]
  for (const one of [first, first, second, second, first]) file.keepCertificate(one)
  file.keep(receiptOf('a'))
  file.keep(receiptOf('b', 2, 3))
  file.keep(receiptOf('a', 3, 2))
  expect(linesOf(path).map((line) => line[0])).toEqual(['c', 'c', 'r', 'r', 'r'])
  expect(statSync(`${path}.receipts`).mode & 0o777).toBe(0o600)
  for (const one of [file, new ReceiptFile(path, SEED)]) {
    expect(one.certificates).toEqual([first, second])
    // The newest of an id.
    const found = one.find('a')!
    expect(found).toEqual(receiptOf('a', 3, 2))
    const { command, receipt } = found
    expect(one.proofOf(found)).toEqual({ format: PROOF_FORMAT, ...second, command, receipt })
    expect(one.proofOf(receiptOf('a'))).toMatchObject(first)
    expect(one.proofOf(one.find('b')!)).toBeUndefined()
    one.keepCertificate(first)
  }
  expect(linesOf(path)).toHaveLength(5)
})

test('a line is neither readable nor of another use, and a torn one harms no other', () => {
  const path = join(folder, 'torn')
  const file = new ReceiptFile(path, SEED)
  file.keepCertificate(certificateOf(1n))
  file.keep(receiptOf('before'))
  const [certificate, receipt] = linesOf(path) as [string, string]
  for (const secret of ['before', 'c0ffee'])
    expect(readFileSync(`${path}.receipts`, 'utf8')).not.toContain(secret)
  // Each line as the other kind, cut, changed and foreign.
  const wrong = [
    `r${certificate.slice(1)}`,
    `c${receipt.slice(1)}`,
    receipt.slice(0, -7),
    `${receipt}00`,
    'r',
    'c',
    'rzz',
    'noise',
  ]
  appendFileSync(`${path}.receipts`, `${wrong.join('\n')}\nr00`)
  const again = new ReceiptFile(path, SEED)
  expect(again.certificates).toHaveLength(1)
  again.keep(receiptOf('after', 2))
  for (const id of ['before', 'after']) expect(again.find(id)?.id).toBe(id)
  expect(new ReceiptFile(path, bytes(32)).find('before')).toBeUndefined()
})

test('the older half goes once there are twice as many as are kept, and certificates stay', () => {
  const path = join(folder, 'many')
  const file = new ReceiptFile(path, SEED)
  file.keepCertificate(certificateOf(1n))
  file.keep(receiptOf('old'))
  const [certificate, line] = linesOf(path) as [string, string]
  const many = Array<string>(2 * RECEIPTS_KEPT_MAX - 3).fill(line)
  writeFileSync(`${path}.receipts`, `${[certificate, line, ...many].join('\n')}\n`, { mode: 0o600 })
  const full = new ReceiptFile(path, SEED)
  full.keep(receiptOf('last but one', 2))
  expect(linesOf(path)).toHaveLength(2 * RECEIPTS_KEPT_MAX)
  full.keep(receiptOf('last', 3))
  expect(linesOf(path)).toHaveLength(RECEIPTS_KEPT_MAX + 1)
  expect(statSync(`${path}.receipts`).mode & 0o777).toBe(0o600)
  for (const one of [full, new ReceiptFile(path, SEED)]) {
    expect(one.certificates).toHaveLength(1)
    for (const id of ['old', 'last but one', 'last']) expect(one.find(id)?.id).toBe(id)
  }
  full.keep(receiptOf('next', 4))
  expect(linesOf(path)).toHaveLength(RECEIPTS_KEPT_MAX + 2)
}, 120_000)

test('a receipt that could not be written is written with the next one', () => {
  const path = join(folder, 'absent', 'wallet')
  const file = new ReceiptFile(path, SEED)
  file.keepCertificate(certificateOf(1n))
  file.keep(receiptOf('a'))
  expect(file.find('a')).toBeUndefined()
  mkdirSync(join(folder, 'absent'))
  file.keep(receiptOf('b', 2))
  file.keep(receiptOf('c', 3))
  expect(linesOf(path).map((line) => line[0])).toEqual(['c', 'r', 'r', 'r'])
  for (const id of ['a', 'b', 'c']) expect(new ReceiptFile(path, SEED).find(id)?.id).toBe(id)
})

test.skipIf(!isMountable())('a full disk leaves the lines before it whole', async () => {
  await withSmallVolume('200k', async (dir) => {
    const path = join(dir, 'wallet')
    const file = new ReceiptFile(path, SEED)
    file.keep(receiptOf('before'))
    const giveBack = fillUp(dir)
    const text = readFileSync(`${path}.receipts`, 'utf8')
    for (let at = 0; at < 40; at++) file.keep(receiptOf(`full ${at}`))
    const left = linesOf(path)
    expect(left[0]).toBe(text.trim())
    giveBack()
    file.keep(receiptOf('after'))
    for (const id of ['before', 'full 0', 'full 39', 'after']) expect(file.find(id)?.id).toBe(id)
    expect(linesOf(path)).toHaveLength(42)
  })
})
