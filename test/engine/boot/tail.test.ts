/** Files that decrypt and authenticate are believed only as far as the chain and the epoch's own signature reach. */
import { afterEach, beforeEach, expect, setDefaultTimeout, test } from 'bun:test'
import { cpSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { judgeJournal } from '../../../engine/boot/check_chain'
import type { CommandBody } from '../../../engine/commands'
import type { EngineConfig } from '../../../engine/config'
import type { GroupSigner, NewRecord } from '../../../engine/journal/contract'
import { openJournal } from '../../../engine/journal/open_journal'
import { openSnapshotStore } from '../../../engine/journal/snapshot_store'
import { encodeCommand } from '../../../engine/machine/codec/command_codec'
import { encodeState, stateHash } from '../../../engine/machine/codec/state_codec'
import { COMMAND_RECORD } from '../../../engine/sequencer/replayer'
import { Stores } from '../../../engine/stores/stores'
import { STATEMENT_BODY, venueId } from '../../../protocol/bodies/statements'
import { publicKeyOf, sign } from '../../../protocol/sign'
import { Ledger } from '../../kit/venue/memory_chain'
import { isAtRest, TestSite, type TestVenue } from '../../kit/venue/open_test_venue'
import { Trader } from '../../kit/venue/trader'

setDefaultTimeout(180_000)

let site: TestSite
let first: TestVenue
let trader: Trader
let resting: string
/** A venue with a resting order, anchored, and a record behind the anchor. */
beforeEach(async () => {
  site = new TestSite()
  first = await site.open()
  trader = await Trader.provisioned(first, 'alice')
  const request = trader.place(trader.deposit('quote', 200_000_000n))
  await first.chain.finalizeLeaves()
  resting = (await first.venue.place('alice', request)).order_id
  await first.engine.anchoring.now()
  await first.venue.deadMan('alice', trader.deadMan(0))
})
afterEach(() => site.remove())

const SEGMENT_BYTES = 2 * 1024 * 1024
/** Of boot records that open nothing. */
const NO_KEYS = { settlement_key: new Uint8Array(32), signature: new Uint8Array(64) }
/** The KMS owner's keys: every one but the statement key and the settlement key of the boot. */
const stranger = new Uint8Array(32).fill(66)
function signerBy(settlement_seed: Uint8Array, epoch: number, seed: Uint8Array = stranger): GroupSigner {
  const { genesis_hash, program_id, config_account } = first.chain
  const venue = venueId({ genesis_hash, program_id, config_account, generation: 0 })
  const statement_key = publicKeyOf(seed)
  const certificate = sign(
    settlement_seed,
    STATEMENT_BODY.encode({ venue, statement_key, epoch: BigInt(epoch) }),
  )
  return { venue, epoch, seed, statement_key, certificate }
}
const recordOf = (body: CommandBody): NewRecord => {
  return { type: COMMAND_RECORD, unix_ms: 1, body: encodeCommand({ ...body, unix_ms: 1 }) }
}
/** Appends records to the journal in `dir` as an attacker who has the journal key. */
async function forge(signer: GroupSigner, groups: CommandBody[][], dir = site.dir): Promise<void> {
  const { journal_key: key } = site.keys
  const journal = await openJournal({ dir: join(dir, 'journal'), key, segment_bytes: SEGMENT_BYTES })
  journal.signAs(signer)
  for (const group of groups) await journal.append(group.map(recordOf))
  await journal.close()
}
const PARTS = ['journal', 'snapshots', 'history', 'facts', 'trees']
function copyTo(name: string, from = site.dir): string {
  const to = join(site.dir, name)
  for (const part of PARTS) {
    cpSync(join(from, part), join(to, part), { recursive: true, filter: isAtRest })
  }
  return to
}
async function refused(dir: string, because: RegExp, change: Partial<EngineConfig> = {}): Promise<TestVenue> {
  const { epoch } = site.ledger.config
  const open = await site.open(change, dir)
  expect(open.venue.status()).toMatchObject({ ready: false, matching: 'stopped' })
  expect(open.venue.status().reasons.join()).toMatch(because)
  expect(site.ledger.config.epoch).toBe(epoch)
  await open.close()
  return open
}
async function trades(dir = site.dir): Promise<void> {
  const open = await site.open({}, dir)
  expect(open.venue.status()).toMatchObject({ ready: true })
  expect((await open.venue.order('alice', resting)).status).toBe('accepted')
  await open.close()
}
const FREEZE: CommandBody = { kind: 'halted', reason: 'vault_frozen' }

test('a tail that another key signed is refused with the remedy, for any claim of it', async () => {
  await first.close()
  const { settlement_seed } = site.keys
  const boot = { boot_nonce: new Uint8Array(16).fill(5), generation: 0, ...NO_KEYS }
  const intended: CommandBody = { kind: 'epoch_intended', epoch: 2, ...boot, transaction: new Uint8Array(3) }
  const forgeries: [string, GroupSigner, CommandBody[][]][] = [
    ['no certificate', signerBy(stranger, 1), [[FREEZE]]],
    ['a certificate for another epoch', { ...signerBy(settlement_seed, 7), epoch: 1 }, [[FREEZE]]],
    ['an earlier epoch', signerBy(settlement_seed, 0), [[FREEZE]]],
    ['behind a boot record', signerBy(stranger, 1), [[intended], [FREEZE]]],
    ['in the group of a boot record', signerBy(stranger, 1), [[intended, FREEZE]]],
    ['as a release', signerBy(stranger, 1), [[{ kind: 'released' }]]],
  ]
  for (const [name, signer, groups] of forgeries) {
    const dir = copyTo(name)
    await forge(signer, groups, dir)
    await refused(dir, /tail_unsigned: .*put back the newest disk/)
  }
  // The statement key of the boot itself, with a certificate that is not the settlement key's.
  const dir = copyTo('own key')
  await forge(signerBy(stranger, 1, site.keys.statement_seed), [[FREEZE]], dir)
  await refused(dir, /tail_unsigned/)
  await trades()
})

test('nothing of a journal is replayed whose author the chain does not show, whichever reason it brings about', async () => {
  await first.close()
  const { seq } = first.engine.loaded.journal.head()
  const boot = { boot_nonce: new Uint8Array(16).fill(5), generation: 0, signature: new Uint8Array(64) }
  const settlement_key = publicKeyOf(stranger)
  const transaction = new Uint8Array(3)
  const intended: CommandBody = { kind: 'epoch_intended', epoch: 2, ...boot, settlement_key, transaction }
  const forged: [string, RegExp, CommandBody[]][] = [
    ['by the key of a forged boot record', /chain_unknown/, [FREEZE]],
    ['with an auction that no replay can hold', /chain_unknown/, [decision(seq)]],
    ['where the chain is ahead', /rolled_back/, [FREEZE]],
    ['where the chain has another head', /forked/, [FREEZE]],
  ]
  const { config } = site.ledger
  for (const [name, because, group] of forged) {
    const dir = copyTo(name)
    await forge(signerBy(stranger, 2), [[intended], group], dir)
    if (String(because) === '/rolled_back/') site.ledger.config = { ...config, journal_seq: seq + 100 }
    if (String(because) === '/forked/')
      site.ledger.config = { ...config, journal_head: new Uint8Array(32).fill(1) }
    const open = await refused(dir, because)
    expect([open.engine.state.halted, open.engine.state.epochs.length]).toEqual([undefined, 0])
    expect(open.engine.loaded.history.watermark()).toBeLessThanOrEqual(seq)
    site.ledger.config = config
  }
  await trades()
})
const decision = (seq: number): CommandBody => {
  return { kind: 'decided', seq, outcome: 'committed', slot: 1, epoch: 1, commit_seq: seq }
}

test('an unsigned tail does not make a used journal one that a restore from the chain may continue', async () => {
  await first.close()
  await forge(signerBy(stranger, 1), [[FREEZE]])
  const announced = { action: 'authorize_restore', effective_unix_s: 1, value: '' }
  site.ledger.config = { ...site.ledger.config, pending: [announced] }
  await refused(site.dir, /tail_unsigned/)
})

test('boot records alone are accepted in any number, and bring nothing with them', async () => {
  await first.close()
  const intended = (epoch: number): CommandBody => ({
    kind: 'epoch_intended',
    epoch,
    boot_nonce: crypto.getRandomValues(new Uint8Array(16)),
    generation: 0,
    ...NO_KEYS,
    transaction: new Uint8Array(3),
  })
  for (let epoch = 2; epoch < 8; epoch++) await forge(signerBy(stranger, epoch), [[intended(epoch)]])
  await trades()
})

test('a later epoch in use means another chain; a shorter journal and another history are distinguished', async () => {
  await first.close()
  const old = copyTo('old')
  const config = { ...site.ledger.config }
  const second = await site.open()
  await second.venue.cancel('alice', resting, trader.cancel(resting))
  await second.engine.anchoring.now()
  await second.close()
  await refused(old, /rolled_back/)
  site.ledger.config = config
  await refused(site.dir, /chain_unknown/)
  site.ledger.config = { ...config, journal_head: new Uint8Array(32).fill(1) }
  await refused(old, /forked/)
  const { settlement_signer } = config
  site.ledger.config = { ...new Ledger([], settlement_signer).config }
  await refused(site.dir, /chain_unknown/)
})

test('a journal of another chain is neither behind this one nor another instance’s', async () => {
  const { genesis_hash, program_id, config_account } = first.chain
  const chain = { genesis_hash, program_id, config_account }
  await first.close()
  const journal = await openJournal({ dir: join(site.dir, 'journal'), key: site.keys.journal_key })
  const ahead = { ...site.ledger.config, journal_seq: 9_999 }
  const verdicts = [chain, { ...chain, genesis_hash: new Uint8Array(32).fill(3) }].map((of) =>
    judgeJournal(ahead, of, journal),
  )
  expect((await Promise.all(verdicts)).map(({ fault }) => fault)).toEqual(['rolled_back', 'chain_unknown'])
  await journal.close()
})

test('a position that another instance stores after the chain was read is judged before an epoch opens over it', async () => {
  await first.close()
  const copy = copyTo('copy')
  const { config } = site.ledger
  const padding = { boot_nonce: new Uint8Array(16).fill(5), generation: 0, ...NO_KEYS }
  const boot: CommandBody = { kind: 'epoch_intended', epoch: 2, ...padding, transaction: new Uint8Array(3) }
  await forge(signerBy(stranger, 2), [[boot], [boot]], copy)
  const foreign = { journal_seq: config.journal_seq + 1, journal_head: new Uint8Array(32).fill(1) }
  site.ledger.before_opening = () => {
    site.ledger.config = { ...site.ledger.config, ...foreign }
  }
  await refused(copy, /forked/)
  site.ledger.before_opening = () => {}
  site.ledger.config = config
  await trades()
})

test('a snapshot that the journal does not name is no start, nor one that a forged tail names', async () => {
  const { state, loaded } = first.engine
  const point = { ...loaded.journal.head() }
  await first.close()
  const whole = stateHash(state)
  // A state without the resting order, as a snapshot of the newest record under the venue's own key.
  const other = new TestSite()
  const robbed = (await other.open()).engine.state
  const store = openSnapshotStore({ dir: join(site.dir, 'snapshots'), key: site.keys.journal_key })
  const state_hash = await store.writeSnapshot(point, () => [encodeState(robbed)], undefined)
  await other.remove()
  expect(state_hash).not.toEqual(whole)
  const named = copyTo('named')
  const stores = Stores.empty({ dir: join(site.dir, 'stores'), key: site.keys.journal_key })
  const without = { catalogue_hash: stores.write(point.seq), covered: stores.covered }
  await forge(
    signerBy(stranger, 1),
    [[{ kind: 'snapshot_taken', seq: point.seq, state_hash, ...without }]],
    named,
  )
  await refused(named, /tail_unsigned/)
  await trades()
})

test('older snapshots start no older state, alone or with older files', async () => {
  await first.engine.snapshotting.now()
  const older = copyTo('older')
  await first.venue.deadMan('alice', trader.deadMan(0))
  await first.venue.drain()
  await first.close()
  const newest = copyTo('newest')
  // The older snapshot with the newest journal: the replay is longer, the state the same.
  rmSync(join(newest, 'snapshots'), { recursive: true })
  cpSync(join(older, 'snapshots'), join(newest, 'snapshots'), { recursive: true })
  expect(readdirSync(join(newest, 'snapshots')).length).toBeGreaterThan(0)
  await trades(newest)
  // The newest snapshot with the older journal, and the older of both: the chain is ahead of them.
  const mixed = copyTo('mixed', older)
  cpSync(join(site.dir, 'snapshots'), join(mixed, 'snapshots'), { recursive: true })
  await refused(mixed, /rolled_back/)
  await refused(older, /rolled_back/)
})
