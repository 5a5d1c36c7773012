/**
 * Every short sequence of claims, challenges, payments, redirects, queue payments and closings at every time of a wind-down
 * that is short: a model names each outcome, and two sequences that it takes to one state leave the same accounts.
 */
import { expect, test } from 'bun:test'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { toHex } from '../../../protocol/bytes'
import {
  escapeClaimAddress,
  exitRequestAddress,
  mintRecordAddress,
  SYSTEM_PROGRAM,
} from '../../../protocol/vault/addresses'
import {
  challengeEscapeInstruction,
  claimEscapeInstruction,
  closeExitInstruction,
} from '../../../protocol/vault/exits'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { bytes32 } from '../../kit/vault/open_vault'
import { ESCAPE_BOND, type OwnedNote, WindDown } from '../../kit/vault/wind_down'

// `honest` is backed by 40,000; `spent` claims 30,000 that a batch spent; a queued payout of 5,000 cannot be paid.
const AMOUNTS = { honest: 40_000n, spent: 30_000n, refund: 5_000n }
const BASE = 50_000n
/** Exit delays after the freeze. */
const LAST_TIME = 3
/** Instructions that land; waiting costs none. TACIT_WIND_DOWN_LENGTH: 829 states with 3, 2,437 with 4. */
const LENGTH = Number(process.env['TACIT_WIND_DOWN_LENGTH'] ?? 3)

const down = new WindDown()
const { chain, vault } = down
const honest = down.deposit(AMOUNTS.honest)
const backing = down.deposit(15_000n)
const [spent] = down.settle([AMOUNTS.spent], [backing]) as [OwnedNote]
const payout = down.queue(AMOUNTS.refund)
down.settle([], [spent])
const NOTES = { honest, spent, refund: payout.refundAt(vault.tree.leaf_count) }
type Name = keyof typeof NOTES
const NAMES = Object.keys(NOTES) as Name[]
down.freeze(honest)
const elsewhere = bytes32('elsewhere')
vault.setToken(elsewhere, { owner: honest.owner.key })

type Claim = { at: number; paid: string | undefined; cancelled: boolean }
type State = {
  time: number
  claims: { [name in Name]?: Claim }
  /** Sum of window claims while it can change. */
  total: number
  /** Since the first payment, at that time. */
  fixed: { at: number; owed: number } | undefined
  /** The time of the queue's payment. */
  refunded: number | undefined
  closed: boolean
  redirected: boolean
}
type Outcome = State | string

const amountOf = (name: Name): number => Number(AMOUNTS[name])
const isWindow = (name: Name, { at }: Claim): boolean => name !== 'refund' && at === 0

function shareOf(name: Name, total: number): number {
  return Math.floor((amountOf(name) * Math.min(Number(BASE), total)) / total)
}

function claimed(state: State, name: Name): Outcome {
  if (state.claims[name] !== undefined) return 'already_claimed'
  const claim = { at: state.time, paid: undefined, cancelled: false }
  const total = isWindow(name, claim) ? state.total + amountOf(name) : state.total
  return { ...state, total, claims: { ...state.claims, [name]: claim } }
}

function challenged(state: State, name: Name): Outcome {
  const claim = state.claims[name]
  if (claim === undefined) return 'wrong_owner'
  if (claim.paid !== undefined || claim.cancelled) return 'claim_closed'
  if (name !== 'spent') return 'invalid_spent_proof'
  const next = { ...state, claims: { ...state.claims, [name]: { ...claim, cancelled: true } } }
  if (!isWindow(name, claim)) return next
  if (state.fixed === undefined) return { ...next, total: state.total - amountOf(name) }
  return { ...next, fixed: { ...state.fixed, owed: state.fixed.owed - shareOf(name, state.total) } }
}

const paidIn = (state: State): number =>
  NAMES.filter((name) => name !== 'refund').reduce(
    (all, name) => all + Number(state.claims[name]?.paid ?? 0),
    0,
  )

