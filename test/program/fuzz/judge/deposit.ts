/** What `deposit` must be and do. */
import { depositCommitment } from '../../../../protocol/notes/notes'
import {
  accountsOf,
  type Call,
  must,
  mustBeElement,
  mustBeProgram,
  mustBeWritable,
  mustSign,
  same,
} from './call'
import { CONFIG, configOf, mustRun } from './config_account'
import { Fields, u64At } from './fields'
import { appendLeaves, keepState, leafCount, ringOf, treeOf } from './note_states'
import {
  addTo,
  MINT_RECORD,
  mintRecordOf,
  moveTokens,
  mustBeSolvent,
  mustBeVaultToken,
  mustHold,
} from './tokens'

export function judgeDeposit(call: Call): void {
  const [
    depositor,
    source,
    config,
    tree_account,
    ring_account,
    record_account,
    mint,
    vault,
    token_program,
    us,
  ] = accountsOf(call, 10)
  const fields = new Fields(call.data)
  const [amount, inner] = [fields.u64(), fields.word()]
  fields.end()
  mustBeProgram(call, us)
  const state = configOf(call, config)
  mustRun(state)
  must(u64At(state, CONFIG.epoch) > 0n, 'a deposit before the first epoch')
  mustSign(depositor)
  for (const account of [tree_account, ring_account, record_account]) mustBeWritable(account)
  const [tree, ring] = [treeOf(call, tree_account), ringOf(call, ring_account)]
  const record = mintRecordOf(call, record_account, mint.address)
  mustBeVaultToken(vault, record, token_program)
  must(!same(source.address, vault.address), 'a deposit from the vault itself')
  must(amount >= u64At(record, MINT_RECORD.min_deposit), 'a deposit below the minimum')
  mustBeElement(inner)
  moveTokens(source, vault, mint.address, amount)
  mustHold(depositor, source.state, amount)
  addTo(record, MINT_RECORD.liabilities, amount)
  mustBeSolvent(record, vault)
  const made_of = { mint: mint.address, amount, inner }
  const commitment = depositCommitment({ ...made_of, leaf_index: Number(leafCount(tree)) })
  keepState(ring, tree, call.clock.slot)
  appendLeaves(tree, [commitment])
  call.report.appended.push({ commitment, made_of })
}
