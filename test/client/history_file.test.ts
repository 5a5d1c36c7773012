/** The kept history is either what was sealed, or counts as never read: whatever was cut, flipped or exchanged in it. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { extendHistory, type KeptTransaction, loadHistory } from '../../client/wallet/history_file'

const folder = mkdtempSync(join(tmpdir(), 'tacit-history-'))
const path = join(folder, 'wallet.json.history')
const OF = { genesis_hash: 'genesis', program_id: 'program' }
afterAll(() => rmSync(folder, { recursive: true }))

const transaction: fc.Arbitrary<KeptTransaction> = fc.record({
  signature: fc.base64String({ minLength: 4 }),
  slot: fc.nat(),
  data: fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 3 }),
})
const readings = fc.array(fc.array(transaction, { minLength: 1, maxLength: 4 }), {
  minLength: 1,
  maxLength: 5,
})

/** Writes one reading after the other; answers how many bytes were sealed after each. */
function write(parts: readonly KeptTransaction[][]): number[] {
  rmSync(path, { force: true })
  return parts.map((part) => {
    extendHistory(path, OF, loadHistory(path, OF), part)
    return statSync(path).size
  })
}

test('readings come back whole and in order, readable by their owner alone', () => {
  fc.assert(
    fc.property(readings, (parts) => {
      write(parts)
      expect(loadHistory(path, OF).transactions).toEqual(parts.flat())
      expect(statSync(path).mode & 0o777).toBe(0o600)
    }),
    { numRuns: 30 },
  )
})

test('cut anywhere, it holds the readings that were sealed before, and goes on from there', () => {
  fc.assert(
    fc.property(readings, fc.double({ min: 0, max: 1, noNaN: true }), (parts, share) => {
      const sealed = write(parts)
      const length = Math.floor(share * sealed.at(-1)!)
      truncateSync(path, length)
      const whole = sealed.filter((bytes) => bytes <= length).length
      const kept = loadHistory(path, OF)
      expect(kept.transactions).toEqual(parts.slice(0, whole).flat())
      extendHistory(path, OF, kept, parts.slice(whole).flat())
      expect(loadHistory(path, OF).transactions).toEqual(parts.flat())
    }),
    { numRuns: 30 },
  )
})

test('one bit flipped anywhere: nothing but what was sealed before it counts', () => {
  fc.assert(
    fc.property(readings, fc.nat(), fc.nat({ max: 7 }), (parts, at, bit) => {
      const sealed = write(parts)
      const content = readFileSync(path)
      const place = at % content.length
      content[place]! ^= 1 << bit
      writeFileSync(path, content)
      const whole = sealed.filter((bytes) => bytes <= place).length
      expect(loadHistory(path, OF).transactions).toEqual(parts.slice(0, whole).flat())
    }),
    { numRuns: 60 },
  )
})

test('a history of another chain or vault is none, and is written over', () => {
  const one = { signature: 's', slot: 1, data: [Uint8Array.of(1)] }
  write([[one]])
  for (const other of [
    { ...OF, genesis_hash: 'another' },
    { ...OF, program_id: 'another' },
  ]) {
    const none = loadHistory(path, other)
    expect(none).toEqual({ transactions: [], sealed_bytes: 0 })
    extendHistory(path, other, none, [{ ...one, slot: 2 }])
    expect(loadHistory(path, other).transactions).toMatchObject([{ slot: 2 }])
    expect(loadHistory(path, OF).transactions).toEqual([])
    write([[one]])
  }
})
