/** Inner instructions in answers of RPC nodes: only the program's, with their places. */
import { expect, test } from 'bun:test'
import { encodeBase58 } from '../../../protocol/base58'
import { innerDataOf } from '../../../protocol/vault/events'

const call = (programIdIndex: number, ...bytes: number[]) => ({
  programIdIndex,
  data: encodeBase58(Uint8Array.from(bytes)),
})

test('what the program was sent, with its places; what other programs were sent is left out', () => {
  const groups = [
    { index: 0, instructions: [call(1, 9), call(2, 1, 2), call(2, 3)] },
    { index: 3, instructions: [call(2, 0, 0)] },
  ]
  expect(
    innerDataOf('vault', { own: ['payer'], loaded: { writable: ['token'], readonly: ['vault'] } }, groups),
  ).toEqual([
    { outer: 0, inner: 1, data: Uint8Array.of(1, 2) },
    { outer: 0, inner: 2, data: Uint8Array.of(3) },
    { outer: 3, inner: 0, data: Uint8Array.of(0, 0) },
  ])
})

test('a node that tells no accounts, no base58 or nothing at all shows no data', () => {
  const groups = [{ index: 0, instructions: [call(7, 1), { programIdIndex: 0, data: '0OIl' }] }]
  expect(innerDataOf('vault', { own: ['vault'] }, groups)).toEqual([])
  expect(innerDataOf('vault', { own: ['vault'] }, null)).toEqual([])
  expect(innerDataOf('vault', { own: ['vault'] }, undefined)).toEqual([])
})

test('ten kibibytes are the most a program is sent: what is longer is not even decoded', () => {
  const told = (bytes: number) => [
    {
      index: 0,
      instructions: [{ programIdIndex: 0, data: encodeBase58(new Uint8Array(bytes).fill(255)) }],
    },
  ]
  expect(innerDataOf('vault', { own: ['vault'] }, told(10_240))[0]!.data).toHaveLength(10_240)
  expect(innerDataOf('vault', { own: ['vault'] }, told(10_300))).toEqual([])
  const endless = [{ index: 0, instructions: [{ programIdIndex: 0, data: 'z'.repeat(1_000_000) }] }]
  expect(innerDataOf('vault', { own: ['vault'] }, endless)).toEqual([])
})
