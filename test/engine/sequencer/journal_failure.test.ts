/** A journal that cannot write ends the venue, one that hangs turns clients away; receipts are rebuilt as they were. */

import { afterEach, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LIMITS } from '../../../engine/limits'
import { createState } from '../../../engine/machine/state/state'
import {
  ReceiptCache,
  type ReceiptGroup,
  receiptOf,
  receiptsOf,
  receiptTreeOf,
} from '../../../engine/sequencer/receipts'
import { Sequencer } from '../../../engine/sequencer/sequencer'
import { Refusal } from '../../../protocol/refusals'
import { sha256 } from '../../../protocol/sha256'
import { admission, FIXED_HASH_SEED, settings } from '../../kit/venue/machine_world'
import { TestSite } from '../../kit/venue/open_test_venue'
import { refusalOf } from '../../kit/venue/refusal_of'
import { Trader } from '../../kit/venue/trader'

const site = new TestSite()
afterEach(() => site.remove())

for (const trouble of ['write_fails', 'sync_fails'] as const) {
  test(`once a ${trouble}, every waiting and later command is refused, and the process is told to end once`, async () => {
    const exists = join(site.dir, 'fails')
    const open = await site.open({}, site.dir, { while: { exists, trouble } })
    const alice = await Trader.provisioned(open, 'alice')
    const requests = [1, 2].map(() => alice.place(alice.deposit('quote', 200_000_000n)))
    await open.chain.finalizeLeaves()
    await open.engine.sequencer.durable()
    writeFileSync(exists, '')
    const answers = await Promise.all(
      requests.map((request) => refusalOf(open.venue.place('alice', request))),
    )
    expect(answers.map(({ code }) => code)).toEqual(['internal', 'internal'])
    expect(open.fatal).toHaveLength(1)
    const [first] = requests
    expect((await refusalOf(open.venue.place('alice', first!))).code).toBe('matching_unavailable')
    expect((await refusalOf(open.venue.order('alice', first!.order_id))).code).toBe('order_unknown')
    const nonces = async () => await open.venue.nonces('alice', alice.trading_key)
    expect((await refusalOf(nonces())).code).toBe('internal')
    expect(open.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  })
}

/** A sequencer on a journal that takes its first group and never says that it is on disk. */
function hangingSequencer() {
  const state = createState(FIXED_HASH_SEED)
  const fatal: Error[] = []
  const sequencer = new Sequencer({
    state,
    env: {},
    journal: {
      head: () => ({ seq: 0, head: new Uint8Array(32) }),
      append: () => new Promise(() => {}),
      signAs: () => undefined,
    },
    arrived: () => undefined,
    barred: () => undefined,
    clock: { unixMs: () => 1, monotonicMs: () => 1 },
    durable: () => {},
    released: () => undefined,
    fatal: (error) => fatal.push(error),
  })
  void sequencer.submit({ kind: 'configure', settings: settings() })
  return { sequencer, state, fatal }
}

test('a client is refused when too many commands wait for the disk; slots, halts and disconnects still enter', async () => {
  const { sequencer, state, fatal } = hangingSequencer()
  for (let slot = 1; slot <= LIMITS.queue_commands_max; slot++)
    void sequencer.submit({ kind: 'slot', reopens_slot: 0, slot })
  const record = admission('alice')
  const refused = await refusalOf(sequencer.submit(record, new Uint8Array(64)))
  expect([refused.code, refused.facts]).toEqual(['matching_unavailable', { subsystem: 'journal' }])
  expect(state.accounts.size).toBe(0)

  void sequencer.submit(record)
  void sequencer.submit({ kind: 'slot', reopens_slot: 0, slot: LIMITS.queue_commands_max + 1 })
  void sequencer.submit({ kind: 'halted', reason: 'vault_frozen' })
  expect([state.accounts.size, state.slot, state.halted]).toEqual([
    1,
    LIMITS.queue_commands_max + 1,
    'vault_frozen',
  ])
  expect(fatal).toEqual([])
})

test('from the signature of its boot on the sequencer takes boot records alone, until the epoch is open', async () => {
  const { sequencer, state, fatal } = hangingSequencer()
  const key = new Uint8Array(32)
  const signature = new Uint8Array(64)
  sequencer.signAs({ venue: key, epoch: 1, seed: key, statement_key: key, certificate: signature })
  const boot = { epoch: 1, boot_nonce: new Uint8Array(16), generation: 0, settlement_key: key, signature }
  void sequencer.submit({ kind: 'epoch_intended', ...boot, transaction: new Uint8Array(3) })
  const early = sequencer.submit({ kind: 'halted', reason: 'vault_frozen' })
  await expect(early).rejects.toThrow('halted before the epoch is open')
  expect([state.epochs.length, state.halted]).toEqual([1, undefined])
  sequencer.opened()
  void sequencer.submit({ kind: 'halted', reason: 'vault_frozen' })
  expect([state.halted, fatal]).toEqual(['vault_frozen', []])
})

test('a receipt that is made again is the one that was given', () => {
  const appended = { seq_last: 9, head: new Uint8Array(32), signature: new Uint8Array(64).fill(1) }
  for (const count of [1, 2, 3, 8, 27]) {
    const bodies = Array.from({ length: count }, (_, at) => Uint8Array.of(count, at))
    const { group, receipts } = receiptsOf(3, appended, receiptTreeOf(bodies))
    expect(receipts).toHaveLength(count)
    receipts.forEach((receipt, index) => {
      expect(receiptOf(group, index)).toEqual(receipt)
    })
  }
})

const idOf = (serial: number) => sha256(new Uint8Array(new Uint32Array([serial]).buffer)).slice(0, 16)

function groupOf(seq: number, size: number): ReceiptGroup {
  const hash = (at: number) => sha256(Uint8Array.of(seq, seq >> 8, seq >> 16, at))
  const leaves = Array.from({ length: size }, (_, at) => hash(at))
  return { epoch: 1, seq, head: hash(253), root: hash(254), signature: new Uint8Array(64).fill(seq), leaves }
}

test.each([1, 3, 40])(
  'the newest commands find their receipts in groups of up to %i, others none',
  (size) => {
    const cache = new ReceiptCache(FIXED_HASH_SEED)
    const all: { group: ReceiptGroup; index: number }[] = []
    const commands = LIMITS.receipts_kept_max + 3_000
    for (let seq = 1; all.length < commands; seq++) {
      const group = groupOf(seq, 1 + (seq % size))
      // Not every command of a group makes something that is found by an id.
      for (let index = seq % 2; index < group.leaves.length; index++) {
        cache.set(idOf(all.length), group, index)
        all.push({ group, index })
      }
    }
    const oldest = all.length - LIMITS.receipts_kept_max
    for (let serial = 0; serial < oldest; serial++) expect(cache.get(idOf(serial))).toBeUndefined()
    for (let serial = oldest; serial < all.length; serial += 97) {
      const { group, index } = all[serial]!
      expect(cache.get(idOf(serial))).toEqual(receiptOf(group, index))
    }
    expect(cache.get(idOf(oldest))).toBeDefined()
    expect(cache.get(idOf(all.length - 1))).toEqual(receiptOf(all.at(-1)!.group, all.at(-1)!.index))
  },
)

test('an id that is made twice finds the newer command, also once the older one has gone', () => {
  const cache = new ReceiptCache(FIXED_HASH_SEED)
  const [first, second] = [groupOf(1, 2), groupOf(2, 2)]
  cache.set(idOf(0), first, 0)
  cache.set(idOf(1), first, 1)
  cache.set(idOf(0), second, 1)
  expect(cache.get(idOf(0))).toEqual(receiptOf(second, 1))
  const rest = groupOf(3, 1)
  for (let serial = 2; serial <= LIMITS.receipts_kept_max; serial++) cache.set(idOf(serial), rest, 0)
  expect(cache.get(idOf(0))).toEqual(receiptOf(second, 1))
  expect(cache.get(idOf(1))).toBeUndefined()
  cache.set(idOf(LIMITS.receipts_kept_max + 1), rest, 0)
  expect(cache.get(idOf(0))).toBeUndefined()
})

test('a refusal waits until the state that it depends on is on disk', async () => {
  const { sequencer } = hangingSequencer()
  void sequencer.submit(admission('alice'))
  const refused = refusalOf(sequencer.submit(admission('alice'), new Uint8Array(64)))
  expect(await Promise.race([refused, Bun.sleep(20)])).toBeUndefined()
  sequencer.stop(new Refusal('draining'))
  expect((await refused).code).toBe('draining')
})

test('where a node has given its term away, a read is asked again, and a command may have been executed', async () => {
  const { sequencer } = hangingSequencer()
  void sequencer.submit(admission('alice')).catch(() => undefined)
  const waits = [
    refusalOf(sequencer.durable(true)),
    refusalOf(sequencer.submit(admission('alice'), new Uint8Array(64))),
  ]
  await Bun.sleep(1)
  sequencer.stop(new Refusal('outcome_unknown'))
  const later = [
    refusalOf(sequencer.durable(true)),
    refusalOf(sequencer.submit(admission('bob'), new Uint8Array(64))),
  ]
  const codes = (await Promise.all([...waits, ...later])).map(({ code }) => code)
  expect(codes).toEqual(['lease_lost', 'outcome_unknown', 'lease_lost', 'outcome_unknown'])
})
