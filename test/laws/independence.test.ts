/**
 * Does it depend on other accounts' orders before the commit? For every refusal code, event kind, answer field and metric the
 * answer is no, and names the test that shows it. A row missing from a table fails.
 */
import { afterEach, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { EngineConfig } from '../../engine/config'
import { LIMITS } from '../../engine/limits'
import { newAgeKey } from '../../protocol/age'
import { REFUSALS, type RefusalCode } from '../../protocol/refusals'
import * as wire from '../../protocol/wire/trading'
import type { TSchema } from '../../protocol/wire/values'
import { TestSite, type TestVenue } from '../kit/venue/open_test_venue'
import { Trader } from '../kit/venue/trader'

const COMPARED =
  'two venues that differ only in a hidden order give one trader the same bytes, before the commit'
const BARRED =
  'nor does a venue that may not answer, match or settle, nor a batch that ends void: the bytes are the same'
/** Why not, and the test that shows it. */
const SHOWN = {
  /** Given before a command reaches the state, or by reads of facts that no order changes. */
  edge: ['test/laws/independence.test.ts', COMPARED],
  /** Decided by the command, the own account and public facts. */
  own: ['test/laws/fork_oracle.test.ts', 'forks tell nothing by '],
  bounds: ['test/laws/fork_oracle.test.ts', "'the bounds on orders, keys and waiting commands'"],
  notes: ['test/laws/fork_oracle.test.ts', "'the openings of notes'"],
  waiting: ['test/laws/fork_oracle.test.ts', "'the answers to cancels and modifies'"],
  timing: ['test/laws/fork_oracle.test.ts', "'the time at which waiting changes act'"],
  /** Appears at a match at the earliest, which follows the commit, or follows the number of fills that are not on chain. */
  after: ['test/laws/independence.test.ts', BARRED],
  /** Follows the chain, independent of the orders. */
  chain: ['test/laws/independence.test.ts', BARRED],
  /** Follow the chain's view of the own epoch and of the own head. */
  lease: ['test/laws/independence.test.ts', BARRED],
  held: ['test/laws/independence.test.ts', BARRED],
  anchor: ['test/laws/independence.test.ts', BARRED],
} as const
type Shown = keyof typeof SHOWN
const all = <T extends string>(shown: Shown, ...names: T[]) =>
  Object.fromEntries(names.map((name) => [name, shown])) as Record<T, Shown>

const CODES: Record<RefusalCode, Shown> = {
  ...all('edge', 'route_unknown', 'method_not_allowed', 'upgrade_required', 'token_missing', 'token_invalid'),
  ...all('edge', 'token_expired', 'token_revoked', 'credentials_invalid', 'operator_signature_invalid'),
  ...all('edge', 'credential_expired', 'read_only'),
  ...all('own', 'account_unknown', 'credential_version', 'credential_taken', 'credential_limit'),
  ...all('edge', 'rate_limited', 'login_limited', 'login_busy', 'quote_busy', 'body_too_large'),
  ...all('edge', 'export_busy', 'auditor_unset', 'version_unsupported'),
  ...all('chain', 'auction_unknown'),
  ...all(
    'edge',
    'content_type_unsupported',
    'json_malformed',
    'key_duplicate',
    'field_unknown',
    'field_missing',
  ),
  ...all(
    'edge',
    'field_invalid',
    'field_element_invalid',
    'order_id_zero',
    'anchors_invalid',
    'reshape_invalid',
  ),
  ...all(
    'edge',
    'after_invalid',
    'frame_invalid',
    'record_invalid',
    'instrument_unknown',
    'amount_out_of_range',
  ),
  ...all('edge', 'amount_off_lot', 'price_zero', 'price_off_tick', 'value_overflow', 'min_fill_invalid'),
  ...all('edge', 'timeout_out_of_range', 'signature_invalid', 'reference_source_invalid', 'batch_unknown'),
  ...all(
    'edge',
    'leaf_unknown',
    'evidence_unknown',
    'record_stale',
    'reference_stale',
    'connection_limit',
    'socket_limit',
  ),
  ...all(
    'edge',
    'enclave_unavailable',
    'internal',
    'matching_unavailable',
    'draining',
    'disk_full',
    'instrument_paused',
  ),
  ...all(
    'own',
    'key_bound',
    'account_suspended',
    'order_exists',
    'order_id_taken',
    'order_unknown',
    'not_owner',
  ),
  ...all('own', 'withdrawal_unknown', 'reshape_unknown', 'nonce_stale', 'expiry_too_soon', 'expiry_too_far'),
  ...all('own', 'collateral_insufficient', 'withdraw_below_minimum', 'self_cross'),
  ...all('notes', 'note_unknown', 'note_wrong_mint', 'note_spent', 'note_in_use'),
  ...all(
    'bounds',
    'order_limit',
    'account_order_limit',
    'account_key_limit',
    'key_limit',
    'commit_undecided',
  ),
  ...all('waiting', 'order_final'),
  ...all('chain', 'reopening', 'commit_reorged', 'settlement_unavailable'),
  ...all('lease', 'lease_lost'),
  ...all('held', 'outcome_unknown'),
  ...all('anchor', 'unanchored'),
  ...all('after', 'settlement_backlog'),
}

const EVENTS: Record<wire.EventKind, Shown> = {
  ...all(
    'own',
    'order.accepted',
    'order.cancelled',
    'order.replaced',
    'withdrawal.accepted',
    'withdrawal.voided',
  ),
  ...all('own', 'reshape.accepted', 'reshape.voided', 'note.exited', 'exit.requested', 'account.changed'),
  ...all('timing', 'order.expired', 'batch.voided'),
  ...all('waiting', 'order.cancel_pending', 'order.replace_pending'),
  ...all('after', 'order.cancel_refused', 'order.replace_refused', 'order.partially_filled', 'order.filled'),
  ...all('after', 'fill.matched', 'fill.submitted', 'fill.confirmed', 'fill.finalized', 'fill.voided'),
  ...all('after', 'withdrawal.submitted', 'withdrawal.confirmed', 'withdrawal.finalized', 'withdrawal.paid'),
  ...all('after', 'withdrawal.refunded', 'reshape.submitted', 'reshape.confirmed', 'reshape.finalized'),
  ...all('after', 'note.created', 'exit.served', 'exit.paid', 'exit.refunded'),
}

/** Fields of the answers and reads of an account. */
const FIELDS: Record<string, Shown> = {
  ...all(
    'own',
    'order_id',
    'old_order_id',
    'status',
    'seq',
    'receipt',
    'expires_slot',
    'trading_key',
    'symbol',
  ),
  ...all('own', 'side', 'type', 'amount', 'price_limit', 'min_fill', 'expiry_slot', 'arrival_slot', 'reason'),
  ...all('own', 'replaces', 'replaced_by', 'withdrawal_id', 'commitment', 'destination', 'fee', 'reshape_id'),
  ...all('own', 'inputs', 'outputs', 'place_nonce', 'cancel_nonce'),
  ...all('waiting', 'cancelled', 'pending', 'batch'),
  ...all(
    'after',
    'filled_amount',
    'remaining_amount',
    'fills',
    'code',
    'replacement',
    'settlement_batch',
    'signature',
  ),
  ...all(
    'after',
    'change_commitment',
    'refund_commitment',
    'payout_number',
    'payout_stage',
    'payout_signature',
  ),
}
const ANSWERS: Record<string, TSchema> = {
  place: wire.PlaceResult,
  cancel: wire.CancelResult,
  pending: wire.CancelPending,
  modify: wire.ModifyResult,
  cancel_all: wire.CancelAllResult,
  dead_man: wire.DeadManResult,
  withdraw: wire.WithdrawalResult,
  reshape: wire.ReshapeResult,
  order: wire.Order,
  nonces: wire.Nonces,
}

const METRICS: Record<string, Shown> = {
  ...all('edge', 'tacit_commands_total', 'tacit_journal_records_total', 'tacit_journal_groups_total'),
  ...all('edge', 'tacit_journal_seq', 'tacit_journal_pending'),
  ...all('edge', 'tacit_accounts', 'tacit_streams', 'tacit_snapshot_seq', 'tacit_snapshot_failures'),
  ...all('edge', 'tacit_rows_waiting'),
  ...all(
    'edge',
    'tacit_history_backlog',
    'tacit_unanchored_ms',
    'tacit_disk_free_bytes',
    'tacit_files_damaged',
  ),
  ...all(
    'edge',
    'tacit_journal_append_seconds',
    'tacit_journal_sync_seconds',
    'tacit_history_commit_seconds',
  ),
  ...all('chain', 'tacit_chain_slot', 'tacit_chain_lag_ms', 'tacit_ready', 'tacit_reason'),
  ...all('chain', 'tacit_lease_age_ms', 'tacit_exits_open', 'tacit_exit_deadline_unix_s'),
  ...all('chain', 'tacit_providers', 'tacit_providers_agreeing', 'tacit_fee_payer_lamports'),
  ...all(
    'after',
    'tacit_batches_packed',
    'tacit_batches_hashed',
    'tacit_batches_open',
    'tacit_payouts_queued',
  ),
}

const sites: TestSite[] = []
afterEach(async () => {
  for (const site of sites.splice(0)) await site.remove()
})

test('every refusal code, event kind and answer field is in its table, and every named test exists', () => {
  expect(Object.keys(CODES).sort()).toEqual(REFUSALS.map(({ code }) => code).sort())
  const kinds = (wire.EventKind as unknown as { anyOf: { const: string }[] }).anyOf.map((one) => one.const)
  expect(Object.keys(EVENTS).sort()).toEqual(kinds.sort())
  const fields = new Set(Object.values(ANSWERS).flatMap(fieldsOf))
  expect(Object.keys(FIELDS).sort()).toEqual([...fields].sort())
  for (const [file, title] of Object.values(SHOWN)) {
    expect(readFileSync(join(import.meta.dir, '../..', file), 'utf8')).toContain(title)
  }
})

function fieldsOf(schema: TSchema): string[] {
  const { properties, anyOf } = schema as { properties?: object; anyOf?: TSchema[] }
  return anyOf === undefined ? Object.keys(properties ?? {}) : anyOf.flatMap(fieldsOf)
}

/** Differences between any two runs: hashes, keys, signatures and times, each by the order of its first appearance. */
function normalized(seen: unknown[]): string {
  const names = new Map<string, string>()
  const text = JSON.stringify(seen).replace(/"(?:[0-9a-f]{32,}|[1-9A-HJ-NP-Za-km-z]{43,88})"/g, (found) => {
    if (!names.has(found)) names.set(found, `"#${names.size}"`)
    return names.get(found)!
  })
  // How many appends share a sync, and how long each takes, depends on the speed of the disk.
  const counted = text
    .replace(/("tacit_journal_groups_total"[^}]*"value":)[0-9]+/g, '$10')
    .replace(/("type":"histogram","labels":\{"le":"[^"]+"\},"value":)[0-9]+/g, '$10')
  return counted.replace(/"(unix_ms|uptime_ms|slot_ms|lag_ms)":[0-9.]+/g, '"$1":0')
}

type Hidden = Partial<wire.CheckRequest>
const HIDDEN: [Hidden, Hidden] = [
  { price_limit: '90000000', amount: '1000000000' },
  { price_limit: '150000000', amount: '3000000000', min_fill: '2000000000' },
]

/**
 * A venue with a hidden order, and Mallory with five notes; nothing else differs between two of them.
 * @param earlier acts in both before that order comes
 */
async function openHidden(
  hidden: Hidden,
  change: Partial<EngineConfig> = {},
  earlier = async (_: TestVenue) => {},
) {
  const site = new TestSite()
  sites.push(site)
  site.unixMs = () => 1_800_000_000_000
  // Ages and stalls are then the same on a machine of any speed.
  site.monotonicMs = () => site.later_ms
  const open = await site.open(change)
  // Other processes use the volume too.
  open.engine.disk_gauge.stop()
  open.engine.disk_gauge.free_bytes = 2 ** 40
  await earlier(open)
  const victim = await Trader.provisioned(open, 'victim')
  const mallory = await Trader.provisioned(open, 'mallory')
  const deposits = [victim.deposit('base', 5_000_000_000n)]
  for (let count = 0; count < 5; count++) deposits.push(mallory.deposit('quote', 900_000_000n))
  await open.chain.finalizeLeaves()
  await open.venue.place('victim', victim.place(deposits[0]!, { side: 'sell', ...hidden }))
  return { site, open, mallory, deposits }
}

/** Everything that Mallory sees and causes while a batch with a hidden order is closed and undecided. */
async function observed(hidden: Hidden): Promise<{ seen: string; open: TestVenue }> {
  const { site, open, mallory, deposits } = await openHidden(hidden)
  const { venue, chain } = open
  const seen: unknown[] = []
  const see = async (work: Promise<unknown>) =>
    seen.push(await work.catch((error: { code: string; facts: unknown }) => [error.code, error.facts]))
  const [own, ioc, late] = [1, 2, 3].map((at) =>
    mallory.place(deposits[at]!, { type: at === 2 ? 'ioc' : 'limit' }),
  )
  await see(venue.place('mallory', own!))
  await see(venue.place('mallory', ioc!))
  site.ledger.withheld = true
  await chain.tick(2)
  while (open.engine.state.closed === undefined || chain.sent === undefined) await Bun.sleep(1)
  await see(venue.place('mallory', late!))
  await see(venue.place('mallory', mallory.place(deposits[0]!)))
  const change = venue.parsed
  await see(venue.cancel('mallory', late!.order_id, mallory.cancel(late!.order_id)))
  await see(venue.cancel('mallory', own!.order_id, mallory.cancel(own!.order_id)))
  await see(venue.cancelAll('mallory', [mallory.cancelAll()]))
  await see(venue.deadMan('mallory', mallory.deadMan(50)))
  await see(venue.withdraw('mallory', mallory.withdrawal(deposits[4]!, 2_000_000n)))
  await see(venue.events('mallory', { after: 0, limit: 100 }))
  await see(venue.orders('mallory', { after: 0, limit: 100 }))
  seen.push(venue.status(), venue.time(), venue.instruments(), venue.settlementHealth(), venue.treeRoot())
  seen.push(await venue.transparency(), await venue.nonces('mallory', mallory.trading_key))
  await open.engine.sequencer.durable()
  await open.engine.loaded.history.flush()
  seen.push(change.metrics())
  return { seen: normalized(seen), open }
}

test(COMPARED, async () => {
  const first = await observed(HIDDEN[0])
  const metrics = new Set(first.open.venue.metrics().map(({ name }) => name))
  expect(Object.keys(METRICS).sort()).toEqual([...metrics].sort())
  const second = await observed(HIDDEN[1])
  expect(second.seen).toBe(first.seen)
  // The hidden orders do differ: the one trades with Mallory's, the other does not.
  for (const { open } of [first, second]) {
    open.chain.landCommit()
    await open.chain.decided()
  }
  const filled = ({ open }: typeof first) => open.engine.state.settlement.unlanded
  expect([filled(first), filled(second)]).toEqual([expect.any(Number), 0])
  expect(filled(first)).toBeGreaterThan(0)
}, 180_000)

/** Two accounts trade; nothing of it lands yet. */
async function tradeUnlanded(open: TestVenue): Promise<void> {
  const [seller, buyer] = [await Trader.provisioned(open, 'seller'), await Trader.provisioned(open, 'buyer')]
  const [base, quote] = [seller.deposit('base', 5_000_000_000n), buyer.deposit('quote', 900_000_000n)]
  await open.chain.finalizeLeaves()
  await open.venue.place('seller', seller.place(base, { side: 'sell' }))
  await open.venue.place('buyer', buyer.place(quote))
  await open.chain.tick(2)
  expect(open.engine.state.settlement.unlanded).toBe(2)
}

/** A venue with a hidden order, and Mallory's view of it since `taken` was called last. */
async function watched(hidden: Hidden) {
  const auditor_key = (await newAgeKey()).recipient
  const { site, open, mallory, deposits } = await openHidden(hidden, { auditor_key }, tradeUnlanded)
  const { venue } = open
  let seen: unknown[] = []
  const see = async (work: unknown) =>
    seen.push(
      await Promise.resolve(work).catch(({ code, facts, message }) => [code ?? message, facts] as unknown),
    )
  const taken = () => {
    const text = normalized(seen)
    seen = []
    return text
  }
  const metrics = () => venue.metrics().filter(({ name }) => METRICS[name] !== 'edge')
  const own = mallory.place(deposits[1]!)
  await venue.place('mallory', own)
  const place = () => see(venue.place('mallory', mallory.place(deposits[2]!)))
  const look = async () => {
    await place()
    await see(venue.cancel('mallory', own.order_id, mallory.cancel(own.order_id)))
    await see(venue.deadMan('mallory', mallory.deadMan(0)))
    await see(venue.order('mallory', own.order_id))
    await see(venue.nonces('mallory', mallory.trading_key))
    await see(venue.events('mallory', { after: 0, limit: 100 }))
    await see([venue.status(), venue.instruments(), venue.settlementHealth(), metrics()])
  }
  return { site, open, mallory, own, see, taken, metrics, place, look }
}
type Watched = Awaited<ReturnType<typeof watched>>

async function barredByChain({ site, open, see, place, look, taken }: Watched): Promise<string> {
  const { venue, chain, engine } = open
  site.ledger.withheld = true
  await chain.tick(2)
  while (engine.state.closed === undefined || chain.sent === undefined) await Bun.sleep(1)
  const { batch } = engine.state.closed.due[0]!
  await see(venue.exportBatch({ symbol: 'SOL-USDC', batch }))
  await engine.sequencer.durable()
  const { health_now } = chain
  chain.health_now = { ...health_now, reasons: ['commit_reorged'] }
  await look()
  chain.health_now = { ...health_now, settlement: 'unwired' }
  await engine.sequencer.durable()
  await place()
  chain.health_now = health_now
  await engine.anchoring.now()
  site.later_ms += 60_000
  await place()
  await chain.tick(1)
  await engine.sequencer.durable()
  await engine.anchoring.now()
  await place()
  return taken()
}

async function barredByLease({ open, look, taken }: Watched): Promise<string> {
  open.chain.lease_age_ms = open.config.lease_ms + 1
  await look()
  open.chain.lease_age_ms = 0
  return taken()
}

async function heldGroup({ site, open, mallory, see, look, taken }: Watched): Promise<string> {
  const { venue, chain, engine } = open
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  const executed = engine.sequencer.seq_executed
  const late = see(venue.deadMan('mallory', mallory.deadMan(50)))
  while (engine.sequencer.seq_executed === executed) await turn()
  chain.lease_age_ms = open.config.lease_ms + 1
  while (engine.loaded.journal.head().seq < engine.sequencer.seq_executed) await turn()
  site.later_ms += LIMITS.outcome_unknown_after_ms
  await late
  await look()
  chain.lease_age_ms = 0
  await engine.sequencer.durable()
  return taken()
}

async function barredByAnchor({ site, open, look, taken }: Watched): Promise<string> {
  open.chain.anchor_fails = true
  site.later_ms += open.config.anchor_max_ms + 1
  await look()
  open.chain.anchor_fails = false
  await open.engine.anchoring.now()
  return taken()
}

async function backlogAndVoid({ open, own, see, place, metrics, taken }: Watched): Promise<string> {
  const { venue, chain, engine } = open
  // The clock was moved, so the first slot begins another time without new orders.
  for (const slots of [1, open.config.reopen_slots]) await chain.tick(slots)
  await engine.sequencer.durable()
  const { unlanded_place_max } = LIMITS
  Object.assign(LIMITS, { unlanded_place_max: 1 })
  await place()
  await chain.settleNext()
  Object.assign(LIMITS, { unlanded_place_max: 0 })
  await place()
  Object.assign(LIMITS, { unlanded_place_max })
  chain.voidCommit()
  await chain.decided()
  await see(venue.events('mallory', { after: 0, limit: 100 }))
  await see(venue.order('mallory', own.order_id))
  await see([venue.status(), venue.instruments(), metrics()])
  return taken()
}

/** Mallory's view in each circumstance, by the row of the table that it belongs to. */
async function barred(
  hidden: Hidden,
): Promise<Record<'after' | 'chain' | 'lease' | 'held' | 'anchor', string>> {
  const venue = await watched(hidden)
  return {
    chain: await barredByChain(venue),
    lease: await barredByLease(venue),
    held: await heldGroup(venue),
    anchor: await barredByAnchor(venue),
    after: await backlogAndVoid(venue),
  }
}

test(BARRED, async () => {
  const first = await barred(HIDDEN[0])
  expect(await barred(HIDDEN[1])).toEqual(first)
  for (const [shown, seen] of Object.entries(first)) {
    // Each circumstance did bring about its codes, and nothing of a match was seen in it.
    for (const [code, row] of Object.entries(CODES)) if (row === shown) expect(seen).toContain(`"${code}"`)
    for (const [kind, row] of Object.entries(EVENTS))
      if (row === 'after') expect(seen).not.toContain(`"${kind}"`)
  }
  expect(first.after).toContain('"batch.voided"')
  // It ends with the landing of fills matched before.
  expect(first.after.match(/"settlement_backlog"/g)).toHaveLength(1)
}, 180_000)
