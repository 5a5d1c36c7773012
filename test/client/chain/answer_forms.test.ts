/** A node that answers null, another type or a part of another type is named as such by every reader of the client. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type ChainAccess, openChainAccess } from '../../../client/chain/chain_access'
import { readOpenClaims } from '../../../client/chain/claims'
import { readEventsFrom } from '../../../client/chain/current_history'
import { readVaultEvents } from '../../../client/chain/read_history'
import { readVaultState } from '../../../client/chain/read_vault'
import { requireLamports, sendInstructions } from '../../../client/chain/send_instructions'
import { createAssociatedAccount, ownAccount, tokenBalance } from '../../../client/chain/token_account'
import { judge } from '../../../client/cli/failures'
import { Wallet } from '../../../client/wallet/wallet'
import { decodeBase58 } from '../../../protocol/base58'
import { CliSite, USDC } from '../cli_site'
import { LyingNode } from '../lying_node'

let site: CliSite
let node: LyingNode
let chain: ChainAccess
beforeAll(async () => {
  site = await CliSite.open()
  await site.deposit(new Wallet(new Uint8Array(32).fill(7)), 1_000n, 2_000n)
  node = new LyingNode(site.chain.url)
  chain = await openChainAccess(node.url, crypto.getRandomValues(new Uint8Array(32)))
  await site.fund(chain.payer.address, USDC, '1')
}, 180_000)
afterAll(async () => {
  await node.stop()
  await site.close()
})

const balance = () => tokenBalance(chain, ownAccount(chain, USDC).bytes)
/** Another transaction each time. */
const send = (access: ChainAccess) => {
  const owner = crypto.getRandomValues(new Uint8Array(32))
  return sendInstructions(
    access,
    [createAssociatedAccount(access, owner, decodeBase58(USDC, 32)!)],
    'confirmed',
  )
}
/** A caller of each method, and whether null is an answer of it. */
const READERS: Record<string, { read: () => Promise<unknown>; may_be_null?: true }> = {
  getMultipleAccounts: { read: () => readVaultState(chain, site.program_id) },
  getGenesisHash: { read: () => readEventsFrom(chain, site.program_id, {}) },
  getSignaturesForAddress: { read: () => readVaultEvents(chain, site.program_id) },
  getTransaction: { read: () => readVaultEvents(chain, site.program_id), may_be_null: true },
  getProgramAccounts: { read: () => readOpenClaims(chain, site.program_id) },
  getAccountInfo: { read: balance },
  getTokenAccountBalance: { read: balance },
  getMinimumBalanceForRentExemption: { read: () => requireLamports(chain, [165]) },
  getBalance: { read: () => requireLamports(chain, [165]) },
  getLatestBlockhash: { read: () => send(chain) },
  getSignatureStatuses: { read: () => send(chain) },
  getBlockHeight: { read: () => send(chain) },
  sendTransaction: { read: () => send(chain) },
  simulateTransaction: {
    read: () => send({ ...chain, rehearsal: { lamports: 0n } }).catch(({ code }) => code),
  },
}
const WRONG: readonly unknown[] = [null, 7, -1, 1.5, 'x', true, [], [null], {}, [[]]]

/** The places of a value, of lists the first element's. */
function placesOf(value: unknown, depth = 6): (string | number)[][] {
  if (typeof value !== 'object' || value === null || depth === 0) return [[]]
  const names = Array.isArray(value) ? [...value.keys()].slice(0, 1) : Object.keys(value)
  const inner = names.flatMap((name) =>
    placesOf((value as Record<string | number, unknown>)[name], depth - 1).map((place) => [name, ...place]),
  )
  return [[], ...inner]
}
function changedAt(value: unknown, [name, ...rest]: readonly (string | number)[], to: unknown): unknown {
  if (name === undefined) return to
  const copy: Record<string | number, unknown> = Array.isArray(value)
    ? ([...value] as never)
    : { ...(value as object) }
  copy[name] = changedAt(copy[name], rest, to)
  return copy
}

for (const [method, { read, may_be_null }] of Object.entries(READERS))
  test(`${method} of another type`, async () => {
    let truth: unknown
    node.lies = {
      [method]: (result) => {
        truth = result
        return result
      },
    }
    await read()
    expect(truth).toBeDefined()
    const said: unknown[] = []
    for (const place of placesOf(truth))
      for (const to of WRONG) {
        node.lies = { [method]: (result) => changedAt(result, place, to) }
        const error = await read().then(
          () => undefined,
          (thrown: Error) => thrown,
        )
        if (error === undefined) continue
        const { message = `${error.stack}` } = judge(error, 'URL') ?? {}
        const is_of_node = message === 'URL does not answer as a Solana node does: check --rpc'
        const is_root = place.length === 0 && !Array.isArray(truth) && !(may_be_null && to === null)
        const has_type = is_root && typeof to === typeof truth && typeof truth !== 'object'
        if (is_root && !has_type ? !is_of_node : /connection is lost|\n|undefined/.test(message))
          said.push([place.join('.'), to, message])
      }
    node.lies = {}
    expect(said).toEqual([])
  }, 240_000)
