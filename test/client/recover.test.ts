/** Recovery finds every note the derivation can have made, within its gap limits, and stops as soon as nothing is left. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { hashFast } from '../../client/wallet/hash_fast'
import { type GapLimits, RecoveryIncomplete, recoverWallet } from '../../client/wallet/recover'
import { HistoryIncomplete, vaultHistory } from '../../client/wallet/vault_history'
import { concatBytes, toHex } from '../../protocol/bytes'
import { deriveAnchor, deriveDepositBlinding } from '../../protocol/notes/derive'
import { encodeMemo, noteInner, nullifierOf, outputBlinding } from '../../protocol/notes/notes'
import { bytes } from '../kit/venue/memory_chain'
import { type MadeNote, MINTS, ToldHistory } from './told_history'

await hashFast()
const LIMITS: GapLimits = { keys: 2, deposits: 3, commands: 4 }
/** A search that does not stop by itself would not end within a test. */
const ENDLESS = 100_000_000

/** Notes that are found although the search says that more must exist. */
function partly(history: ToldHistory, generation = 0, limits = LIMITS): string[] {
  try {
    recovered(history, generation, limits)
  } catch (error) {
    if (error instanceof RecoveryIncomplete)
      return error.wallet.state.notes.map(({ commitment }) => commitment)
    throw error
  }
  throw new Error('the recovery ended as complete')
}
function recovered(history: ToldHistory, generation = 0, limits = LIMITS) {
  return recoverWallet(history.seed, history.read(), generation, limits)
}
function found(history: ToldHistory, generation = 0, limits = LIMITS): string[] {
  return recovered(history, generation, limits).state.notes.map(({ commitment }) => commitment)
}
const named = (notes: MadeNote[]): string[] => notes.map(({ commitment }) => toHex(commitment))

test('an unused seed has no notes and no counters', () => {
  const history = new ToldHistory()
  history.deposit(0, 0)
  const { state } = recoverWallet(bytes(32), history.read(), 0, LIMITS)
  expect(state).toMatchObject({ keys: [], notes: [], orders: [] })
})

test('keys and deposits are found across gaps up to the limit, and not beyond it', () => {
  const history = new ToldHistory()
  const near = [history.deposit(0, 3 - 1), history.deposit(0, 3 + 3 - 1), history.deposit(2, 0)]
  const far = new ToldHistory()
  expect(found(history)).toEqual(named(near))
  far.deposit(0, 3)
  far.deposit(2, 0)
  expect(found(far)).toEqual([])
  expect(found(far, 0, { ...LIMITS, deposits: 4, keys: 3 })).toHaveLength(2)
})

test('commands are found across gaps while a spent note is unexplained, and not beyond the limit', () => {
  const history = new ToldHistory()
  const note = history.deposit(0, 0)
  const [near, change] = [history.output(0, 3, { j: 0, role: 0 }), history.output(0, 3, { j: 0, role: 1 })]
  history.settle([note], [near, change])
  const second = history.output(0, 3 + 4, { j: 0, role: 0 })
  history.settle([change], [second])
  expect(found(history)).toEqual(named([note, near, change, second]))
  expect(recovered(history).counters(0)).toEqual({ commands: 8, deposits: 1, cancels: 0 })
  const far = new ToldHistory()
  const lost = far.deposit(0, 0)
  far.settle([lost], [far.output(0, 4, { j: 0, role: 0 })])
  expect(partly(far)).toEqual(named([lost]))
  expect(() => found(far)).toThrow('key 0 has commands or notes in settlement batch 1 that were not found (4')
  expect(found(far, 0, { ...LIMITS, commands: 5 })).toHaveLength(2)
})

test('20,000 orders that did not fill hide nothing', () => {
  const history = new ToldHistory()
  const note = history.deposit(0, 0)
  const fill = [0, 1].map((role) => history.output(0, 20_000, { j: 0, role: role as 0 | 1 }))
  history.settle([note], fill)
  const wallet = recoverWallet(history.seed, history.read(), 0)
  expect(wallet.state.notes.map(({ commitment }) => commitment)).toEqual(named([note, ...fill]))
  expect(wallet.counters(0).commands).toBe(20_001)
}, 180_000)

