/** A restore from the chain that dies at each of its steps: the next boot continues it, whether the opening landed or not. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { assemble } from '../../../engine/boot/assemble'
import { loadState } from '../../../engine/boot/load_state'
import { isRestore, isRestoreFinal, restoredConfig } from '../../../engine/boot/restore'
import { start } from '../../../engine/boot/start'
import { close } from '../../../engine/boot/stop'
import { openJournal } from '../../../engine/journal/open_journal'
import { LIMITS } from '../../../engine/limits'
import { decodeCommand } from '../../../engine/machine/codec/command_codec'
import { type ChainPort, EpochTaken, type VaultConfig } from '../../../engine/ports'
import { COMMAND_RECORD } from '../../../engine/sequencer/replayer'
import { JTO, USDC } from '../../../sandbox/environment'
import { forgedSpends, LyingEndpoint, notFound } from '../../kit/chain/lying_endpoint'
import { announceRestore } from '../../kit/vault/open_vault'
import { EmbeddedTrading, soon } from '../../kit/venue/embedded_site'
import { type DiskFaults, failing } from '../../kit/venue/failing_disk'
import { isAtRest } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { testAccounts } from '../../kit/venue/test_login'
import type { Deposit } from '../../kit/venue/trader'
import { recordsOf } from '../journal/folder'

const world = new EmbeddedTrading()
const { site } = world
const { restore_batches_per_command_max } = LIMITS
const SEGMENT_BYTES = 2 * 1024 * 1024
/** The opening of the journal writes the last frame again, then come the boot record, one record and the failure. */
const ONE_RECORD: DiskFaults = { write_fails_at: 4 }
let spent: Deposit
let kept: Deposit
/** Behind the first batch. */
let early: VaultConfig

/** Two settled batches, a note of alice that is spent and one that is not, and an announced restore. */
beforeAll(async () => {
  Object.assign(LIMITS, { restore_batches_per_command_max: 1 })
  await world.open()
  kept = await world.deposited(world.alice, USDC, 300_000_000n)
  for (let batch = 1; batch <= 2; batch++) {
    spent = await world.deposited(world.alice, USDC, 200_000_000n)
    const goods = await world.deposited(world.bob, JTO, 3_000_000_000n)
    const expiry_slot = site.venue.time().slot + 5_000
    await site.venue.place('alice', world.alice.place(spent, { expiry_slot }))
    await site.venue.place('bob', world.bob.place(goods, { side: 'sell', expiry_slot }))
    while ((await site.port.readConfig()).last_batch < batch) await soon()
    if (batch === 1) early = await site.port.readConfig()
  }
  await site.venue.drain()
  await site.venue.close()
  site.chain.warpTime(await announceRestore(site.chain))
}, 120_000)
afterAll(async () => {
  Object.assign(LIMITS, { restore_batches_per_command_max })
  await site.remove()
})

type Opening = ChainPort['openEpoch']
type Booted = { end: string; restores: boolean; generation: number; kinds: string[] }
type Step = ReturnType<typeof Promise.withResolvers<void>>
/** Where a boot dies: at a write of its journal, or around the opening of its epoch. */
type Death = {
  faults?: DiskFaults
  opening?: (real: Opening, ...args: Parameters<Opening>) => ReturnType<Opening>
  /** As the first reading shows the vault. */
  first?: (vault: VaultConfig) => VaultConfig
  /** As the later ones show it, by their number from 1 on. */
  later?: (vault: VaultConfig, reads: number, first: VaultConfig) => VaultConfig
}

/** One boot of the venue in `dir`, which ends where it serves, is rejected or fails: how, and from which reading of the chain. */
async function boot(dir: string, { faults, opening, ...shown }: Death): Promise<Booted> {
  const { config, ports } = await site.parts(dir, { lease_ms: 400 })
  const { chain } = ports
  const real: Opening = chain.openEpoch.bind(chain)
  chain.openEpoch = (...args) => (opening === undefined ? real(...args) : opening(real, ...args))
  const { first: firstOf = (one) => one, later = (one) => one } = shown
  const vault = firstOf(await chain.readConfig())
  const mints = await chain.readMints()
  const readNow = chain.readConfig.bind(chain)
  let reads = 0
  chain.readConfig = async (...level) => later(await readNow(...level), ++reads, vault)
  const loaded = await loadState(config, ports, vault, { segment_bytes: SEGMENT_BYTES, ...failing(faults) })
  const restores = await isRestore(vault, loaded)
  const first = restores ? restoredConfig(vault) : vault
  const all = { ...ports, fatal: () => undefined }
  const engine = assemble(config, all, loaded, { config: first, mints }, testAccounts)
  const end = await start(engine, first, restores).then(
    () => engine.availability.status().reasons.join() || 'serves',
    (error: Error) => `${error.name}: ${error.message}`,
  )
  await close(engine)
  const kinds: string[] = []
  const { journal_key: key } = ports.keys
  const journal = await openJournal({ dir: join(dir, 'journal'), key, segment_bytes: SEGMENT_BYTES })
  for await (const { type, body } of recordsOf(journal))
    if (type === COMMAND_RECORD) kinds.push(decodeCommand(body).kind)
  await journal.close()
  return { end, restores, generation: vault.generation, kinds }
}

async function readOnce(): Promise<VaultConfig> {
  const { ports } = await site.parts(join(site.dir, 'reader'))
  const vault = await ports.chain.readConfig()
  await Promise.all([ports.chain.close(), ports.hash.close()])
  return vault
}

const BOOT = 'epoch_intended'
const PAST = ['configure', 'spent_restored', 'spent_restored', 'queue_restored']

