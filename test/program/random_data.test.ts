/** Random data and random account lists never land and never fail in any way but a numbered or token error. */
import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { settleInstruction } from '../../protocol/vault/settle'
import { element, elements, landed, OpenVault, outputsOf } from '../kit/vault/open_vault'

const NAMED = /^[a-z_]+$/

test('random data on a plausible account list is refused by name', () => {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000n, element('inner'))
  const { accounts } = settleInstruction(vault.batchOf({ outputs: outputsOf(elements('c', 2)) }))
  const shape = fc.record({
    instruction: fc.integer({ min: 0, max: 25 }),
    data: fc.uint8Array({ maxLength: 400 }),
    count: fc.integer({ min: 0, max: accounts.length }),
  })
  fc.assert(
    fc.property(shape, ({ instruction, data, count }) => {
      const sent = {
        program: vault.program,
        accounts: accounts.slice(0, count),
        data: Uint8Array.of(instruction, ...data),
      }
      const outcome = vault.chain.outcome(sent, vault.signer)
      expect(outcome).toMatch(NAMED)
      expect(outcome).not.toBe('landed')
    }),
    { numRuns: 300 },
  )
})

test('one flipped byte of a batch either is refused by name or changes something nobody can check', () => {
  const vault = new OpenVault()
  landed(vault.openEpoch())
  vault.deposit(5_000n, element('inner'))
  const good = settleInstruction(
    vault.batchOf({ nullifiers: elements('n', 2), outputs: outputsOf(elements('c', 2)) }),
  )
  // Journal and the values themselves are the signer's word; the rest of the header is checked.
  const free = (at: number): boolean => at >= 57 && (at < 97 || at >= 101)
  fc.assert(
    fc.property(fc.nat({ max: good.data.length - 1 }), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const data = good.data.slice()
      data[at]! ^= flip
      const outcome = vault.chain.outcome({ ...good, data }, vault.signer)
      expect(outcome).toMatch(NAMED)
      if (!free(at)) expect([at, outcome]).not.toEqual([at, 'landed'])
    }),
    { numRuns: 300 },
  )
})
