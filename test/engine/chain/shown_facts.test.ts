/** One provider lies about what `/transparency` shows: announcements and mints are those of the quorum. */
import { expect, test } from 'bun:test'
import { decodeAnnouncement } from '../../../protocol/vault/accounts'
import { type Lie, LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { VaultWorld } from '../../kit/chain/vault_world'

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
