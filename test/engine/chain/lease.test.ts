/** By which right an instance acts: own epoch, own position and the chain's time, as a quorum of providers shows them. */
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { advancedHead } from '../../kit/chain/kinds_of_lies'
import { LyingEndpoint } from '../../kit/chain/lying_endpoint'
import { COMPOSE_HASH, VaultWorld } from '../../kit/chain/vault_world'

setDefaultTimeout(180_000)

let world: VaultWorld
let endpoints: LyingEndpoint[]
beforeEach(async () => {
  world = await VaultWorld.open()
  endpoints = [1, 2, 3].map(() => new LyingEndpoint(world.chain.url))
  await world.boot({ connect: { rpc_urls: endpoints.map(({ url }) => url) } })
})
afterEach(async () => {
  await world.close()
  await Promise.all(endpoints.map((endpoint) => endpoint.stop()))
})
const age = () => world.port.lease().age_ms
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await Bun.sleep(5)
}

test('one silent provider of three ages no view, two do until they answer again', async () => {
  await until(() => age() < 2_000)
  endpoints[0]!.silent = true
  await Bun.sleep(2_500)
  await until(() => age() < 2_000)
  endpoints[1]!.silent = true
  await until(() => age() > 3_000)
  for (const endpoint of endpoints) endpoint.silent = false
  await until(() => age() < 2_000)
})

test('the epoch of another instance leaves no right at once, however young the view', async () => {
  await until(() => Number.isFinite(age()))
  const other = await world.connect()
  const boot_nonce = new Uint8Array(16).fill(9)
  const { epoch } = await other.readConfig()
  const compose_hash = COMPOSE_HASH
  const spentRoot = async () => (await other.readConfig()).spent_root
  const passes = async () => true
  const position = { ...world.outbox.head(), restore: false, passes, spentRoot }
  await other.openEpoch({ epoch: epoch + 1, boot_nonce, compose_hash, ...position }, async () => {})
  await until(() => age() === Number.POSITIVE_INFINITY)
  await other.close()
})

test('a position far ahead covers nothing, whoever shows it, and an anchor that landed covers', async () => {
  for (const endpoint of endpoints) endpoint.lies = advancedHead()
  await until(() => endpoints.every(({ lied }) => lied > 3))
  // The opening covered its own position before the lies.
  await until(() => world.port.lease().covered_seq === 0)
  for (let looks = 0; looks < 50; looks++) {
    expect(world.port.lease().covered_seq).toBe(0)
    await Bun.sleep(5)
  }
  for (const endpoint of endpoints) endpoint.lies = {}
  const { seq, head } = world.outbox.head()
  await world.port.anchor(seq, { seq, head })
  await until(() => world.port.lease().covered_seq === seq)
})

test("the time is the chain's, and goes on while the chain stands still", async () => {
  const before = world.port.view().unix_ms
  world.chain.warpTime(86_400)
  await until(() => world.port.view().unix_ms > before + 86_000_000)
  world.chain.stall(true)
  const stalled = world.port.view().unix_ms
  await until(() => world.port.view().unix_ms > stalled + 500)
})
