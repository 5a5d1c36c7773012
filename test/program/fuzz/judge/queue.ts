/** The payout queue as the judge keeps it, and rules and effects of `settle`, `pay` and `grow_queue`. */
import { compareBytes } from '../../../../protocol/bytes'
import { SETTLE_LIMITS } from '../../../../protocol/limits'
import { depositCommitment } from '../../../../protocol/notes/notes'
import {
  advanceJournal,
  CONFIG,
  configOf,
  isFrozen,
  mustBeEpoch,
  mustBeSigner,
  mustRun,
  writableConfig,
} from './admin'
import {
  type Appended,
  accountAt,
  accountsOf,
  type Call,
  Fields,
  must,
  mustBeElement,
  mustBeProgram,
  mustBeSystem,
  mustBeWritable,
  mustSign,
  type Placed,
  same,
  setU32,
  setU64,
  u32At,
  u64At,
  VERSION,
  wordAt,
} from './call'
import { REQUEST, requestOf } from './exits'
import { appendBatch, appendLeaves, keepState, leafCount, mustKnowState, ringOf, treeOf } from './note_states'
import { addTo, MINT_RECORD, mintRecordOf, moveTokens, mustBeVaultToken, payoutOutcome } from './tokens'

export const QUEUE = { next_number: 8, open: 16, free_head: 20, used: 24, capacity: 28 } as const
const ENTRY = {
  number: 0,
  open: 8,
  kind: 9,
  next_free: 12,
  queued_at_s: 16,
  queued_slot: 24,
  mint: 32,
  amount: 64,
  destination: 72,
  inner: 104,
  nullifier: 136,
} as const
const [HEADER_BYTES, ENTRY_BYTES, GROWTH, CAPACITY_MAX] = [160, 168, 60, 1_020]
const REFUND_AFTER_S = 604_800n

const entryAt = (queue: Uint8Array, place: number): Uint8Array =>
  queue.subarray(HEADER_BYTES + ENTRY_BYTES * place, HEADER_BYTES + ENTRY_BYTES * (place + 1))

function queueOf(call: Call, account: Placed): Uint8Array {
  mustBeWritable(account)
  const { data, owner } = account.state
  must(same(owner, call.vault.program) && same(account.address, call.vault.queue), 'another queue')
  must(data[0] === 7 && data[1] === VERSION, 'an account of another kind')
  return data
}

type NewEntry = {
  kind: number
  mint: Uint8Array
  amount: bigint
  destination: Uint8Array
  inner: Uint8Array
  nullifier: Uint8Array
}

function pushEntry(call: Call, queue: Uint8Array, made: NewEntry): void {
  const [free, used] = [u32At(queue, QUEUE.free_head), u32At(queue, QUEUE.used)]
  must(free > 0 || used < u32At(queue, QUEUE.capacity), 'a payout without room')
  const entry = entryAt(queue, free > 0 ? free - 1 : used)
  if (free > 0) setU32(queue, QUEUE.free_head, u32At(entry, ENTRY.next_free))
  else setU32(queue, QUEUE.used, used + 1)
  const number = u64At(queue, QUEUE.next_number)
  setU64(queue, QUEUE.next_number, number + 1n)
  setU32(queue, QUEUE.open, u32At(queue, QUEUE.open) + 1)
  setU64(entry, ENTRY.number, number)
  entry[ENTRY.open] = 1
  entry[ENTRY.kind] = made.kind
  setU32(entry, ENTRY.next_free, 0)
  setU64(entry, ENTRY.queued_at_s, BigInt(call.clock.unix_s))
  setU64(entry, ENTRY.queued_slot, BigInt(call.clock.slot))
  entry.set(made.mint, ENTRY.mint)
  setU64(entry, ENTRY.amount, made.amount)
  entry.set(made.destination, ENTRY.destination)
  entry.set(made.inner, ENTRY.inner)
  entry.set(made.nullifier, ENTRY.nullifier)
}

