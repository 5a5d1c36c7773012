/** One provider lies to a whole venue: orders, exits and fills follow the honest ones, and the status names it. */
import { afterEach, expect, test } from 'bun:test'
import { decodeBase58, encodeBase58 } from '../../protocol/base58'
import { fromHex } from '../../protocol/bytes'
import { nullifierOf } from '../../protocol/notes/notes'
import { JTO, USDC } from '../../sandbox/environment'
import * as lies from '../kit/chain/lying_endpoint'
import { LyingEndpoint } from '../kit/chain/lying_endpoint'
import { EmbeddedTrading, requestExit, soon } from '../kit/venue/embedded_site'
import { type Deposit, element } from '../kit/venue/trader'

let world: EmbeddedTrading
let liar: LyingEndpoint
afterEach(async () => {
  await world.site.remove()
  await liar.stop()
})

async function open(providers: number): Promise<void> {
  world = new EmbeddedTrading()
  const { site } = world
  await site.openChain()
  liar = new LyingEndpoint(site.chain.url)
  site.rpc_urls = [liar.url, ...new Array(providers - 1).fill(site.chain.url)]
  await site.openVenue()
  for (const id of ['alice', 'bob']) await site.issue(id)
  world.alice = world.trader('alice')
  world.bob = world.trader('bob')
}

const status = () => world.site.venue.status()
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await soon()
}
/** The process ended once without the invented exits, and the next one is ready. */
async function startedAgain(): Promise<void> {
  const { site } = world
  await until(() => site.fatal.length > 0)
  expect(site.fatal.splice(0).map(({ message }) => message)).toEqual([
    'exits that were never requested left their batches',
  ])
  await site.venue.close()
  await site.openVenue()
  await until(() => status().ready)
}
const named = () => status().reasons.some((reason) => reason.endsWith(liar.host))

async function liveOrder(): Promise<{ order_id: string; deposit: Deposit }> {
  const deposit = await world.deposited(world.alice, USDC, 200_000_000n)
  const expiry_slot = world.alice.site.ledger.slot + 5_000
  const { order_id } = await world.site.venue.place('alice', world.alice.place(deposit, { expiry_slot }))
  return { order_id, deposit }
}

test.each([2, 3])(
  'of %d, one shows a freeze: the order lives, and of 3 the venue stays ready',
  async (providers) => {
    await open(providers)
    const { order_id } = await liveOrder()
    liar.lies = lies.frozen()
    await until(named)
    expect(status()).toMatchObject({ ready: providers === 3, matching: 'running', settlement: 'degraded' })
    // Two that contradict each other are no quorum.
    expect(status().reasons.includes('no_quorum')).toBe(providers === 2)
    expect(await world.site.venue.order('alice', order_id)).toMatchObject({ status: 'accepted' })
    liar.lies = {}
    await until(() => status().settlement === 'wired')
  },
  120_000,
)

test('the only one shows a freeze: the order is lost, but the truth starts the venue again', async () => {
  await open(1)
  const { order_id } = await liveOrder()
  liar.lies = lies.frozen()
  await until(() => status().matching === 'stopped')
  // A member of a closed batch ends behind its decision.
  await world.until('alice', ({ kind }) => kind === 'order.cancelled')
  const ended = await world.site.venue.order('alice', order_id)
  expect(ended).toMatchObject({ status: 'cancelled', reason: 'vault_frozen' })
  liar.lies = {}
  await until(() => status().ready)
  await world.cross()
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
}, 120_000)

test('of three, one hides an exit: it is served', async () => {
  await open(3)
  liar.lies = lies.hiddenExits()
  const { order_id, deposit } = await liveOrder()
  const destination = await world.payee(USDC)
  const { account } = await requestExit(world.site, world.alice, deposit as never, destination)
  await world.untilAccount(account, true)
  await world.untilAccount(account, false)
  await world.untilBalance(destination, 200_000_001n)
  expect(await world.site.venue.order('alice', order_id)).toMatchObject({ reason: 'note_exited' })
}, 120_000)