test('one provider of three that hides the history, or shows other spends, prevents no restore', async () => {
  const liar = new LyingEndpoint(site.chain.url)
  site.rpc_urls = [liar.url, site.chain.url, `${site.chain.url}/second`]
  const opening = async () => {
    throw new Error('the past is whole')
  }
  for (const lies of [notFound(), forgedSpends()]) {
    liar.lies = lies
    expect((await boot(join(site.dir, 'lied to'), { opening })).end).toBe('Error: the past is whole')
    expect(liar.lied).toBeGreaterThan(0)
  }
  site.rpc_urls = undefined
  await liar.stop()
}, 120_000)

test('a batch that landed behind the first reading of a restore is of the past that it restores', async () => {
  let openings = 0
  const { end, restores } = await boot(join(site.dir, 'behind'), {
    first: ({ pending }) => ({ ...early, pending }),
    opening: async (_, { spentRoot }) => {
      openings += 1
      if ((await spentRoot(2)) === undefined)
        throw new EpochTaken('the chain has batches that this journal lacks')
      throw new Error('the past is whole')
    },
  })
  expect({ end, restores, openings }).toEqual({
    end: 'Error: the past is whole',
    restores: true,
    openings: 2,
  })
}, 120_000)

/** Boots that die behind one more record each; `before`: the vault before the restore. */
async function journalsPast(disk: string, before: VaultConfig): Promise<void> {
  for (const [at, kind] of PAST.entries()) {
    let taken = at > 0
    const { restores, generation, kinds } = await boot(disk, {
      faults: ONE_RECORD,
      // A provider behind the restore, which the first reading showed, undoes it as little as one behind any epoch.
      opening: async (real, ...args) => {
        if (taken) return real(...args)
        taken = true
        throw new EpochTaken('a fork')
      },
      later: (now, reads) => (at === 0 && reads <= 2 ? before : now),
    })
    expect([restores, generation]).toEqual([false, 1])
    expect(kinds.filter((one) => one !== BOOT)).toEqual([...PAST.slice(0, at), kind])
  }
}

test('a restore is final once the chain shows its generation, through readings that fail; a venue that stops before waits no longer', async () => {
  const shown = [undefined, 0, undefined, 0, 1]
  let reads = 0
  const chain = {
    async readConfig() {
      const generation = shown[reads++]
      if (generation === undefined) throw new Error('no provider answers')
      return { generation }
    },
    view: () => ({ slot_ms: 0 }),
  }
  const judge = (isStopped: () => boolean) =>
    isRestoreFinal({ chain, availability: { isStopped } } as never, 1)
  expect([await judge(() => false), reads]).toEqual([true, 5])
  reads = 0
  expect([await judge(() => reads === 3), reads]).toEqual([false, 3])
})

test('a restore that dies at any step is continued by the next boot', async () => {
  const dir = join(site.dir, 'restored')
  const before = await readOnce()
  const unsent = await boot(dir, {
    opening: (real, args, record) =>
      real(args, async (...signed) => {
        await record(...signed)
        throw new Error('died unsent')
      }),
  })
  expect(unsent).toEqual({ end: 'Error: died unsent', restores: true, generation: 0, kinds: [BOOT] })

  // A process that dies with its opening on the way: the next one finds its disk, and reads the chain before that lands.
  const disk = join(site.dir, 'disk')
  const [signed, sent, landed] = [0, 1, 2].map(() => Promise.withResolvers<void>()) as [Step, Step, Step]
  const dying = boot(dir, {
    opening: async (real, args, record) => {
      await real(args, async (...transaction) => {
        await record(...transaction)
        cpSync(dir, disk, { recursive: true, filter: isAtRest })
        signed.resolve()
        await sent.promise
      })
      landed.resolve()
      throw new Error('died')
    },
  })
  await signed.promise
  const overtaken = await boot(disk, {
    faults: { write_fails_at: 3 },
    // The opening that landed meanwhile is not final.
    later: (now, reads, before) => (reads === 1 ? before : now),
    opening: async (real, ...args) => {
      sent.resolve()
      await landed.promise
      return real(...args)
    },
  })
  expect((await dying).end).toBe('Error: died')
  // The announcement is used up, and only boot records are journaled; its own epoch was open when the disk failed.
  expect(overtaken.end).toStartWith('Refusal: ')
  expect(overtaken).toMatchObject({ restores: true, generation: 0, kinds: [BOOT, BOOT, BOOT] })

  // An announcement that came since is of no need here: the restore goes on without it.
  await announceRestore(site.chain)
  await journalsPast(disk, before)
  expect(await boot(disk, {})).toMatchObject({ end: 'serves', restores: false, generation: 1 })

  const venue = await site.openVenue(disk)
  while (!venue.status().ready) await soon()
  expect((await venue.transparency()).settlement).toMatchObject({ generation: 1, last_batch: 2 })
  for (const account_id of ['alice', 'bob']) await site.issue(account_id)
  const { seed, key, trading_key } = world.alice
  const alice = Object.assign(world.trader('alice'), { seed, key, trading_key })
  const { leaf_count } = await site.port.readConfig()
  while (venue.treeRoot().leaf_count < leaf_count) await soon()
  while (!(await venue.treeInclusion(leaf_count - 1)).usable) await soon()
  const expiry_slot = venue.time().slot + 5_000
  expect((await refusalOf(venue.place('alice', alice.place(spent, { expiry_slot })))).code).toBe('note_spent')
  const order = await venue.place('alice', alice.place(kept, { expiry_slot }))
  expect(order.status).toBe('accepted')
  expect(site.fatal).toEqual([])
}, 120_000)