function paid(state: State, name: Name, accepts_less: boolean): Outcome {
  const claim = state.claims[name]
  if (claim === undefined) return 'wrong_owner'
  if (claim.paid !== undefined || claim.cancelled) return 'claim_closed'
  if (state.time < Math.max(2, claim.at + 1)) return 'payment_not_due'
  const { at, owed } = state.fixed ?? { at: state.time, owed: Math.min(Number(BASE), state.total) }
  const left = Number(BASE) - paidIn(state) - owed
  const window = isWindow(name, claim)
  let amount = amountOf(name)
  if (window) amount = shareOf(name, state.total)
  else if (name !== 'refund') amount = Math.min(amount, left)
  if (!window && amount < amountOf(name) && !accepts_less) return 'payment_short'
  const claims = { ...state.claims, [name]: { ...claim, paid: String(amount) } }
  return { ...state, fixed: { at, owed: window ? owed - amount : owed }, claims }
}

function redirected(state: State): Outcome {
  const claim = state.claims.honest
  if (claim === undefined) return 'wrong_owner'
  if (claim.paid !== undefined || claim.cancelled) return 'claim_closed'
  return state.redirected ? 'wrong_sequence' : { ...state, redirected: true }
}

const CLOSING = closeExitInstruction({
  program: vault.program,
  nullifier: honest.nullifier,
  bond_payer: down.bond_payer.key,
})
const REDIRECT = down.redirection(honest, elsewhere)
const QUEUE_PAYMENT = vault.payment()
const CLAIMING: Partial<Record<Name, VaultInstruction>> = {
  honest: claimEscapeInstruction(down.claimOf(honest)),
  spent: claimEscapeInstruction(down.claimOf(spent)),
}
vault.tree.append([NOTES.refund.commitment])
const refunded_state = { cited_leaf_count: vault.tree.leaf_count, cited_root: vault.tree.root() }
CLAIMING.refund = claimEscapeInstruction({ ...down.claimOf(NOTES.refund), ...refunded_state })

/** The instruction in the present state, and the model's expectation. */
function actionsOf(state: State): [name: string, instruction: VaultInstruction, outcome: Outcome][] {
  const actions: [string, VaultInstruction, Outcome][] = NAMES.filter(
    (name) => name !== 'refund' || state.refunded !== undefined,
  ).flatMap((name) => {
    const note = NOTES[name]
    const batch = name === 'spent' ? undefined : vault.batches.length
    return [
      [`claim ${name}`, CLAIMING[name]!, claimed(state, name)],
      [
        `challenge ${name}`,
        challengeEscapeInstruction(down.challengeOf(note, batch)),
        challenged(state, name),
      ],
      [`pay ${name}`, down.payment(note), paid(state, name, false)],
      [`pay ${name} less`, down.payment(note, true), paid(state, name, true)],
    ]
  })
  actions.push(['redirect', REDIRECT, redirected(state)])
  actions.push(['close', CLOSING, state.closed ? 'wrong_owner' : { ...state, closed: true }])
  // A payment of an entry that is gone succeeds without effect.
  actions.push(['pay queue', QUEUE_PAYMENT, { ...state, refunded: state.refunded ?? state.time }])
  return actions
}

const touched = [
  ...Object.values(chain.vault).slice(1),
  vault.vault_token,
  mintRecordAddress(vault.program, vault.mint),
  exitRequestAddress(vault.program, honest.nullifier),
  elsewhere,
  down.bond_payer.key,
  down.challenger.key,
  ...Object.values(NOTES).flatMap((note) => [
    note.destination,
    escapeClaimAddress(vault.program, note.nullifier),
  ]),
]
const snapshot = () => touched.map((key) => ({ key, account: chain.svm.getAccount(addressOf(key)) }))
type Snapshot = ReturnType<typeof snapshot>

function restore(accounts: Snapshot): void {
  for (const { key, account } of accounts)
    if (account.exists) chain.svm.setAccount(account)
    else chain.setAccount(key, new Uint8Array(), SYSTEM_PROGRAM, 0n)
}

const digest = (accounts: Snapshot): string =>
  accounts
    .map(({ account }) =>
      account.exists ? `${toHex(Uint8Array.from(account.data))} ${account.lamports}` : '-',
    )
    .join('\n')