/** Pays an entry; answers its refund note where nothing could be transferred or a refund was asked for. */
function payEntry(
  call: Call,
  entry: Uint8Array,
  at: number,
  asked: { refund: boolean; frozen: boolean },
  leaf_index: number,
): Appended | undefined {
  const { refund, frozen } = asked
  const [record_account, mint, vault, token_program, destination] = [0, 1, 2, 3, 4].map((step) =>
    accountAt(call, at + step),
  ) as [Placed, Placed, Placed, Placed, Placed]
  mustBeWritable(record_account)
  const record = mintRecordOf(call, record_account, mint.address)
  mustBeVaultToken(vault, record, token_program)
  must(same(mint.address, wordAt(entry, ENTRY.mint)), 'an entry paid in another mint')
  must(same(destination.address, wordAt(entry, ENTRY.destination)), 'an entry paid to another')
  const amount = u64At(entry, ENTRY.amount)
  const due_s = u64At(entry, ENTRY.queued_at_s) + REFUND_AFTER_S
  must(!refund || BigInt(call.clock.unix_s) >= due_s, 'a refund before its time')
  if (!refund && payoutOutcome(destination, vault, mint.address, token_program.address) === 0) {
    addTo(record, MINT_RECORD.queued, -amount)
    moveTokens(vault, destination, mint.address, amount)
    return undefined
  }
  // After a freeze the refund note is paid from `queued`.
  if (!frozen) {
    addTo(record, MINT_RECORD.queued, -amount)
    addTo(record, MINT_RECORD.liabilities, amount)
  }
  const made_of = { mint: mint.address, amount, inner: wordAt(entry, ENTRY.inner) }
  return { commitment: depositCommitment({ ...made_of, leaf_index }), made_of }
}

export function judgePay(call: Call): void {
  const [config, tree_account, ring_account, queue_account, us] = [0, 1, 2, 3, 4].map((at) =>
    accountAt(call, at),
  ) as [Placed, Placed, Placed, Placed, Placed]
  const fields = new Fields(call.data)
  const [refund, count] = [fields.u8(), fields.u8()]
  must(refund <= 1 && count >= 1 && count <= 8, 'a payment of no form')
  must(call.accounts.length === 5 + 5 * count, 'another number of accounts')
  mustBeProgram(call, us)
  const asked = { refund: refund === 1, frozen: isFrozen(configOf(call, config)) }
  for (const account of [tree_account, ring_account]) mustBeWritable(account)
  const [tree, ring] = [treeOf(call, tree_account), ringOf(call, ring_account)]
  const queue = queueOf(call, queue_account)
  const refunds: Appended[] = []
  for (let index = 0; index < count; index++) {
    const [low, high] = fields.bytes(2)
    const [place, number] = [low! + 256 * high!, fields.u64()]
    const entry = entryAt(queue, place)
    const used = place < u32At(queue, QUEUE.used)
    if (!used || entry[ENTRY.open] !== 1 || u64At(entry, ENTRY.number) !== number) continue
    const leaf_index = Number(leafCount(tree)) + refunds.length
    const note = payEntry(call, entry, 5 + 5 * index, asked, leaf_index)
    if (note !== undefined) refunds.push(note)
    entry[ENTRY.open] = 0
    setU32(entry, ENTRY.next_free, u32At(queue, QUEUE.free_head))
    setU32(queue, QUEUE.free_head, place + 1)
    setU32(queue, QUEUE.open, u32At(queue, QUEUE.open) - 1)
  }
  fields.end()
  if (refunds.length === 0) return
  keepState(ring, tree, call.clock.slot)
  appendLeaves(
    tree,
    refunds.map(({ commitment }) => commitment),
  )
  call.report.appended.push(...refunds)
}

export function judgeGrowQueue(call: Call): void {
  const [payer, config, account, system] = accountsOf(call, 4)
  new Fields(call.data).end()
  mustSign(payer)
  mustBeWritable(payer)
  mustBeSystem(system)
  configOf(call, config)
  const queue = queueOf(call, account)
  const capacity = u32At(queue, QUEUE.capacity)
  must(capacity < CAPACITY_MAX, 'a queue beyond its largest size')
  const data = new Uint8Array(queue.length + GROWTH * ENTRY_BYTES)
  data.set(queue)
  setU32(data, QUEUE.capacity, capacity + GROWTH)
  const rent = call.rentOf(data.length)
  const missing = rent > account.state.lamports ? rent - account.state.lamports : 0n
  must(payer.state.lamports >= missing, 'the payer is poor')
  payer.state.lamports -= missing
  account.state.lamports += missing
  account.state.data = data
}

const FIXED_ACCOUNTS = 5
const [WITHDRAWAL, EXIT] = [0, 1]

type Batch = ReturnType<typeof readBatch>

function readBatch(data: Uint8Array) {
  const fields = new Fields(data)
  const header = {
    epoch: fields.u64(),
    batch: fields.u64(),
    cited_count: fields.u64(),
    cited_root: fields.word(),
    seq: fields.u64(),
    head: fields.word(),
    mints: fields.u8(),
  }
  const [nullifiers, outputs, payouts] = [fields.u8(), fields.u8(), fields.u8()]
  must(nullifiers <= SETTLE_LIMITS.nullifiers && outputs <= SETTLE_LIMITS.outputs, 'a batch too large')
  must(payouts <= SETTLE_LIMITS.payouts && header.mints <= SETTLE_LIMITS.payout_mints, 'too many payouts')
  must(header.mints <= payouts, 'mints without payouts')
  const batch = {
    ...header,
    nullifiers: fields.words(nullifiers),
    commitments: Array.from({ length: outputs }, () => fields.bytes(48).slice(0, 32)),
    payouts: Array.from({ length: payouts }, () => ({
      kind: fields.u8(),
      mint: fields.u8(),
      nullifier: fields.u8(),
      amount: fields.u64(),
      destination: fields.word(),
      inner: fields.word(),
    })),
  }
  fields.end()
  return batch
}

