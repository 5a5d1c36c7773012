/** A host with copies of disks and members: two clusters driven from one position, and a node on an older disk. */

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { PROOF_FORMAT, verifyReceiptOnChain } from '../../client/verify/verify_receipt'
import { commandBytes } from '../../client/wallet/prepare'
import { signerOf } from '../../engine/boot/start'
import { Etcd } from '../../engine/cluster/etcd'
import { ReplicatedLog } from '../../engine/cluster/replicated_log'
import { encodeBase58 } from '../../protocol/base58'
import { STATEMENT_BODY } from '../../protocol/bodies/statements'
import { fromHex, toHex } from '../../protocol/bytes'
import { Refusal } from '../../protocol/refusals'
import { publicKeyOf } from '../../protocol/sign'
import type { DeadManRequest, Receipt } from '../../protocol/wire/trading'
import { ETCD, EtcdCluster } from '../../sandbox/cluster/etcd_cluster'
import { USDC } from '../../sandbox/environment'
import { LyingEndpoint } from '../kit/chain/lying_endpoint'
import { type Follower, follower } from '../kit/etcd/follower'
import { EmbeddedTrading, soon } from '../kit/venue/embedded_site'
import type { JsonVenue } from '../kit/venue/json_venue'
import type { Trader } from '../kit/venue/trader'

const LIMIT_MS = 120_000
/** The bound of clusters. No anchor is due in the test. */
const LEASE_MS = 3_000
const TERMS = { lease_ms: LEASE_MS, anchor_max_ms: 60_000 }

let etcd: EtcdCluster
let trading: EmbeddedTrading
const dirOf = (node: number) => join(trading.site.dir, `node-${node}`)
const clusterOf = (members: EtcdCluster) => ({ cluster: { endpoints: members.endpoints, tls: members.tls } })
const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await Bun.sleep(5)
}

type Acknowledged = { at_ms: number; receipt: Receipt; request: DeadManRequest }

/** Commands one after the other until `stop`. */
function drive(venue: JsonVenue, trader: Trader) {
  const acknowledged: Acknowledged[] = []
  let stopped = false
  const run = async () => {
    while (!stopped) {
      const request = trader.deadMan(0)
      await venue.deadMan('alice', request).then(
        ({ receipt }) => acknowledged.push({ at_ms: performance.now(), receipt, request }),
        () => undefined,
      )
      await soon()
    }
  }
  const running = run()
  const stop = async () => {
    stopped = true
    await running
  }
  return { acknowledged, stop }
}

/** A third party's inputs to prove a receipt by the chain, from the keys of the boot that gave it. */
function certificateFor(venue: JsonVenue) {
  const { epoch, venue: id } = venue.identity()
  const { settlement_seed } = trading.site.keys
  const signer = signerOf(trading.site.keys, fromHex(id, 32)!, epoch)
  const statement = { venue: signer.venue, statement_key: signer.statement_key, epoch: BigInt(epoch) }
  return {
    certificate: toHex(STATEMENT_BODY.encode(statement)),
    certificate_signature: toHex(signer.certificate),
    tee_pubkey: encodeBase58(publicKeyOf(settlement_seed)),
  }
}

/** The receipt of a command, by the settlement keys of epochs. @throws ReceiptRefused */
async function prove(
  venue: JsonVenue,
  { request, receipt }: Acknowledged,
  certificate: ReturnType<typeof certificateFor>,
  epochs: ReadonlyMap<number, Uint8Array>,
): Promise<void> {
  const id = fromHex(venue.identity().venue, 32)!
  const command = toHex(commandBytes(id, { kind: 'dead_man', request }))
  await verifyReceiptOnChain({ format: PROOF_FORMAT, command, receipt, ...certificate }, epochs)
}

/** The log as it is once the node has all that it has now; the node is stopped. */
async function copyLog(venue: JsonVenue, node: Follower, to: EtcdCluster): Promise<void> {
  const from = new Etcd(clusterOf(etcd).cluster)
  const id = venue.identity().venue
  const sealing = { key: trading.site.keys.journal_key, venue: fromHex(id, 32)! }
  const { head } = await new ReplicatedLog(from, sealing).look()
  await until(() => node.loaded.journal.head().seq >= head.seq)
  await node.stop()
  const { found } = await from.txn([], [{ range: `tacit/${id}/`, to: `tacit/${id}/~`, most: 10_000 }])
  const copy = new Etcd(clusterOf(to).cluster)
  for (const { key, value } of found[0]!) await copy.txn([], [{ put: key, value }])
}

