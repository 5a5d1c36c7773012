/** Openings that count at confirmed, as in a cluster: unfinalized facts do not delay them, and a fork takes none away. */
import { expect, test } from 'bun:test'
import type { ChainPort } from '../../../engine/ports'
import { encodeBase58 } from '../../../protocol/base58'
import { equalBytes } from '../../../protocol/bytes'
import { decodeTransaction } from '../../../sandbox/chain/transaction_meta'
import { COMPOSE_HASH, VaultWorld } from '../../kit/chain/vault_world'

/** Slots: far more than an opening takes. */
const FINALIZED_DEPTH = 400
const LIMIT_MS = 120_000

const until = async (holds: () => boolean | Promise<boolean>): Promise<void> => {
  while (!(await holds())) await Bun.sleep(5)
}

function openConfirmed(
  world: VaultWorld,
  port: ChainPort,
  own: { seq: number; head: Uint8Array },
  counts: { level?: 'confirmed'; passes?: () => Promise<boolean> } = { level: 'confirmed' },
) {
  const boot_nonce = crypto.getRandomValues(new Uint8Array(16))
  const spentRoot = async () => (await port.readConfig('confirmed')).spent_root
  const passes = async () => true
  const terms = {
    compose_hash: COMPOSE_HASH,
    ...own,
    restore: false,
    passes,
    spentRoot,
    ...counts,
  } as const
  const epoch = world.epoch + 1
  const signatures: string[] = []
  const record = async (signature: Uint8Array) => void signatures.push(encodeBase58(signature))
  const opened = port.openEpoch({ epoch, boot_nonce, ...terms }, record)
  return { boot_nonce, epoch, opened, signatures }
}

test(
  'a position and an epoch that are not final yet are read, and the opening behind them does not wait',
  async () => {
    const world = await VaultWorld.open({}, FINALIZED_DEPTH)
    const first = await world.connect()
    const head = new Uint8Array(32).fill(7)
    const begun = openConfirmed(world, first, { seq: 1, head })
    await begun.opened
    world.epoch = begun.epoch
    void first.anchor(5, { seq: 5, head }).catch(() => undefined)
    await until(async () => (await first.readConfig('confirmed')).journal_seq === 5)
    const second = await world.connect()
    const from_slot = second.view().slot
    const next = openConfirmed(world, second, { seq: 6, head })
    const { slot } = await next.opened
    expect(slot - from_slot).toBeLessThan(FINALIZED_DEPTH / 4)
    expect((await second.readConfig('confirmed')).boot_nonce).toEqual(next.boot_nonce)
    expect((await second.readConfig()).epoch).toBe(0)
    await first.close()
    await second.close()
    await world.close()
  },
  LIMIT_MS,
)

test(
  'an opening that a fork takes back gives no lease, and is made again with its nonce until it is final',
  async () => {
    const world = await VaultWorld.open({}, FINALIZED_DEPTH)
    const port = await world.connect()
    // For some looks after the fork the chain shows a position of another instance, which is no failure of this one.
    let foreign = 0
    let rejected = 0
    const passes = async () => {
      if (rejected === foreign) return true
      rejected += 1
      return false
    }
    const own = { seq: 1, head: new Uint8Array(32) }
    const { boot_nonce, epoch, opened } = openConfirmed(world, port, own, { level: 'confirmed', passes })
    const { slot } = await opened
    await until(() => port.lease().age_ms < 2_000)
    foreign = 3
    const { chain } = world
    chain.stall(true)
    // Abandons the block of the opening and all after it.
    chain.fork(chain.slot() - slot + 1)
    chain.advance(2)
    await until(() => port.lease().age_ms === Number.POSITIVE_INFINITY)
    chain.stall(false)
    const reasons = new Set<string>()
    await until(() => {
      for (const reason of port.health().reasons) reasons.add(reason)
      return port.lease().age_ms < 2_000
    })
    expect([rejected, reasons.has('internal_error')]).toEqual([3, false])
    chain.advance(FINALIZED_DEPTH + 1)
    const now = await port.readConfig()
    expect([now.epoch, equalBytes(now.boot_nonce, boot_nonce)]).toEqual([epoch, true])
    await port.close()
    await world.close()
  },
  LIMIT_MS,
)

test(
  'an opening that a fork moves to another slot between two looks counts as confirmed from there',
  async () => {
    const world = await VaultWorld.open({}, 150)
    const port = await world.connect()
    const own = { seq: 1, head: new Uint8Array(32) }
    const { opened, signatures } = openConfirmed(world, port, own, {})
    const { chain } = world
    const landed = () => signatures.map((one) => chain.machine.store.transaction(one)).find(Boolean)
    await until(() => landed() !== undefined)
    // Enough for the first look at it.
    await Bun.sleep(500)
    const moved_ms = performance.now()
    const { bytes, slot } = landed()!
    chain.stall(true)
    chain.fork(chain.slot() - slot + 1)
    chain.advance(3)
    chain.machine.enqueue(decodeTransaction(bytes))
    chain.advance(3)
    chain.stall(false)
    const landing = await opened
    expect(landing.slot).not.toBe(slot)
    expect(landing.confirmed_ms).toBeGreaterThanOrEqual(moved_ms)
    await port.close()
    await world.close()
  },
  LIMIT_MS,
)
