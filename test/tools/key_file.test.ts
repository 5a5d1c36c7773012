/** Operator keys come from files in the forms operators have, and a broken one says so without its content. */
import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readSeed } from '../../client/cli/command'
import { concatBytes, toHex } from '../../protocol/bytes'
import { publicKeyOf } from '../../protocol/sign'

const dir = mkdtempSync(join(tmpdir(), 'tacit-keys-'))
afterAll(() => rmSync(dir, { recursive: true }))
const seed = crypto.getRandomValues(new Uint8Array(32))

function file(content: string | Uint8Array): string {
  const path = join(dir, 'key')
  writeFileSync(path, content)
  return path
}

test('32 bytes, 64 hex digits and the array of solana-keygen give the same key', () => {
  const pair = JSON.stringify([...concatBytes(seed, publicKeyOf(seed))])
  for (const content of [seed, `${toHex(seed)}\n`, pair]) expect(readSeed(file(content))).toEqual(seed)
})

test('a key whose halves do not belong together is refused, and the refusal shows nothing of it', () => {
  const pair = JSON.stringify([...concatBytes(seed, seed)])
  for (const content of [pair, '[1,2]', toHex(seed).slice(2), '']) {
    expect(() => readSeed(file(content))).toThrow(/^\S+ holds neither a seed nor a key of solana-keygen$/)
  }
})
