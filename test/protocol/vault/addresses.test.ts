/** Derived addresses are those the runtime derives. */

import { expect, test } from 'bun:test'
import { address, getProgramDerivedAddress } from '@solana/kit'
import { encodeBase58 } from '../../../protocol/base58'
import { sha256 } from '../../../protocol/sha256'
import {
  exitRequestSeeds,
  findAddress,
  mintRecordSeeds,
  vaultAddresses,
} from '../../../protocol/vault/addresses'

const key = (name: string): Uint8Array => sha256(new TextEncoder().encode(name))

test('address and bump equal those of @solana/kit for many seeds', async () => {
  for (let index = 0; index < 20; index++) {
    const program = key(`program ${index}`)
    for (const seeds of [
      mintRecordSeeds(key(`mint ${index}`)),
      exitRequestSeeds(key(`nullifier ${index}`)),
    ]) {
      const [expected, bump] = await getProgramDerivedAddress({
        programAddress: address(encodeBase58(program)),
        seeds: [...seeds],
      })
      const found = findAddress(seeds, program)
      expect([encodeBase58(found.address), found.bump]).toEqual([expected as string, bump as number])
    }
  }
})

test('changing an answer does not change the next one', () => {
  const program = key('program')
  vaultAddresses(program).config.fill(0)
  expect(vaultAddresses(program).config).not.toEqual(new Uint8Array(32))
})
