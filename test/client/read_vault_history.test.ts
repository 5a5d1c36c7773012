/** The public history is read whole from a node that is busy, lies by omission, or pages; or it is not read at all. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { openChainReader } from '../../client/chain/chain_access'
import { readProofs } from '../../client/chain/exit_note'
import { readVaultHistory } from '../../client/chain/read_history'
import { NotAVault } from '../../client/chain/read_vault'
import { nullifierOfNote } from '../../client/exit/prepare_exit'
import { HistoryIncomplete, vaultHistory } from '../../client/wallet/vault_history'
import { Wallet } from '../../client/wallet/wallet'
import { encodeBase58 } from '../../protocol/base58'
import { toHex } from '../../protocol/bytes'
import type { RpcFault } from '../../sandbox/chain/embedded_chain'
import { elements } from '../kit/vault/open_vault'
import { CliSite } from './cli_site'
import { LyingNode } from './lying_node'

let site: CliSite
let program_id: string
/** Of each batch. */
const nullifiers: Uint8Array[][] = []
const outputs: Uint8Array[][] = []

beforeAll(async () => {
  site = await CliSite.open()
  program_id = site.program_id
  const notes = await site.deposit(new Wallet(bytes(32)), 5_000n, 6_000n, 7_000n)
  for (const [batch, note] of notes.entries()) {
    nullifiers.push([nullifierOfNote(note)])
    outputs.push(elements(`batch ${batch}`, 2))
    const made = outputs[batch]!.map((commitment) => ({ commitment, memo: bytes(16) }))
    await site.signer.settle({ nullifiers: nullifiers[batch]!, outputs: made })
  }
}, 120_000)
afterAll(() => site.close())

const chain = () => openChainReader(site.chain.url)
/** Reads while requests of the node end as `fault` says. */
async function readUnder(fault: (method: string) => RpcFault | undefined) {
  site.chain.faults.rpc = fault
  try {
    return await readVaultHistory(chain(), program_id)
  } finally {
    site.chain.faults.rpc = undefined
  }
}
const bytes = (count: number) => crypto.getRandomValues(new Uint8Array(count))
const failureOf = (answer: Promise<unknown>): Promise<unknown> =>
  answer.then(
    () => 'done',
    (error: unknown) => error,
  )

test('leaves, batches and outputs of real transactions are all there, in their order', async () => {
  const history = await readVaultHistory(chain(), program_id)
  const made = outputs.flat().map(toHex)
  expect(history.leaves.slice(3).map(toHex)).toEqual(made)
  expect(history.nullifier_batches).toEqual(nullifiers)
  const told = [...history.outputs_by_tag.values()].flat().map(({ commitment }) => toHex(commitment))
  expect(told.sort()).toEqual(made.sort())
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

test('what a history lacks is named from the first to the last', () => {
  const none = { first_leaf_index: 0, outputs: [], payouts: [], nullifiers: [], spent_count: 0 }
  const settled = (batch: number) => ({ kind: 'settled', batch, ...none }) as never
  const deposited = { kind: 'deposited', leaf_index: 3, inner: bytes(32), commitment: bytes(32) } as never
  const partOf = (...events: never[]): string => {
    try {
      return `${vaultHistory(events).leaves.length} leaves`
    } catch (error) {
      return (error as HistoryIncomplete).facts.part
    }
  }
  expect(partOf(settled(1), settled(5))).toBe('settlement batch 2 to 4')
  expect(partOf(settled(3), settled(1))).toBe('settlement batch 2')
  expect(partOf(settled(2))).toBe('settlement batch 1')
  expect(partOf(deposited)).toBe('leaf 0 to 2')
  expect(partOf(settled(1))).toBe('0 leaves')
})

test('a transaction that is listed and not served makes the history incomplete', async () => {
  const stored = site.chain.machine.store.transaction.bind(site.chain.machine.store)
  let served = 0
  site.chain.machine.store.transaction = (signature) => (served++ === 3 ? undefined : stored(signature))
  const failed = await failureOf(readVaultHistory(chain(), program_id))
  site.chain.machine.store.transaction = stored
  expect(failed).toBeInstanceOf(HistoryIncomplete)
})

test('a transaction that a fork let fail after it was listed has no events', async () => {
  const node = new LyingNode(site.chain.url)
  node.lies = {
    getTransaction: (told) => {
      const found = told as { meta: { err: unknown } }
      return { ...found, meta: { ...found.meta, err: { InstructionError: [0, { Custom: 1 }] } } }
    },
  }
  expect((await readVaultHistory(openChainReader(node.url), program_id)).leaves).toEqual([])
  await node.stop()
})

test('without a vault there is nothing to prove', async () => {
  expect(await failureOf(readProofs(chain(), encodeBase58(bytes(32))))).toBeInstanceOf(NotAVault)
  expect(await failureOf(readProofs(chain(), 'not an address'))).toBeInstanceOf(RangeError)
})
