/** The payout queue has 60 places, and anyone may pay the rent for more. */
import { expect, test } from 'bun:test'
import { growQueueInstruction } from '../../../protocol/vault/queue'
import { bytes32, errorOf, landed, type OpenVault, runningVault } from '../../kit/vault/open_vault'
import { testKey } from '../../kit/vault/vault_chain'

const destination = bytes32('destination')
const stranger = testKey('stranger')

function fill(vault: OpenVault, places: number): void {
  for (let left = places; left > 0; left -= 20)
    vault.settle({
      payouts: Array.from({ length: Math.min(left, 20) }, () => vault.withdrawal(1n, destination)),
    })
}

test('a batch without room in the queue is refused, and lands once the queue has grown', () => {
  const vault = runningVault()
  vault.chain.fund(stranger)
  vault.setToken(destination, { owner: vault.trader.key })
  fill(vault, 60)
  const batch = vault.batchOf({ payouts: [vault.withdrawal(1n, destination)] })
  expect(errorOf(vault.send(batch))).toBe('queue_full')
  landed(vault.chain.send(growQueueInstruction(vault.program, stranger.key), stranger))
  expect(vault.chain.queue()).toMatchObject({ capacity: 120, next_number: 61 })
  landed(vault.send(batch))
  expect(vault.chain.queue().entries.at(-1)).toMatchObject({ place: 60, number: 61 })
})

test('a full queue takes the next payout once a place is free', () => {
  const vault = runningVault()
  vault.setToken(destination, { owner: vault.trader.key })
  fill(vault, 60)
  vault.pay(vault.chain.queue().entries.slice(30, 31))
  vault.settle({ payouts: [vault.withdrawal(1n, destination)] })
  expect(vault.chain.queue().entries[30]).toMatchObject({ number: 61 })
})

test('the queue grows to 1,020 places, each time for the rent of the bytes added', () => {
  const vault = runningVault()
  vault.chain.fund(stranger)
  const { queue } = vault.chain.vault
  for (let capacity = 120; capacity <= 1_020; capacity += 60) {
    landed(vault.chain.send(growQueueInstruction(vault.program, stranger.key), stranger))
    const { data, lamports } = vault.chain.account(queue)!
    expect(data).toHaveLength(160 + 168 * capacity)
    expect(lamports).toBe(vault.chain.svm.minimumBalanceForRentExemption(BigInt(data.length)))
    expect(vault.chain.queue().capacity).toBe(capacity)
  }
  const once_more = growQueueInstruction(vault.program, stranger.key)
  expect(errorOf(vault.chain.send(once_more, stranger))).toBe('queue_cannot_grow')
})

test('who pays signs, and the queue is the vault’s own', () => {
  const vault = runningVault()
  vault.chain.fund(stranger)
  const good = growQueueInstruction(vault.program, stranger.key)
  const changed = (place: number, change: object): string => {
    const accounts = good.accounts.map((one, at) => (at === place ? { ...one, ...change } : one))
    return vault.chain.outcome({ ...good, accounts })
  }
  expect(changed(0, { signer: false })).toBe('missing_signature')
  expect(changed(0, { writable: false })).toBe('not_writable')
  expect(changed(2, { writable: false })).toBe('not_writable')
  expect(changed(2, { address: vault.chain.vault.ring })).toBe('wrong_address')
  expect(changed(3, { address: stranger.key })).toBe('wrong_address')
  expect(vault.chain.outcome({ ...good, data: Uint8Array.of(16, 0) })).toBe('invalid_data')
})