describe.skipIf(ETCD === undefined)('copies of disks', () => {
  beforeAll(async () => {
    etcd = await EtcdCluster.start()
  }, LIMIT_MS)
  afterAll(() => etcd?.stop(), LIMIT_MS)
  beforeEach(async () => {
    trading = new EmbeddedTrading()
    await trading.site.openChain()
  }, LIMIT_MS)
  afterEach(() => trading.site.remove(), LIMIT_MS)

  test(
    'two clusters from one position: both acknowledge for no longer than the lease, receipts prove it, and a token revoked at one is honoured by none',
    async () => {
      const { site } = trading
      const clone = await EtcdCluster.start()
      const own = new LyingEndpoint(site.chain.url)
      const other = new LyingEndpoint(site.chain.url)
      try {
        site.rpc_urls = [own.url]
        const first = await site.openVenue(dirOf(1), { ...clusterOf(etcd), ...TERMS })
        const credentials = await site.issue('alice')
        const { access_token: token } = await first.login(credentials)
        trading.alice = trading.trader('alice')
        const [first_keys, first_certificate] = [site.keys, certificateFor(first)]
        const helper = await follower(site, dirOf(2), clusterOf(etcd))
        // Without slots no batch closes, so no position moves, and the host copies.
        site.chain.stall(true)
        await first.deadMan('alice', trading.alice.deadMan(0))
        await copyLog(first, helper, clone)
        // Both clusters go on; the first one reads the chain no more from the moment at which the other's opening is sent.
        const driven = drive(first, trading.alice)
        await until(() => driven.acknowledged.length > 0)
        let silenced_ms = 0
        other.lies = {
          sendTransaction: () => {
            // Once: a transaction that is on its way when the first one reads again must not end that.
            if (silenced_ms > 0) return undefined
            own.silent = true
            silenced_ms = performance.now()
            site.chain.stall(false)
            return undefined
          },
        }
        site.rpc_urls = [other.url]
        const second = await site.openVenue(dirOf(2), { ...clusterOf(clone), ...TERMS })
        expect(second.status().matching).toBe('running')
        const position = await site.port.readConfig('confirmed')
        site.venue = second
        const beside = drive(second, trading.trader('alice'))
        await until(() => beside.acknowledged.length > 3)
        // The members of the first one still take its beats.
        await second.revoke(second.authenticate(token))
        for (const one of [first, second]) expect(() => one.authenticate(token)).toThrow(Refusal)
        await until(() => performance.now() - driven.acknowledged.at(-1)!.at_ms > LEASE_MS)
        await Promise.all([driven.stop(), beside.stop()])
        const [last, begun] = [driven.acknowledged.at(-1)!, beside.acknowledged[0]!]
        expect(last.at_ms - silenced_ms).toBeLessThanOrEqual(LEASE_MS)
        expect(last.at_ms - begun.at_ms).toBeLessThanOrEqual(LEASE_MS)
        console.log(`both acknowledged for ${Math.max(0, Math.round(last.at_ms - begun.at_ms))} ms`)

        // Either receipt is one by a key that the chain took, which shows the position from which the second epoch goes on.
        const epochs = new Map([
          [first.identity().epoch, publicKeyOf(first_keys.settlement_seed)],
          [second.identity().epoch, position.settlement_signer],
        ])
        await prove(first, last, first_certificate, epochs)
        await prove(second, begun, certificateFor(second), epochs)
        expect(position.epoch).toBe(begun.receipt.epoch)
        expect(last.receipt.epoch).toBe(position.epoch - 1)
        expect(last.receipt.seq).toBeGreaterThan(position.journal_seq)

        // The first cluster reads the chain again.
        other.lies = {}
        own.silent = false
        await until(() => first.status().reasons.join().includes('forked'))
        await first.close()
        await second.close()
      } finally {
        await Promise.all([own.stop(), other.stop(), clone.stop()])
      }
    },
    LIMIT_MS,
  )

  test(
    'a node on an older copy of its disk leads with everything that was acknowledged since, or not at all',
    async () => {
      const { site } = trading
      const first = await site.openVenue(dirOf(1), clusterOf(etcd))
      await site.issue('alice')
      trading.alice = trading.trader('alice')
      const place = async () => {
        const money = await trading.deposited(trading.alice, USDC, 200_000_000n)
        const order = trading.alice.place(money, {
          expiry_slot: first.time().slot + 5_000,
          price_limit: '90000000',
        })
        await first.place('alice', order)
        return order.order_id
      }
      const kept = [await place()]
      const has = (node: Follower) => node.loaded.state.orders.size === kept.length
      const early = await follower(site, dirOf(2), clusterOf(etcd))
      await until(() => early.loaded.journal.head().seq > 5)
      await early.stop()
      cpSync(dirOf(2), join(site.dir, 'older'), { recursive: true })
      const later = await follower(site, dirOf(2), clusterOf(etcd))
      kept.push(await place(), await place())
      await until(() => has(later))
      await later.stop()
      rmSync(dirOf(2), { recursive: true })
      cpSync(join(site.dir, 'older'), dirOf(2), { recursive: true })
      await first.close()
      const second = await site.openVenue(dirOf(2), clusterOf(etcd))
      site.venue = second
      for (const order_id of kept)
        expect(await second.order('alice', order_id)).toMatchObject({ order_id, status: 'accepted' })
      const seqs = (await trading.events('alice')).map(({ seq }) => seq)
      expect(seqs).toEqual(seqs.map((_, i) => i + 1))
      await second.close()
    },
    LIMIT_MS,
  )
})
