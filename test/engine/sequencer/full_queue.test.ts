/** What happens when the disk hangs: clients are turned away at the bound, and nothing of the venue's own is lost. */
import { expect, test } from 'bun:test'
import { LIMITS } from '../../../engine/limits'
import { createState } from '../../../engine/machine/state/state'
import { Sequencer } from '../../../engine/sequencer/sequencer'
import { admission, FIXED_HASH_SEED, settings } from '../../kit/venue/machine_world'
import { refusalOf } from '../../kit/venue/refusal_of'

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