test('a command whose note is not found says so', () => {
  const history = new ToldHistory()
  const [near, far] = [history.deposit(0, 0), history.deposit(0, 5)]
  const made = [0, 1].map((n) => history.output(0, n, { j: 0, role: 0 }))
  history.settle([far], [made[0]!])
  history.settle([near], [made[1]!])
  // The second deposit lies beyond the gap limit, its command does not.
  expect(partly(history)).toEqual(named([near, ...made]))
  // A further command would not explain it, so none is looked for.
  expect(() => found(history)).toThrow('batch 1 that were not found (0 commands tried')
  expect(found(history, 0, { ...LIMITS, deposits: 6 })).toHaveLength(4)
})

test('commands are looked for beside merges of notes that are not found', () => {
  const history = new ToldHistory()
  const [first, second] = [0, 1].map((d) => history.deposit(0, d)) as MadeNote[]
  const far = [history.deposit(0, 5, 700n), history.deposit(0, 9, 600n)]
  const merged = history.output(0, 0, { j: 0, role: 1, payment: true, amount: 1_700n })
  const split = history.output(0, 1, { j: 0, role: 1, payment: true, amount: 600n })
  const fill = history.output(0, 2, { j: 0, role: 0 })
  history.settle([first!, second!, ...far], [merged, split, fill])
  expect(partly(history)).toEqual(named([first!, second!, merged, split, fill]))
})

test('the search ends with the last command when every spent note has the command that spent it', () => {
  const history = new ToldHistory()
  const [first, second, third] = [0, 1, 2].map((d) => history.deposit(0, d)) as [MadeNote, MadeNote, MadeNote]
  const fills = [0, 1, 2].flatMap((j) => [
    history.output(0, 1, { j, role: 0 }),
    history.output(0, 1, { j, role: 1 }),
  ])
  history.settle([first], fills.slice(0, 2))
  history.settle([fills[1]!], fills.slice(2, 4))
  history.settle([fills[3]!], fills.slice(4))
  const change = history.output(0, 2, { j: 0, role: 1, payment: true, amount: 1_000n })
  history.settle([second], [change])
  const notes = [first, second, third, ...fills, change]
  expect(found(history, 0, { ...LIMITS, commands: ENDLESS })).toEqual(named(notes))
  const states = recovered(history).state.notes.map(({ state }) => state)
  expect(states).toEqual(
    notes.map((note) => ([first, second, fills[1], fills[3]].includes(note) ? 'spent' : 'free')),
  )
})

test('fills are found for any number of anchors of the order', () => {
  for (const anchors of [1, 2, 3, 4, 5, 7, 16]) {
    const history = new ToldHistory()
    let collateral = history.deposit(0, 0)
    const notes = [collateral]
    for (let j = 0; j < 18; j++) {
      const of = { j, anchors }
      const made = [history.output(0, 0, { ...of, role: 0 }), history.output(0, 0, { ...of, role: 1 })]
      // Now and then a fill leaves only one of both.
      const left = j === 5 ? made.slice(1) : j === 17 ? made.slice(0, 1) : made
      history.settle([collateral], left)
      collateral = made[1]!
      notes.push(...left)
    }
    expect(found(history)).toEqual(named(notes))
  }
}, 120_000)

test('notes of earlier generations are found, each under its own', () => {
  const history = new ToldHistory()
  const [old, young] = [history.deposit(0, 0), history.deposit(0, 1)]
  const first = history.output(0, 0, { j: 0, role: 0, generation: 0 })
  const second = history.output(0, 2, { j: 0, role: 0, generation: 2 })
  history.settle([old], [first])
  history.settle([young], [second])
  expect(found(history, 2)).toEqual(named([old, young, first, second]))
  expect(partly(history, 1)).toEqual(named([old, young, first]))
})