function mustAscend(values: readonly Uint8Array[]): void {
  for (const value of values) mustBeElement(value)
  const ascending = values.every((value, at) => at === 0 || compareBytes(values[at - 1]!, value) < 0)
  must(ascending, 'values that do not ascend')
}

/** An exit is paid only by the open request for exactly this payout, which is marked. */
function serveRequest(call: Call, at: number, entry: NewEntry): void {
  const account = accountAt(call, at)
  mustBeWritable(account)
  const request = requestOf(call, account)
  const same_request =
    request[REQUEST.served] === 0 &&
    same(wordAt(request, REQUEST.nullifier), entry.nullifier) &&
    same(wordAt(request, REQUEST.mint), entry.mint) &&
    u64At(request, REQUEST.amount) === entry.amount &&
    same(wordAt(request, REQUEST.destination), entry.destination) &&
    same(wordAt(request, REQUEST.refund_inner), entry.inner)
  must(same_request, 'an exit that nobody asked for')
  request[REQUEST.served] = 1
}

function queuePayouts(call: Call, { payouts, mints, nullifiers }: Batch): void {
  if (payouts.length === 0) {
    must(call.accounts.length === FIXED_ACCOUNTS, 'another number of accounts')
    return
  }
  const queue = queueOf(call, accountAt(call, FIXED_ACCOUNTS))
  let next_exit = FIXED_ACCOUNTS + 1 + mints
  for (const payout of payouts) {
    const { kind, amount, destination, inner } = payout
    must(kind === EXIT || (kind === WITHDRAWAL && payout.nullifier === 0), 'a payout of no kind')
    must(amount > 0n, 'a payout of nothing')
    mustBeElement(inner)
    must(payout.mint < mints, 'a payout in no mint')
    const record_account = accountAt(call, FIXED_ACCOUNTS + 1 + payout.mint)
    mustBeWritable(record_account)
    must(record_account.state.data.length > MINT_RECORD.queued, 'no mint record')
    const mint = wordAt(record_account.state.data, MINT_RECORD.mint)
    const record = mintRecordOf(call, record_account, mint)
    const nullifier = kind === EXIT ? nullifiers[payout.nullifier] : new Uint8Array(32)
    must(nullifier !== undefined, 'an exit that spends nothing')
    const entry = { kind, mint, amount, destination, inner, nullifier }
    if (kind === EXIT) {
      serveRequest(call, next_exit, entry)
      next_exit += 1
    }
    must(amount <= u64At(record, MINT_RECORD.liabilities), 'a payout above the liabilities')
    addTo(record, MINT_RECORD.liabilities, -amount)
    addTo(record, MINT_RECORD.queued, amount)
    pushEntry(call, queue, entry)
  }
  must(call.accounts.length === next_exit, 'another number of accounts')
}

export function judgeSettle(call: Call): void {
  const batch = readBatch(call.data)
  const [signer, config_account, tree_account, ring_account, us] = [0, 1, 2, 3, 4].map((at) =>
    accountAt(call, at),
  )
  mustBeProgram(call, us!)
  const config = writableConfig(call, config_account!)
  mustBeSigner(config, signer!)
  mustRun(config)
  mustBeEpoch(config, batch.epoch)
  const last_batch = u64At(config, CONFIG.last_batch)
  must(batch.batch === last_batch + 1n, 'not the next batch')
  advanceJournal(config, batch.seq, batch.head)
  mustBeWritable(tree_account!)
  mustBeWritable(ring_account!)
  const [tree, ring] = [treeOf(call, tree_account!), ringOf(call, ring_account!)]
  mustKnowState(ring, tree, batch.cited_count, batch.cited_root)
  mustAscend(batch.nullifiers)
  mustAscend(batch.commitments)
  queuePayouts(call, batch)
  keepState(ring, tree, call.clock.slot)
  appendLeaves(tree, batch.commitments)
  appendBatch(tree, Number(last_batch), batch.nullifiers)
  addTo(config, CONFIG.spent_count, BigInt(batch.nullifiers.length))
  setU64(config, CONFIG.last_batch, batch.batch)
  setU64(config, CONFIG.settled_leaf_count, leafCount(tree))
  call.report.appended.push(...batch.commitments.map((commitment) => ({ commitment })))
  call.report.batches.push(batch.nullifiers)
}
