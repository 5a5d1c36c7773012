/** What `settle` must be and do, without its payouts. */
import { compareBytes } from '../../../../protocol/bytes'
import { SETTLE_LIMITS } from '../../../../protocol/limits'
import { accountAt, type Call, must, mustBeElement, mustBeProgram, mustBeWritable, same } from './call'
import {
  CONFIG,
  mustBeEpoch,
  mustBeSigner,
  mustGoForward,
  mustRun,
  setJournal,
  writableConfig,
} from './config_account'
import { Fields, setU64, u64At, wordAt } from './fields'
import {
  appendLeaves,
  keepSpentRoot,
  keepState,
  leafCount,
  mustKnowState,
  ringOf,
  treeOf,
} from './note_states'
import { settlePayouts } from './payouts'

export type Batch = ReturnType<typeof readBatch>

function readBatch(data: Uint8Array) {
  const fields = new Fields(data)
  const header = {
    epoch: fields.u64(),
    batch: fields.u64(),
    cited_count: fields.u64(),
    cited_root: fields.word(),
    spent_root: fields.word(),
    seq: fields.u64(),
    head: fields.word(),
  }
  const [nullifiers, outputs, payouts, mints] = [fields.u8(), fields.u8(), fields.u8(), fields.u8()]
  must(nullifiers <= SETTLE_LIMITS.nullifiers && outputs <= SETTLE_LIMITS.outputs, 'a batch too large')
  must(payouts <= SETTLE_LIMITS.payouts && mints <= SETTLE_LIMITS.payout_mints, 'too many payouts')
  must(mints <= payouts, 'mints without payouts')
  must(nullifiers + outputs + payouts > 0, 'an empty batch')
  const batch = {
    ...header,
    mints,
    nullifiers: fields.words(nullifiers),
    commitments: Array.from({ length: outputs }, () => fields.bytes(48).slice(0, 32)),
    payouts: Array.from({ length: payouts }, () => ({
      kind: fields.u8(),
      mint: fields.u8(),
      nullifier: fields.u8(),
      amount: fields.u64(),
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
  must(batch.batch === u64At(config, CONFIG.last_batch) + 1n, 'not the next batch')
  mustGoForward(config, batch.seq, batch.head)
  mustBeWritable(tree_account!)
  mustBeWritable(ring_account!)
  const [tree, ring] = [treeOf(call, tree_account!), ringOf(call, ring_account!)]
  mustKnowState(ring, tree, batch.cited_count, batch.cited_root)
  mustAscend(batch.nullifiers)
  mustAscend(batch.commitments)
  const spends = batch.nullifiers.length > 0
  mustBeElement(batch.spent_root)
  must(same(batch.spent_root, wordAt(config, CONFIG.spent_root)) !== spends, 'a spent root out of step')
  const refunds = settlePayouts(call, batch, Number(leafCount(tree)) + batch.commitments.length)
  const appended = [...batch.commitments.map((commitment) => ({ commitment })), ...refunds]
  if (appended.length > 0) keepState(ring, tree, call.clock.slot)
  appendLeaves(
    tree,
    appended.map(({ commitment }) => commitment),
  )
  if (spends) {
    keepSpentRoot(ring, wordAt(config, CONFIG.spent_root))
    config.set(batch.spent_root, CONFIG.spent_root)
    const count = u64At(config, CONFIG.spent_count) + BigInt(batch.nullifiers.length)
    setU64(config, CONFIG.spent_count, count)
  }
  setU64(config, CONFIG.last_batch, batch.batch)
  setJournal(config, batch.seq, batch.head)
  call.report.appended.push(...appended)
  call.report.spent.push(...batch.nullifiers)
}