test('outputs with equal tags are distinguished by their commitments', () => {
  const history = new ToldHistory()
  const note = history.deposit(0, 0)
  const own = history.output(0, 0, { j: 0, role: 0 })
  const stranger = { commitment: bytes(32), blinding: own.blinding, amount: 77n }
  const memo = (made: MadeNote) => {
    const right = encodeMemo(made.blinding, made.amount)
    return made === stranger ? concatBytes(right.subarray(0, 8), bytes(8)) : right
  }
  history.settle([note], [stranger, own], { memo })
  history.settle([], [{ ...stranger, commitment: bytes(32) }], { memo })
  expect(found(history)).toEqual(named([note, own]))
})

test('a merge, a split and a withdrawal are found with their notes', () => {
  const history = new ToldHistory()
  const notes = [0, 1, 2].map((d) => history.deposit(0, d))
  const merged = history.output(0, 0, { j: 0, role: 1, payment: true, amount: 2_000n })
  history.settle([notes[0]!, notes[1]!], [merged])
  const parts = [0, 1, 2, 3].map((j) => history.output(0, 1, { j, role: 1, payment: true }))
  history.settle([merged], parts)
  const wallet = recovered(history, 0, { ...LIMITS, commands: ENDLESS })
  expect(wallet.state.notes.map(({ origin }) => origin)).toEqual([
    ...Array(3).fill('deposit'),
    ...Array(5).fill('reshape'),
  ])
  expect(wallet.counters(0).commands).toBe(2)
  expect(wallet.state.notes.filter(({ state }) => state === 'spent')).toHaveLength(3)
})

test('a merge beside a command that comes later leaves that one to be found', () => {
  const history = new ToldHistory()
  const notes = [1_000n, 1_000n, 2_000n, 500n].map((amount, d) => history.deposit(0, d, amount))
  const merged = history.output(0, 0, { j: 0, role: 1, payment: true, amount: 2_000n })
  const later = [2, 3].map((n) => history.output(0, n, { j: 0, role: 0 }))
  history.settle(notes, [merged, ...later])
  const limits = { ...LIMITS, deposits: 5 }
  expect(found(history, 0, limits)).toEqual(named([...notes, merged, ...later]))
})

/** A deposit with an exit request whose refund is the key's next deposit. */
function requested(amount = 1_000n) {
  const history = new ToldHistory()
  const note = history.deposit(0, 0, amount)
  const nullifier = nullifierOf(note.commitment, note.blinding)
  const inner = noteInner(history.owner(), deriveDepositBlinding(history.seed, 0, 1))
  const about = { commitment: note.commitment, leaf_index: 0, mint: MINTS[0], amount, deadline_s: 9 }
  const request = { ...about, nullifier, refund_inner: inner, destination: bytes(32) }
  history.events.push({ kind: 'exit_requested', ...request })
  return { history, note, nullifier, payout: { amount, inner, nullifier } }
}
const stageOf = (history: ToldHistory, nullifier: Uint8Array) => history.read().exits.get(toHex(nullifier))

test('an exit explains its note; its refund is found where deposits are, and its blinding is not used again', () => {
  const { history, note, payout } = requested()
  expect(recovered(history).counters(0).deposits).toBe(2)
  history.settle([note], [], { payouts: [payout] })
  const search = () => recovered(history, 0, { ...LIMITS, commands: ENDLESS }).state.notes
  expect(search()).toMatchObject([{ commitment: toHex(note.commitment), state: 'spent' }])
  // Others append before the payment: the refund's leaf is the one that the payment states.
  history.deposit(1, 0)
  const commitment = toHex(history.pay(1, 'destination_missing')!)
  expect(search()).toMatchObject([
    { commitment: toHex(note.commitment), state: 'spent' },
    { commitment, state: 'free', leaf_index: 2, origin: 'refund' },
    { key_index: 1, origin: 'deposit' },
  ])
})

