/** Whole venues over one log, on the embedded chain and three real members: following, takeover, deposition, joining. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import type { ChainFault } from '../../engine/boot/check_chain'
import { loadState } from '../../engine/boot/load_state'
import { Etcd } from '../../engine/cluster/etcd'
import { LogGap, ReplicatedLog } from '../../engine/cluster/replicated_log'
import { LIMITS } from '../../engine/limits'
import { encodeCommand } from '../../engine/machine/codec/command_codec'
import { stateHash } from '../../engine/machine/codec/state_codec'
import { COMMAND_RECORD } from '../../engine/sequencer/replayer'
import { fromHex, toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import { derOfPem } from '../../protocol/x509/certificate'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { USDC } from '../../sandbox/environment'
import { failure } from '../engine/journal/folder'
import { CutLink } from '../kit/etcd/cut_link'
import { follower } from '../kit/etcd/follower'
import { entryOf, entryOfGroups } from '../kit/etcd/log_entries'
import { dataOf, putBack } from '../kit/etcd/put_back'
import { EmbeddedTrading } from '../kit/venue/embedded_site'
import type { JsonVenue } from '../kit/venue/json_venue'
import { filesOf, findMarks, marksOf, missedPlants } from '../kit/venue/marks'

const LIMIT_MS = 120_000
const { log_kept_bytes } = LIMITS
beforeAll(() => Object.assign(LIMITS, { log_kept_bytes: 0 }))
afterAll(() => Object.assign(LIMITS, { log_kept_bytes }))
let etcd: EtcdCluster
let trading: EmbeddedTrading

const clusterOf = () => ({ cluster: { endpoints: etcd.endpoints, tls: etcd.tls } })
const dirOf = (node: number) => join(trading.site.dir, `node-${node}`)
const openOn = (node: number) => trading.site.openVenue(dirOf(node), clusterOf())

/** `leading` resolves once it has taken over, and it opens no epoch then. */
const follow = (node: number) => follower(trading.site, dirOf(node), clusterOf())

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await Bun.sleep(5)
}

/** Places so many orders, which rest. */
async function orders(venue: JsonVenue, count: number): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const order = trading.alice.place(await trading.deposited(trading.alice, USDC, 200_000_000n), {
      expiry_slot: venue.time().slot + 5_000,
      price_limit: '90000000',
    })
    await venue.place('alice', order)
    ids.push(order.order_id)
  }
  return ids
}

async function traders(venue: JsonVenue): Promise<void> {
  trading.site.venue = venue
  await trading.admit()
}

const logOf = (venue: JsonVenue) =>
  new ReplicatedLog(new Etcd({ endpoints: etcd.endpoints, tls: etcd.tls }), {
    key: trading.site.keys.journal_key,
    venue: fromHex(venue.identity().venue, 32)!,
  })

/** The empty log of a venue that one machine ran and stopped, its orders, and its position on chain. */
async function ofOneMachine(count: number) {
  const alone = await trading.site.openVenue(dirOf(1))
  await traders(alone)
  const kept = await orders(alone, count)
  const log = logOf(alone)
  await alone.drain()
  const { journal_seq } = await trading.site.port.readConfig()
  await alone.close()
  return { log, kept, journal_seq }
}

/** Runs the command of the operator. */
async function repaired(venue: string, args: string[]): Promise<{ code: number; error: string }> {
  const der = (text: string, label: string) => Buffer.from(derOfPem(text, label)![0]!).toString('base64')
  const { ca, cert, key } = etcd.tls
  const child = Bun.spawn(
    [process.execPath, join(import.meta.dir, '../../tools/cluster/main.ts'), '--venue', venue, ...args],
    {
      env: {
        ...process.env,
        TACIT_ETCD_URLS: etcd.endpoints.join(','),
        TACIT_ETCD_CA: der(ca, 'CERTIFICATE'),
        TACIT_ETCD_CERT: der(cert, 'CERTIFICATE'),
        TACIT_ETCD_KEY: der(key, 'PRIVATE KEY'),
      },
      stdin: 'ignore',
      stdout: 'ignore',
      stderr: 'pipe',
    },
  )
  const error = await new Response(child.stderr).text()
  return { code: await child.exited, error }
}

