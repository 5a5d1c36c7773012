/** A journal that cannot write ends the venue; one that hangs turns clients away at a bound, and loses nothing of the venue's own. */
import { afterEach, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LIMITS } from '../../../engine/limits'
import { createState } from '../../../engine/machine/state/state'
import { Sequencer } from '../../../engine/sequencer/sequencer'
import { Refusal } from '../../../protocol/refusals'
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

test('a refusal waits until the state that it depends on is on disk', async () => {
  const { sequencer } = hangingSequencer()
  void sequencer.submit(admission('alice'))
  const refused = refusalOf(sequencer.submit(admission('alice'), new Uint8Array(64)))
  expect(await Promise.race([refused, Bun.sleep(20)])).toBeUndefined()
  sequencer.stop(new Refusal('draining'))
  expect((await refused).code).toBe('draining')
})
