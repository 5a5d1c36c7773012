/** A truncated index is as one that never had the later keys. */
import { expect, test } from 'bun:test'
import { ByteIndex } from '../../../engine/memory/byte_index'
import { utf8 } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { FIXED_HASH_SEED } from '../../kit/venue/machine_world'

const keyOf = (name: number): Uint8Array => sha256(utf8(`key ${name}`))

test('keys behind a truncation are gone and can be appended again in another order', () => {
  const index = new ByteIndex(FIXED_HASH_SEED)
  for (let name = 0; name < 3_000; name++) index.append(keyOf(name))
  index.truncate(1_000)
  expect(index.size).toBe(1_000)
  for (let name = 0; name < 3_000; name++) expect(index.has(keyOf(name))).toBe(name < 1_000)
  expect(() => index.at(1_000)).toThrow('no such place')
  for (let name = 2_999; name >= 1_000; name--) index.append(keyOf(name))
  for (let name = 0; name < 3_000; name++)
    expect(index.indexOf(keyOf(name))).toBe(name < 1_000 ? name : 3_999 - name)
})
