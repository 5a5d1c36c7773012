/** The public history is read whole from a node that is busy, lies by omission, or pages; or it is not read at all. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openChainReader } from '../../client/chain/chain_access'
import { readProofs } from '../../client/chain/exit_note'
import { readVaultHistory } from '../../client/chain/read_history'
import { NotAVault } from '../../client/chain/read_vault'
import { HistoryIncomplete } from '../../client/wallet/vault_history'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import type { RpcFault } from '../../sandbox/chain/embedded_chain'
import { VaultWorld } from '../kit/chain/vault_world'
import { bytes } from '../kit/venue/memory_chain'

let world: VaultWorld
let program_id: string

beforeAll(async () => {
  world = await VaultWorld.open()
  program_id = encodeBase58(world.program)
  await world.deposit(5_000n, 6_000n, 7_000n)
  await world.boot()
  await world.sink.until(() => world.sink.told.length === 3)
  for (let batch = 1; batch <= 3; batch++) {
    world.outbox.add(world.nextPayload())
    await world.outbox.until(() => world.outbox.stageOf(batch) === 'finalized')
  }
}, 30_000)
afterAll(() => world.close())

const chain = () => openChainReader(world.chain.url)
/** Reads while requests of the node end as `fault` says. */
async function readUnder(fault: (method: string) => RpcFault | undefined) {
  world.chain.faults.rpc = fault
  try {
    return await readVaultHistory(chain(), program_id)
  } finally {
    world.chain.faults.rpc = undefined
  }
}
const failureOf = (answer: Promise<unknown>): Promise<unknown> =>
  answer.then(
    () => 'done',
    (error: unknown) => error,
  )

test('leaves, batches and outputs of real transactions are all there, in their order', async () => {
  const history = await readVaultHistory(chain(), program_id)
  const payloads = [...world.outbox.payloads.values()]
  const outputs = payloads.flatMap((payload) => payload.outputs.map(({ commitment }) => toHex(commitment)))
  expect(history.leaves.slice(3).map(toHex)).toEqual(outputs)
  expect(history.nullifier_batches).toEqual(payloads.map(({ nullifiers }) => nullifiers))
  const told = [...history.outputs_by_tag.values()].flat().map(({ commitment }) => toHex(commitment))
  expect(told.sort()).toEqual(outputs.sort())
  expect([...history.program_notes.values()].flat().map(({ amount }) => amount)).toEqual([
    5_000n,
    6_000n,
    7_000n,
  ])
  expect(history.mints).toHaveLength(1)
})

test('a history of many pages is the same as one of a single page', async () => {
  const whole = await readVaultHistory(chain(), program_id)
  for (const page_size of [1, 2, 3])
    expect(await readVaultHistory(chain(), program_id, { page_size })).toEqual(whole)
})

test('a node that answers 429 and 503 in between is asked again', async () => {
  const whole = await readVaultHistory(chain(), program_id)
  let asked = 0
  const history = await readUnder(() => {
    asked += 1
    return asked % 3 === 1 ? { status: asked % 2 === 0 ? 429 : 503 } : undefined
  })
  expect(history).toEqual(whole)
  expect(asked).toBeGreaterThan(7)
})

test('a node that refuses for good is not asked for ever', async () => {
  const refused = await failureOf(readUnder(() => ({ error: { code: -32_602, message: 'no' } })))
  expect(refused).toBeInstanceOf(Error)
})

test('a transaction that is listed and not served makes the history incomplete', async () => {
  const stored = world.chain.machine.store.transaction.bind(world.chain.machine.store)
  let served = 0
  world.chain.machine.store.transaction = (signature) => (served++ === 3 ? undefined : stored(signature))
  const failed = await failureOf(readVaultHistory(chain(), program_id))
  world.chain.machine.store.transaction = stored
  expect(failed).toBeInstanceOf(HistoryIncomplete)
})

test('without a vault there is nothing to prove', async () => {
  expect(await failureOf(readProofs(chain(), encodeBase58(bytes(32))))).toBeInstanceOf(NotAVault)
  expect(await failureOf(readProofs(chain(), 'not an address'))).toBeInstanceOf(RangeError)
})
