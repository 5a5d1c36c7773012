/** Receipts beside a wallet: sealed, appended whole or not at all, found by what opened them, and bounded in number. */
import { afterAll, expect, test } from 'bun:test'
import {
  appendFileSync,
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
import { type KeptReceipt, ReceiptFile } from '../../../client/wallet/receipt_file'
import { STATEMENT_BODY } from '../../../protocol/bodies/statements'
import { toHex } from '../../../protocol/bytes'
import { fillUp, isMountable, withSmallVolume } from '../../kit/small_volume'
import { bytes } from '../../kit/venue/memory_chain'

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

test('what could not be written is written with the next receipt', () => {
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