test('of two, one hides an exit: its note is frozen at once, and it is served with the truth', async () => {
  await open(2)
  liar.lies = lies.hiddenExits()
  const { order_id, deposit } = await liveOrder()
  const destination = await world.payee(USDC)
  const { account } = await requestExit(world.site, world.alice, deposit as never, destination)
  await world.until('alice', ({ kind }) => kind === 'note.exited')
  expect(await world.site.venue.order('alice', order_id)).toMatchObject({ reason: 'note_exited' })
  await until(named)
  expect(world.site.chain.machine.accountAt(encodeBase58(account), 'confirmed')).toBeDefined()
  liar.lies = {}
  await world.untilAccount(account, false)
  await world.untilBalance(destination, 200_000_001n)
}, 120_000)

test('the only one invents an exit with its owner’s nullifier: no one is paid, and the truth starts the venue again', async () => {
  await open(1)
  const { site } = world
  const { order_id, deposit } = await liveOrder()
  const commitment = fromHex(deposit.commitment, 32)!
  const nullifier = nullifierOf(commitment, fromHex(deposit.opening.blinding, 32)!)
  const thief = await world.payee(USDC)
  const mint = decodeBase58(USDC, 32)!
  const asked = { nullifier, destination: thief, amount: 200_000_000n }
  liar.lies = lies.inventedExit(site.chain.program_id!, commitment, mint, asked)
  await until(() => status().matching === 'stopped')
  expect(status()).toMatchObject({ ready: false })
  expect(status().reasons.join()).toContain('program_error: the vault program rejected')
  expect(await site.venue.order('alice', order_id)).toMatchObject({ reason: 'note_exited' })
  liar.lies = {}
  await startedAgain()
  const expiry_slot = site.venue.time().slot + 5_000
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  await site.venue.place('alice', world.alice.place(deposit, { expiry_slot }))
  await site.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  expect(world.balance(thief)).toBe(1n)
  expect((await site.port.readConfig()).spent_root).toEqual(site.hash.spent().root)
  expect(site.fatal).toEqual([])
}, 180_000)

test('the only one invents an exit with the nullifier of a note that trades: one start, and the fill is final', async () => {
  await open(1)
  const { site } = world
  const { deposit } = await liveOrder()
  const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
  const mint = decodeBase58(USDC, 32)!
  const nullifier = nullifierOf(fromHex(deposit.commitment, 32)!, fromHex(deposit.opening.blinding, 32)!)
  const asked = { nullifier, amount: 200_000_000n }
  liar.lies = lies.inventedExit(site.chain.program_id!, element(), mint, asked)
  while (site.port.health().reasons.length === 0 && liar.lied < 2) await soon()
  const expiry_slot = site.venue.time().slot + 5_000
  await site.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
  await startedAgain()
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  expect((await site.port.readConfig()).spent_root).toEqual(site.hash.spent().root)
  expect(site.fatal).toEqual([])
}, 180_000)

test('the only one invents 40 exits: with the truth one start leaves all of them', async () => {
  await open(1)
  const { site } = world
  const mint = decodeBase58(USDC, 32)!
  liar.lies = lies.inventedExits(
    Array.from({ length: 40 }, () => lies.exitAccount(site.chain.program_id!, element(), mint)),
  )
  await until(() => status().reasons.some((reason) => reason.startsWith('program_error')))
  liar.lies = {}
  await startedAgain()
  await world.cross()
  await world.until('alice', ({ kind }) => kind === 'fill.finalized')
  expect((await site.venue.transparency()).exits).toEqual([])
  expect(site.fatal).toEqual([])
}, 180_000)

test.each([1, 2, 3])(
  'of %d, one invents an exit of a note: its order lives',
  async (providers) => {
    await open(providers)
    const { order_id, deposit } = await liveOrder()
    const commitment = fromHex(deposit.commitment, 32)!
    liar.lies = lies.inventedExit(world.site.chain.program_id!, commitment, decodeBase58(USDC, 32)!)
    await until(() => liar.lied > 8 && (providers === 1 || named()))
    expect(await world.site.venue.order('alice', order_id)).toMatchObject({ status: 'accepted' })
    // An only provider is the quorum: its invented request is packed, and the program rejects the batch.
    if (providers === 3) expect(status()).toMatchObject({ ready: true })
  },
  120_000,
)
