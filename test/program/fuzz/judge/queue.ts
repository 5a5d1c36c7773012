/** The payout queue as the judge keeps it, and what `pay` and `grow_queue` must be and do. */
import { depositCommitment } from '../../../../protocol/notes/notes'
import {
  type Appended,
  accountAt,
  accountsOf,
  type Call,
  must,
  mustBeProgram,
  mustBeSystem,
  mustBeWritable,
  mustSign,
  type Placed,
  same,
  VERSION,
} from './call'
import { configOf, isFrozen } from './config_account'
import { Fields, setU32, setU64, u32At, u64At, wordAt } from './fields'
import { appendLeaves, keepState, leafCount, ringOf, treeOf } from './note_states'
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

export function queueOf(call: Call, account: Placed): Uint8Array {
  mustBeWritable(account)
  const { data, owner } = account.state
  must(same(owner, call.vault.program) && same(account.address, call.vault.queue), 'another queue')
  must(data[0] === 7 && data[1] === VERSION, 'an account of another kind')
  return data
}

export type NewEntry = {
  kind: number
  mint: Uint8Array
  amount: bigint
  destination: Uint8Array
  inner: Uint8Array
  nullifier: Uint8Array
}

export function pushEntry(call: Call, queue: Uint8Array, made: NewEntry): void {
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
