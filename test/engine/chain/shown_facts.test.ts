/** One provider lies about facts in `/transparency`: announcements and mints are those of the quorum. */
import { expect, test } from 'bun:test'
import { createKeyPairSignerFromPrivateKeyBytes } from '@solana/kit'
import { toInstruction } from '../../../engine/chain/client/build_transaction'
import { ChainUnavailable } from '../../../engine/chain/client/rpc_pool'
import { decodeBase58 } from '../../../protocol/base58'
import { toHex } from '../../../protocol/bytes'
import { decodeAnnouncement } from '../../../protocol/vault/accounts'
import { announceInstruction } from '../../../protocol/vault/admin'
import { type Lie, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { VaultWorld } from '../../kit/chain/vault_world'
import { landOn } from '../../kit/verify/site'

type Listed = { context: object; value: { account: { data: [string, string] } }[] }
const bytesOf = ({ account }: Listed['value'][number]) =>
  new Uint8Array(Buffer.from(account.data[0], 'base64'))

/** Answers without the announcement of a build. */
const hiddenBuild: Lie = (result) => {
  const { context, value } = result as Listed
  const shown = value.filter((one) => decodeAnnouncement(bytesOf(one))?.list !== 'build')
  return shown.length === value.length ? undefined : { context, value: shown }
}
/** Token vaults with a balance of 2^40 and more. */
const richVaults: Lie = (result) => {
  const { context, value } = result as Listed
  for (const account of value as unknown as ({ data: [string, string] } | null)[]) {
    const data = Buffer.from(account?.data[0] ?? '', 'base64')
    if (account === null || data.length !== 165) continue
    data[69] = 1
    account.data[0] = data.toString('base64')
  }
  return { context, value }
}

test('a provider that hides an announced build or invents a balance is overruled by two', async () => {
  const world = await VaultWorld.open()
  const liar = new LyingEndpoint(world.chain.url)
  try {
    await world.deposit(1_000n)
    const honest = [world.chain.url, world.chain.url]
    await world.boot({ connect: { rpc_urls: [liar.url, ...honest], rpc_timeout_ms: 2_000 } })
    const builds = async () =>
      (await world.port.readConfig()).announced.filter(({ list }) => list === 'build').length
    const balances = async () => (await world.port.readMints()).map(({ balance }) => balance)
    const [build_count, held] = [await builds(), await balances()]
    expect(build_count).toBeGreaterThan(0)
    liar.lies = { getProgramAccounts: hiddenBuild, getMultipleAccounts: richVaults }
    const lied = liar.lied
    for (let round = 0; round < 5; round++) {
      expect(await builds()).toBe(build_count)
      expect(await balances()).toEqual(held)
    }
    expect(liar.lied).toBeGreaterThan(lied)
  } finally {
    await world.close()
    await liar.stop()
  }
})

const BUILD = new Uint8Array(32).fill(0xd4)
/** Announces another build on the chain of a world. */
async function announceBuild({ chain }: VaultWorld): Promise<void> {
  const admin = await createKeyPairSignerFromPrivateKeyBytes(chain.admin_seed)
  const key = decodeBase58(admin.address, 32)!
  const fields = { program: chain.program_id!, admin: key, payer: key, list: 'build', id: BUILD } as const
  await landOn(chain, admin, toInstruction(announceInstruction({ ...fields, action: 'announce' }), [admin]))
}
const isBuild = (id: Uint8Array | undefined) => id !== undefined && toHex(id) === toHex(BUILD)
/** Answers without the announcement of that build, of the slot at which it was asked. */
const hiddenNext: Lie = (result) => {
  const { context, value } = result as Listed
  return { context, value: value.filter((one) => !isBuild(decodeAnnouncement(bytesOf(one))?.id)) }
}
/** The answers of one moment for as long as it is stopped, for any slot. */
class Stopped {
  private readonly kept = new Map<string, unknown>()
  is_stopped = false
  readonly lie: Lie = (result, { method, params }) => {
    const [first, { commitment, filters }] = params as [unknown, { commitment: string; filters?: unknown }]
    const name = JSON.stringify([method, first, commitment, filters ?? []], (_, one) =>
      typeof one === 'bigint' ? String(one) : one,
    )
    if (!this.is_stopped || !this.kept.has(name)) this.kept.set(name, result)
    return this.is_stopped ? this.kept.get(name) : undefined
  }
}

test('a provider that hides an announcement and one that is behind are no quorum', async () => {
  const world = await VaultWorld.open()
  const [hider, late] = [new LyingEndpoint(world.chain.url), new LyingEndpoint(world.chain.url)]
  const stopped = new Stopped()
  late.lies = { getMultipleAccounts: stopped.lie, getProgramAccounts: stopped.lie }
  try {
    await world.deposit(1_000n)
    const rpc_urls = [hider.url, late.url, world.chain.url]
    await world.boot({ connect: { rpc_urls, rpc_timeout_ms: 2_000 } })
    const shown = async () => {
      const { announced, slot } = await world.port.readConfig()
      return { slot, builds: announced.filter(({ id }) => isBuild(id)).length }
    }
    const before = await shown()
    expect(before.builds).toBe(0)
    const held = await world.port.readMints()
    stopped.is_stopped = true
    await announceBuild(world)
    world.chain.advance(100)
    hider.lies = { getProgramAccounts: hiddenNext }
    for (let round = 0; round < 3; round++)
      await expect(shown().catch((error: Error) => error)).resolves.toBeInstanceOf(ChainUnavailable)
    // The answer on which the other two agree is shown.
    expect((await world.port.readMints())[0]!.slot).toBeGreaterThan(held[0]!.slot + 50)
    stopped.is_stopped = false
    const after = await shown()
    expect(after).toEqual({ slot: expect.any(Number), builds: 1 })
    expect(after.slot).toBeGreaterThan(before.slot + 50)
  } finally {
    await world.close()
    await hider.stop()
    await late.stop()
  }
}, 120_000)

test('the shown slot is one that a quorum has reached, even if a provider names another', async () => {
  const world = await VaultWorld.open()
  const liar = new LyingEndpoint(world.chain.url)
  const claiming =
    (slot: number): Lie =>
    (result) => ({ ...(result as Listed), context: { slot } })
  try {
    await world.deposit(1_000n)
    const rpc_urls = [liar.url, world.chain.url, world.chain.url]
    await world.boot({ connect: { rpc_urls, rpc_timeout_ms: 2_000 } })
    for (const slot of [1_000_000_000, 1]) {
      liar.lies = { getProgramAccounts: claiming(slot), getMultipleAccounts: claiming(slot) }
      for (let round = 0; round < 5; round++) {
        const [config, mints] = [await world.port.readConfig(), await world.port.readMints()]
        for (const shown of [config.slot, mints[0]!.slot]) {
          expect(shown).toBeGreaterThan(1)
          expect(shown).toBeLessThan(1_000_000)
        }
      }
      expect(liar.lied).toBeGreaterThan(0)
    }
  } finally {
    await world.close()
    await liar.stop()
  }
}, 120_000)