const START_HELD = down.held(down.bond_payer.key)
const START_CHALLENGER = down.held(down.challenger.key)
const REQUEST_HELD = down.held(exitRequestAddress(vault.program, honest.nullifier))
const CLAIM_RENT = chain.svm.minimumBalanceForRentExemption(200n)

/** Laws in each state. */
function judge(path: string, state: State): void {
  const same = (found: unknown, wanted: unknown) => expect([path, found]).toEqual([path, wanted])
  const claims = NAMES.flatMap((name) => state.claims[name] ?? [])
  const of = (name: Name) => BigInt(state.claims[name]?.paid ?? 0)
  const received = { honest: down.received(honest) + vault.balance(elsewhere), spent: down.received(spent) }
  same(received, { honest: of('honest'), spent: of('spent') })
  const gone = of('honest') + of('spent')
  same(vault.balance(vault.vault_token), 55_000n - gone - of('refund'))
  const record = chain.mintRecord(vault.mint)
  same(record.liabilities, BASE - gone)
  same(record.queued, AMOUNTS.refund - of('refund'))
  same(record.window_total, BigInt(state.total))
  same(record.window_owed, BigInt(state.fixed?.owed ?? 0))
  const open = claims.filter(({ paid, cancelled }) => paid === undefined && !cancelled).length
  const cancelled = claims.filter((claim) => claim.cancelled).length
  same(down.held(down.challenger.key), START_CHALLENGER + BigInt(cancelled) * ESCAPE_BOND)
  const spent_on_claims = BigInt(claims.length) * CLAIM_RENT + BigInt(open + cancelled) * ESCAPE_BOND
  same(down.held(down.bond_payer.key), START_HELD - spent_on_claims + (state.closed ? REQUEST_HELD : 0n))
}

const START: State = {
  time: 0,
  claims: {},
  total: 0,
  fixed: undefined,
  refunded: undefined,
  closed: false,
  redirected: false,
}

/** The same claims in another order are one state. */
const keyOf = (state: State): string =>
  JSON.stringify({ ...state, claims: NAMES.map((name) => state.claims[name] ?? null) })

test('every sequence of a short wind-down ends as the model says', () => {
  const known = new Map<
    string,
    { state: State; accounts: Snapshot; path: string; digest: string; steps: number }
  >()
  const waiting: string[] = []
  const outcomes = new Set<string>()
  const reached = (state: State, path: string, steps: number): void => {
    const [key, accounts] = [keyOf(state), snapshot()]
    const before = known.get(key)
    if (before !== undefined) {
      if (before.digest !== digest(accounts)) throw new Error(`${path} differs from ${before.path}`)
      return
    }
    judge(path, state)
    known.set(key, { state, accounts, path, digest: digest(accounts), steps })
    waiting.push(key)
  }
  reached(START, 'start', 0)
  for (const key of waiting) {
    const { state, accounts, path, steps } = known.get(key)!
    restore(accounts)
    down.passTo(state.time)
    if (state.time < LAST_TIME) reached({ ...state, time: state.time + 1 }, `${path}, wait`, steps)
    if (steps === LENGTH) continue
    for (const [name, instruction, outcome] of actionsOf(state)) {
      const tried = `${path}, ${name}`
      const expected = typeof outcome === 'string' ? outcome : 'landed'
      outcomes.add(`${name.split(' ')[0]} ${expected}`)
      const result = chain.send(instruction)
      if ((result.ok ? 'landed' : result.error) !== expected)
        throw new Error(`${tried}: ${result.ok ? 'landed' : result.error} instead of ${expected}`)
      if (typeof outcome === 'string') continue
      reached(outcome, tried, steps + 1)
      restore(accounts)
    }
  }
  expect(known.size).toBeGreaterThan(800)
  expect([...outcomes].sort()).toEqual([
    'challenge claim_closed',
    'challenge invalid_spent_proof',
    'challenge landed',
    'challenge wrong_owner',
    'claim already_claimed',
    'claim landed',
    'close landed',
    'close wrong_owner',
    'pay claim_closed',
    'pay landed',
    'pay payment_not_due',
    'pay payment_short',
    'pay wrong_owner',
    'redirect claim_closed',
    'redirect landed',
    'redirect wrong_owner',
    'redirect wrong_sequence',
  ])
}, 300_000)