/** etcd reserves 64 MB of zeros for each write-ahead log, which it fills from the start. */
function writtenPart(member: number) {
  return ([path, content]: [string, Buffer]): [string, Buffer] => {
    const end = path.endsWith('.wal') ? content.indexOf(Buffer.alloc(1024 * 1024)) : -1
    return [`${member}/${path}`, end < 0 ? content : content.subarray(0, end)]
  }
}

describe.skipIf(ETCD === undefined)('venues over one log', () => {
  beforeAll(async () => {
    etcd = await EtcdCluster.start()
  }, LIMIT_MS)
  afterAll(() => etcd?.stop(), LIMIT_MS)
  beforeEach(async () => {
    trading = new EmbeddedTrading()
    await trading.site.openChain()
  }, LIMIT_MS)
  afterEach(async () => {
    await trading.site.remove()
  }, LIMIT_MS)

  test(
    'followers have the state of the leader, and one of them takes over when it ends',
    async () => {
      const first = await openOn(1)
      // The log keeps the entries that a node which reported lacks.
      const early = await follow(4)
      await until(() => early.loaded.journal.head().seq > 0)
      await early.stop()
      // An empty node that starts later may find a gap.
      for (const node of [2, 3]) cpSync(dirOf(4), dirOf(node), { recursive: true })
      const followers = [await follow(2), await follow(3)]
      await traders(first)
      await orders(first, 2)
      await trading.cross(first)
      await trading.until('alice', ({ kind }) => kind === 'fill.finalized')
      const late = await follow(4)
      expect([late.loaded.verdict.fault, late.loaded.state.orders.size]).toEqual(['rolled_back', 0])
      followers.push(late)
      await until(() => late.loaded.verdict.fault === undefined)
      expect(late.loaded.state.orders.size).toBeGreaterThan(0)
      await first.close()
      const winner = await Promise.race(followers.map(({ leading }, i) => leading.then(() => i)))
      const lead = followers[winner]!
      // A start of the first leader would begin from this.
      const { config, ports } = await trading.site.parts(dirOf(1))
      const own = await loadState(config, ports, await ports.chain.readConfig())
      const seen = [own, ...followers.map(({ loaded }) => loaded)]
      const hashes = () => new Set(seen.map(({ state }) => toHex(stateHash(state))))
      await until(() => hashes().size === 1)
      expect(lead.loaded.verdict.fault).toBeUndefined()
      expect(new Set(seen.map(({ journal }) => JSON.stringify(journal.head()))).size).toBe(1)
      expect(own.state.orders.size).toBeGreaterThan(0)
      await own.journal.close()
      await own.history.close()
      await ports.chain.close()
      await ports.hash.close()
      for (const one of followers) await one.stop()
    },
    LIMIT_MS,
  )

  test(
    "the leader removes a follower's entries; an empty node finds a gap, and joins from the folder of that follower",
    async () => {
      const first = await openOn(1)
      await traders(first)
      await orders(first, 2)
      const helper = await follow(2)
      const log = logOf(first)
      const newest = () => log.look().then(({ head }) => head.seq)
      await until(() => helper.loaded.journal.head().seq > 10)
      await helper.stop()
      // The leader removes entries that are on the disk of the node for which it keeps the rest.
      const START = { seq: 0, head: new Uint8Array(32) }
      while (!((await log.read(START).catch((error) => error)) instanceof LogGap)) await Bun.sleep(50)
      const { seq } = helper.loaded.journal.head()
      const reports = await log.reports()
      // The leader's own.
      reports.delete((await log.look()).term!.node)
      expect([...reports.values()].map((one) => one.seq <= seq)).toEqual([true])
      const empty = await follow(4)
      expect(await failure(empty.leading)).toBeInstanceOf(LogGap)
      await empty.stop()
      cpSync(dirOf(2), dirOf(3), { recursive: true })
      const joined = await follow(3)
      await orders(first, 1)
      const target = await newest()
      await until(() => joined.loaded.journal.head().seq >= target)
      await joined.stop()
      await first.close()
    },
    LIMIT_MS,
  )

  test(
    'over a backup of etcd no node leads or acknowledges; a repair from the journal that is ahead loses nothing',
    async () => {
      const first = await openOn(1)
      await traders(first)
      const kept = await orders(first, 1)
      const backup = (one: number) => join(trading.site.dir, `backup-${one}`)
      await putBack(etcd, dataOf(etcd), backup)
      kept.push(...(await orders(first, 2)))
      const money = await trading.deposited(trading.alice, USDC, 200_000_000n)
      await putBack(etcd, backup, dataOf(etcd))
      const late = trading.alice.place(money, { expiry_slot: first.time().slot + 5_000 })
      expect(await first.place('alice', late).catch(() => 'not acknowledged')).toBe('not acknowledged')
      await until(() => trading.site.fatal.length > 0)
      await first.close()

      const again = await follow(1)
      const refused = (await failure(again.leading)) as Error
      expect(refused.name).toBe('LogRolledBack')
      const { seq, head } = again.loaded.journal.head()
      await again.stop()
      const venue = first.identity().venue
      expect(refused.message).toContain(`venue ${venue}, seq ${seq}, head ${toHex(head)}`)

      const repair = (...args: string[]) => repaired(venue, args)
      // A journal that ends before the log repairs nothing.
      expect(await repair('--seq', '1', '--head', toHex(head))).toMatchObject({ code: 1 })
      expect(await repair('--seq', `${seq}`, '--head', toHex(head))).toMatchObject({ code: 0 })
      const second = await openOn(1)
      trading.site.venue = second
      for (const order_id of kept)
        expect(await second.order('alice', order_id)).toMatchObject({ order_id, status: 'accepted' })
      await orders(second, 1)
      const seqs = (await trading.events('alice')).map((one) => one.seq)
      expect(seqs).toEqual(seqs.map((_, i) => i + 1))
      // An empty node is behind the log, which begins after the repair.
      const empty = await follow(4)
      expect(await failure(empty.leading)).toBeInstanceOf(LogGap)
      await empty.stop()
      await second.close()
    },
    LIMIT_MS,
  )

  test(
    'a leader that is cut off from etcd answers no token a second later, and a revocation waits for the one before',
    async () => {
      const links = await Promise.all(etcd.endpoints.map((endpoint) => CutLink.open(endpoint)))
      const cluster = { endpoints: links.map(({ url }) => url), tls: etcd.tls }
      const first = await trading.site.openVenue(dirOf(1), { cluster })
      trading.site.venue = first
      const credentials = await trading.site.issue('alice')
      const tokenOf = async () => (await first.login(credentials)).access_token
      const [kept, revoked] = [await tokenOf(), await tokenOf()]
      await first.revoke(first.authenticate(revoked))
      for (const link of links) link.cut()
      const cut_ms = performance.now()
      const codeOf = () => {
        try {
          first.authenticate(kept)
          return undefined
        } catch (error) {
          return (error as Refusal).code
        }
      }
      expect(codeOf()).toBeUndefined()
      await until(() => codeOf() !== undefined)
      expect(codeOf()).toBe('lease_lost')
      expect(performance.now() - cut_ms).toBeLessThan(LIMITS.right_ms + 250)
      for (const link of links) link.mend()
      await until(() => codeOf() === undefined)
      await first.close()
      for (const link of links) link.close()
    },
    LIMIT_MS,
  )

  test(
    'a journal that the chain contradicts, since the log went on without its end, names no place for a repair',
    async () => {
      const first = await openOn(1)
      await traders(first)
      const helper = await follow(2)
      const [log, prefix] = [logOf(first), `tacit/${first.identity().venue}/`]
      // Without slots no batch closes, so the chain's position is not beyond the helper's.
      trading.site.chain.stall(true)
      const { head } = await log.look()
      await until(() => helper.loaded.journal.head().seq >= head.seq)
      await helper.stop()
      const access = new Etcd({ endpoints: etcd.endpoints, tls: etcd.tls })
      const { found } = await access.txn([], [{ range: prefix, to: `${prefix}~`, most: 10_000 }])
      const versions = Array.from({ length: 400 }, (_, i) => i + 2)
      await Promise.all(versions.map((version) => first.provision({ account_id: 'alice', version })))
      // The owner of etcd puts an older copy back, and the operator starts the shorter journal.
      await access.txn([], [{ remove: prefix, to: `${prefix}~` }])
      for (const { key, value } of found[0]!) await access.txn([], [{ put: key, value }])
      await failure(first.provision({ account_id: 'alice', version: 402 }))
      await until(() => trading.site.fatal.length > 0)
      trading.site.chain.stall(false)
      await first.close()
      const second = await openOn(2)
      expect(second.status()).toMatchObject({ matching: 'running' })
      const again = await follow(1)
      const refused = (await failure(again.leading)) as Error
      await again.stop()
      expect(refused.name).toBe('LogRolledBack')
      expect(refused.message).toContain('the chain contradicts this journal')
      expect(refused.message).not.toContain('head')
      await second.close()
    },
    LIMIT_MS,
  )

  test(
    'a cluster over copies of etcd and of a disk that the chain is ahead of acknowledges nothing',
    async () => {
      const clone = await EtcdCluster.start()
      try {
        const first = await openOn(1)
        await traders(first)
        await orders(first, 1)
        const helper = await follow(2)
        const { head } = await logOf(first).look()
        await until(() => helper.loaded.journal.head().seq >= head.seq)
        await helper.stop()
        // Copied by the host: every key of the log, and the disk of a node.
        const prefix = `tacit/${first.identity().venue}/`
        const all = { range: prefix, to: `${prefix}~`, most: 10_000 }
        const { found } = await new Etcd({ endpoints: etcd.endpoints, tls: etcd.tls }).txn([], [all])
        const access = { endpoints: clone.endpoints, tls: clone.tls }
        for (const { key, value } of found[0]!) await new Etcd(access).txn([], [{ put: key, value }])
        // The traders read the chain through a separate port: the node's port is closed.
        const { ports } = await trading.site.parts(join(trading.site.dir, 'onlooker'))
        await trading.cross(first)
        await trading.until('alice', ({ kind }) => kind === 'fill.finalized')
        await ports.chain.close()
        await ports.hash.close()
        const second = await trading.site.openVenue(dirOf(2), { cluster: access })
        expect(second.status()).toMatchObject({ matching: 'stopped', ready: false })
        expect(second.status().reasons.join()).toContain('rolled_back')
        const late = { account_id: 'late', version: 1 }
        expect(await failure(second.provision(late))).toBeInstanceOf(Refusal)
        await second.close()
        // The venue that was copied goes on.
        expect(first.status().reasons.join()).not.toContain('forked')
        trading.site.venue = first
        await trading.site.issue('carol')
        await first.close()
      } finally {
        await clone.stop()
      }
    },
    LIMIT_MS,
  )

  test(
    'a log begins from the journal of one machine',
    async () => {
      const { log, kept } = await ofOneMachine(2)
      const refused = await follow(1)
      expect(((await failure(refused.leading)) as Error).name).toBe('LogRolledBack')
      const end = refused.loaded.journal.head()
      await refused.stop()
      await log.beginBehind(end)
      cpSync(dirOf(1), dirOf(2), { recursive: true })
      const first = await openOn(1)
      trading.site.venue = first
      const follower = await follow(2)
      await orders(first, 1)
      const { head } = await log.look()
      await until(() => follower.loaded.journal.head().seq >= head.seq)
      for (const order_id of kept)
        expect(await first.order('alice', order_id)).toMatchObject({ order_id, status: 'accepted' })
      await follower.stop()
      await first.close()
    },
    LIMIT_MS,
  )

  test(
    'an entry under the key of the venue that no boot of it signed is not taken',
    async () => {
      const first = await openOn(1)
      const { loaded, leading, stop } = await follow(2)
      const log = logOf(first)
      const { head } = await log.look()
      await until(() => loaded.journal.head().seq >= head.seq)
      const term = await log.takeTerm(9, head)
      const { head: from } = await log.look()
      await log.append(term, entryOf(from, 'forged'))
      expect(((await failure(leading)) as Error).name).toBe('EntryUnsigned')
      expect(loaded.journal.head()).toEqual(from)
      await until(() => trading.site.fatal.length > 0)
      await stop()
      await first.close()
    },
    LIMIT_MS,
  )

  test(
    'of forged entries below the position on chain nothing is replayed, before the chain contradicts them or after',
    async () => {
      const { log, journal_seq } = await ofOneMachine(1)
      expect(journal_seq).toBeGreaterThan(1)
      const command = encodeCommand({ kind: 'halted', reason: 'vault_frozen', unix_ms: 1 })
      const freeze = { type: COMMAND_RECORD, unix_ms: 1, body: command }
      const rounds: [number, ChainFault, number][] = [
        [2, 'rolled_back', 1],
        [3, 'forked', journal_seq - 1],
      ]
      for (const [node, fault, count] of rounds) {
        const { head: end } = await log.look()
        const term = await log.takeTerm(9, end)
        const { head } = await log.look()
        await log.append(term, entryOfGroups(head, [Array.from({ length: count }, () => freeze)]))
        const { leading, stop } = await follow(node)
        const { verdict, state, history, facts, journal } = await leading
        expect(journal.head().seq).toBe(head.seq + count)
        const seen = [verdict.fault, state.halted, history.watermark(), facts.watermark()]
        expect(seen).toEqual([fault, undefined, 0, 0])
        await stop()
      }
    },
    LIMIT_MS,
  )

  test(
    'no member has an order, a key or a login on its disk',
    async () => {
      const first = await openOn(1)
      trading.site.venue = first
      const { api_secret, passphrase } = await trading.site.issue('alice')
      trading.alice = trading.trader('alice')
      const money = await trading.deposited(trading.alice, USDC, 200_000_000n)
      const order = trading.alice.place(money, { expiry_slot: first.time().slot + 5_000 })
      await first.place('alice', order)
      const files = new Map([0, 1, 2].flatMap((one) => [...filesOf(etcd.dataDir(one))].map(writtenPart(one))))
      const { journal_key, settlement_seed, statement_key } = trading.site.keys
      const keys = [journal_key, settlement_seed, statement_key, trading.alice.key, trading.alice.seed]
      const ids = [
        order.order_id,
        order.collateral_commitment,
        ...order.continuation_anchors,
        order.signature,
      ]
      const texts = [order.trading_key, money.opening.blinding, api_secret, passphrase]
      const marks = marksOf([...keys.map(toHex), ...ids, ...texts])
      expect(findMarks(files, marks)).toEqual([])
      expect(missedPlants(files, marks)).toEqual([])
      // The names of the log are there in clear: these are the files that have it.
      const named = findMarks(files, new Map([['name', Buffer.from(`tacit/${first.identity().venue}/log/`)]]))
      expect(named.length).toBeGreaterThanOrEqual(3)
      await first.close()
    },
    LIMIT_MS,
  )
})
