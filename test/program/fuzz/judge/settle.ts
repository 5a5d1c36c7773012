/** What `settle` must be and do. */
import { compareBytes } from '../../../../protocol/bytes'
import { SETTLE_LIMITS } from '../../../../protocol/limits'
import { accountAt, type Call, must, mustBeElement, mustBeProgram, mustBeWritable, same } from './call'
import { advanceJournal, CONFIG, mustBeEpoch, mustBeSigner, mustRun, writableConfig } from './config_account'
import { REQUEST, requestOf } from './exits'
import { Fields, setU64, u64At, wordAt } from './fields'
import { appendBatch, appendLeaves, keepState, leafCount, mustKnowState, ringOf, treeOf } from './note_states'
import { type NewEntry, pushEntry, queueOf } from './queue'
import { addTo, MINT_RECORD, mintRecordOf } from './tokens'

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