test('an exit goes from request to service to payment, a refund or a refusal, for any order of events', () => {
  const { history, note, nullifier, payout } = requested()
  const stages = () => {
    const whole = history.read()
    history.events.reverse()
    expect(history.read()).toEqual(whole)
    return stageOf(history, nullifier)
  }
  const about = { mint: MINTS[0], amount: 1_000n, deadline_s: 9 }
  expect(stages()).toEqual({ ...about, stage: 'requested' })
  history.settle([note], [], { payouts: [payout] })
  expect(stages()).toEqual({ ...about, stage: 'served', payout: 1 })
  history.pay(1)
  expect(stages()).toEqual({ ...about, stage: 'paid', payout: 1, outcome: 'paid' })
  const returned = requested()
  returned.history.settle([returned.note], [], { payouts: [returned.payout] })
  returned.history.pay(1, 'destination_frozen')
  const refunded = { ...about, stage: 'refunded', payout: 1, outcome: 'destination_frozen' } as const
  expect(stageOf(returned.history, returned.nullifier)).toEqual(refunded)
  const refused = requested()
  refused.history.settle([refused.note], [])
  const event = { kind: 'exit_refused', nullifier: refused.nullifier, refuser: bytes(32) } as const
  refused.history.events.push(event)
  expect(stageOf(refused.history, refused.nullifier)).toEqual({ ...about, stage: 'refused' })
})

test('a withdrawal explains its note while it waits, and its refund is found once it is paid back', () => {
  const history = new ToldHistory()
  const note = history.deposit(0, 0)
  const anchor = deriveAnchor(history.seed, 0, 0)
  const blinding = outputBlinding({
    anchor,
    order_id: new Uint8Array(16),
    nonce: 1n,
    generation: 0,
    index_role: 3,
  })
  const inner = noteInner(history.owner(), blinding)
  history.settle([note], [], { payouts: [{ amount: 900n, inner }] })
  const endless = { ...LIMITS, commands: ENDLESS }
  expect(found(history, 0, endless)).toEqual(named([note]))
  expect(recovered(history).counters(0).commands).toBe(1)
  const commitment = toHex(history.pay(1, 'refund_due')!)
  const { notes } = recovered(history, 0, endless).state
  expect(notes[1]).toMatchObject({
    commitment,
    amount: '900',
    leaf_index: 1,
    origin: 'refund',
    state: 'free',
  })
})

test('a nullifier that a dishonest signer spends twice leaves the history readable', () => {
  const history = new ToldHistory()
  const note = history.deposit(0, 0)
  history.settle([note], [])
  history.settle([note], [])
  const { spent } = history.read()
  expect([...spent.values()]).toEqual([1])
})

test('a deposit and a refund under one blinding are two notes, both found, each spent by itself', () => {
  // Two copies of the seed at once: one asks for an exit, the other deposits, both with the next blinding.
  const { history, note, payout } = requested()
  const deposited = history.deposit(0, 1, 1_000n)
  history.settle([note], [], { payouts: [payout] })
  const commitment = history.pay(1, 'destination_missing')!
  const states = () => recovered(history).state.notes.map(({ origin, state }) => `${origin} ${state}`)
  expect([...named([note, deposited]), toHex(commitment)]).toEqual(found(history))
  expect(states()).toEqual(['deposit spent', 'deposit free', 'refund free'])
  expect(recovered(history).counters(0).deposits).toBe(2)
  history.settle([deposited], [history.output(0, 0, { j: 0, role: 0 })])
  expect(states()).toEqual(['deposit spent', 'deposit spent', 'refund free', 'proceeds free'])
})

test('events give the same history in any order, and none can be left out', () => {
  const history = new ToldHistory()
  const notes = [0, 1, 2].map((d) => history.deposit(0, d, 1_000n, MINTS[d % 2]!))
  for (const [n, note] of notes.entries()) history.settle([note], [history.output(0, n, { j: 0, role: 0 })])
  const whole = history.read()
  const last = history.events.length - 1
  fc.assert(
    fc.property(
      fc.shuffledSubarray(history.events, { minLength: last + 1 }),
      fc.integer({ min: 0, max: last - 1 }),
      (events, gone) => {
        expect(vaultHistory(events)).toEqual(whole)
        expect(() => vaultHistory(events.filter((event) => event !== history.events[gone]))).toThrow(
          HistoryIncomplete,
        )
      },
    ),
    { numRuns: 50 },
  )
})
