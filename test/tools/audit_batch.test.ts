/** An auditor recomputes a batch from the journal and sees a record that is not what was decided. */
import { afterEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { NewRecord } from '../../engine/journal/contract'
import { openJournal } from '../../engine/journal/open_journal'
import { AUCTION_RECORD } from '../../engine/sequencer/records'
import { toHex, utf8 } from '../../protocol/bytes'
import { recomputeBatch } from '../../tools/audit/recompute_batch'
import { SIGNER } from '../engine/journal/folder'
import { TestSite } from '../kit/venue/open_test_venue'
import { Trader } from '../kit/venue/trader'

let site = new TestSite()
const copies: string[] = []
afterEach(async () => {
  await site.remove()
  site = new TestSite()
  for (const copy of copies.splice(0)) rmSync(copy, { recursive: true, force: true })
})

/** A venue that held a batch with a trade, stopped. */
async function tradedBatch(): Promise<void> {
  const open = await site.open()
  const alice = await Trader.provisioned(open, 'alice')
  const bob = await Trader.provisioned(open, 'bob')
  const buy = alice.place(alice.deposit('quote', 200_000_000n))
  const sell = bob.place(bob.deposit('base', 2_000_000_000n), { side: 'sell' })
  await open.chain.finalizeLeaves()
  await open.venue.place('alice', buy)
  await open.venue.place('bob', sell)
  await open.chain.tick(2)
  await open.engine.pump.idle()
  await open.close()
}

/** The same journal with one auction's volume changed, every checksum and hash of the files right again. */
async function forgedCopy(): Promise<string> {
  const dir = mkdtempSync(join(tmpdir(), 'tacit-forged-'))
  copies.push(dir)
  const key = site.keys.journal_key
  const journal = await openJournal({ dir: join(site.dir, 'journal'), key })
  const forged = await openJournal({ dir: join(dir, 'journal'), key })
  forged.signAs(SIGNER)
  for await (const { type, unix_ms, body } of journal.read(1)) {
    const record: NewRecord = { type, unix_ms, body: body.slice() }
    if (type === AUCTION_RECORD) {
      const text = new TextDecoder().decode(body).replace('"volume_lots":1000', '"volume_lots":999')
      record.body = utf8(text)
    }
    await forged.append([record])
  }
  await journal.close()
  await forged.close()
  return dir
}

test('a batch recomputed from the journal has the hash that was recorded', async () => {
  await tradedBatch()
  const audit = await recomputeBatch({ dir: site.dir, ...site.keys, symbol: 'SOL-USDC', batch: 2 })
  expect(audit.agrees).toBe(true)
  expect(audit.recorded).toMatchObject({ price_ticks: 10_000, volume_lots: 1_000 })
  expect(toHex(audit.recomputed!.result_hash)).toBe(audit.recorded.result_hash)
})

test('a record that is not what was decided does not agree', async () => {
  await tradedBatch()
  const dir = await forgedCopy()
  const audit = await recomputeBatch({ dir, ...site.keys, symbol: 'SOL-USDC', batch: 2 })
  expect(audit.agrees).toBe(false)
  expect(audit.recomputed?.volume_lots).toBe(1_000)
})

test('the command prints both hashes and ends with 0 only when they agree', async () => {
  await tradedBatch()
  const key = join(site.dir, 'journal-key')
  writeFileSync(key, toHex(site.keys.journal_key))
  const command = new URL('../../tools/audit/main.ts', import.meta.url).pathname
  const run = (dir: string, ...batch: string[]) =>
    Bun.spawnSync([process.execPath, command, ...batch, '--dir', dir, '--key', key])
  const good = run(site.dir, 'SOL-USDC', '2')
  const printed = JSON.parse(good.stdout.toString())
  expect([good.exitCode, printed.agrees]).toEqual([0, true])
  expect(printed.recomputed_hash).toBe(printed.recorded_hash)
  expect(run(await forgedCopy(), 'SOL-USDC', '2').exitCode).toBe(1)
  const absent = run(site.dir, 'SOL-USDC', '99')
  expect([absent.exitCode, absent.stderr.toString()]).toEqual([
    1,
    'the journal holds no batch 99 of SOL-USDC\n',
  ])
})
