/** Shared by tests of fronts: a front over a replica and a leading node of a test, and a socket on it. */
import { openAccounts } from '../../engine/accounts/open_accounts'
import { followingNode, type Replica } from '../../engine/methods/front'
import type { NodeVenue, Passed, Right } from '../../engine/venue'
import { Refusal } from '../../protocol/refusals'
import { TRADING_OPS } from '../../server/sockets/commands'
import { Connection } from '../../server/sockets/connection'
import { only } from '../kit/server/harness'

export const ACCOUNT = 'ab'.repeat(32)
const socket_clock = { unixMs: () => Date.now(), monotonicMs: () => 0 }
type State = { rights: Right[]; handing: Promise<void> | undefined; ask: () => Promise<Right> }
/** @param waiting if given, receives the functions that let each question be answered */
const leaderOf = (state: State, passed: Passed[], waiting: (() => void)[] | undefined) => ({
  node: '0011223344556677.',
  rights: () => state.rights,
  ask: () => state.ask(),
  handing: () => state.handing,
  arrived: () => {
    state.handing = undefined
  },
  watch: () => undefined,
  pass: async (one: Passed, epoch?: number) => {
    if (epoch !== undefined && epoch !== state.rights.at(-1)!.epoch) throw new Refusal('lease_lost')
    passed.push(one)
    if (waiting !== undefined) await new Promise<void>((resolve) => waiting.push(resolve))
    return { value: {}, seq: 50, limits: null }
  },
})

/** @param behind the replica has not reached the leading node's answer @param handing resolves when another node leads */
export function frontOf(behind: boolean, is_slow = false, handing?: Promise<void>) {
  const clock = { unixMs: () => Date.now(), monotonicMs: () => state.now_ms }
  const passed: Passed[] = []
  const waiting: (() => void)[] = []
  const right = { seq: 50, head: '00'.repeat(32), until_ms: 1_000, nodes: 1, epoch: 7 } as Right
  const state = {
    applied: behind ? 49 : 50,
    epoch: 7,
    ends: new Set([50]),
    rights: [right],
    handing,
    ask: async () => right,
    now_ms: 0,
    /** How long the replica takes to read on. */
    reads_ms: undefined as number | undefined,
  }
  const book = {
    limits: () => ({ rate_capacity: 10, rate_refill_per_s: 1 }),
    tokens: () => [],
    unixMs: () => Date.now(),
  }
  const accounts = openAccounts({
    credential_key: new Uint8Array(32),
    clock,
    token_ttl_s: 3_600,
    book: book as never,
  })
  const views = { accounts, armed: new Map(), right: {}, record: {}, hub: { resume: () => undefined } }
  const replica = only<Replica>('replica', {
    applied: () => state.applied as never,
    epoch: () => state.epoch,
    isAt: ({ seq }) => state.ends.has(seq),
    views: () => views as never,
    onViews: (opened) => opened(views as never),
    untilApplied: async () => {
      if (state.reads_ms === undefined) return
      await Bun.sleep(state.reads_ms)
      state.applied = 50
    },
    known: { state: {}, past: {} } as never,
  })
  const id = new Uint8Array(32)
  const leader = leaderOf(state, passed, is_slow ? waiting : undefined)
  const chain = {
    genesis_hash: id,
    program_id: id,
    config_account: id,
    view: () => ({ slot: 1, unix_ms: 0, slot_ms: 400 }),
  }
  const vault = { generation: 0, exit_delay_s: 1 }
  const node = followingNode(
    { leader_url: '' } as never,
    replica,
    { instruments: [] } as never,
    { chain: chain as never, clock },
    [vault as never, []],
  )
  return { venue: node.front(leader as never) as NodeVenue, leader, passed, waiting, views, right, state }
}
export const SESSION = {
  account_id: ACCOUNT,
  token_id: 'cd'.repeat(32),
  expires_ms: 1e9,
  credential_id: 'ef'.repeat(32),
  access: 'trade',
} as const

/** An open socket there, the messages it got, and the codes with which it closed. */
export function socketOf(venue: NodeVenue, judged?: number, account_id = ACCOUNT) {
  const services = {
    venue: Object.assign(venue, { time: () => ({ slot: 1, unix_ms: 1, slot_ms: 400 }) }),
    clock: socket_clock,
    node: '0011223344556677.',
    meters: { answered() {}, refused() {}, frameReceived() {}, framesSent() {} },
    log: { write() {} },
  }
  const contract = { name: 'trading', kinds: () => true, ops: TRADING_OPS, snapshot: false }
  const connection = new Connection(
    services as never,
    contract as never,
    { ...SESSION, account_id },
    () => undefined,
    judged,
  )
  const sent: string[] = []
  const closed: number[] = []
  const transport = {
    send: (text: string) => sent.push(text),
    getBufferedAmount: () => 0,
    cork: (send: () => void) => send(),
    close: (code: number) => closed.push(code),
    terminate: () => undefined,
  }
  const subscription = { seq_first: 1, seq_last: 0, seqNow: () => 0, close: () => undefined }
  connection.opened(transport as never, { subscription, after: undefined, snapshot: undefined } as never)
  return { connection, sent, closed }
}

export const OTHER = { ...SESSION, account_id: 'ba'.repeat(32) }
export const codesOf = (asked: readonly Promise<unknown>[]) =>
  Promise.all(
    asked.map((one) =>
      one.then(
        () => 'ok',
        ({ code }) => code,
      ),
    ),
  )
/** Lets the leading node answer one question after the other. */
export async function answerAll(waiting: (() => void)[]): Promise<void> {
  for (;;) {
    await Bun.sleep(0)
    const next = waiting.shift()
    if (next === undefined) return
    next()
  }
}
