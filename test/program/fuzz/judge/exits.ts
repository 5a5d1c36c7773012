/** What `request_exit`, `refuse_exit` and `freeze` must be and do. */

import { spentLeaves } from '../../../../protocol/notes/spent_tree'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { exitRequestAddress, exitRequestSeeds } from '../../../../protocol/vault/addresses'
import {
  accountsOf,
  type Call,
  closeAccount,
  createAccount,
  isReduced,
  must,
  mustBeElement,
  mustBeProgram,
  mustBeSystem,
  mustBeWritable,
  mustSign,
  ownAccount,
  type Placed,
  same,
} from './call'
import { CONFIG, configOf, isFrozen, writableConfig } from './config_account'
import { Fields, setU64, u64At, wordAt } from './fields'
import { mustKnowSpentRoot, mustKnowState, ringOf, treeOf } from './note_states'
import { openNote, readOpening, rootOf } from './notes'
import { MINT_RECORD, mintRecordOf } from './tokens'

const BOND = 20_000_000n
export const REQUEST = {
  nullifier: 8,
  commitment: 40,
  mint: 72,
  amount: 104,
  destination: 112,
  refund_inner: 144,
  bond_payer: 176,
  deadline_s: 208,
  slot: 216,
}

/** An open request, by the nullifier it must be about. */
export function requestOf(call: Call, account: Placed, nullifier: Uint8Array): Uint8Array {
  mustBeWritable(account)
  const address = exitRequestAddress(call.vault.program, nullifier)
  return ownAccount(call, account, address, 5, ACCOUNT_BYTES.exit_request)
}

const anyRequestOf = (call: Call, account: Placed): Uint8Array => {
  must(account.state.data.length === ACCOUNT_BYTES.exit_request, 'no request')
  return requestOf(call, account, wordAt(account.state.data, REQUEST.nullifier))
}

/** Rent and bond go back to who paid them. */
export function returnBond(request: Uint8Array, account: Placed, bond_payer: Placed): void {
  must(same(bond_payer.address, wordAt(request, REQUEST.bond_payer)), 'the bond of another')
  closeAccount(account, bond_payer)
}

export function judgeRequestExit(call: Call): void {
  const [owner, payer, config_account, tree, ring, record_account, account, system, us] = accountsOf(
    call,
    9,
  ) as [Placed, Placed, Placed, Placed, Placed, Placed, Placed, Placed, Placed]
  const fields = new Fields(call.data)
  const opening = readOpening(fields)
  const [cited_count, cited_root] = [fields.u64(), fields.word()]
  const [destination, refund_inner, path] = [fields.word(), fields.word(), fields.words(32)]
  fields.end()
  mustBeElement(refund_inner)
  mustBeProgram(call, us)
  mustBeSystem(system)
  mustSign(owner)
  const config = configOf(call, config_account)
  must(!isFrozen(config), 'a request in a frozen vault')
  must(record_account.state.data.length === ACCOUNT_BYTES.mint_record, 'no mint record')
  const mint = wordAt(record_account.state.data, MINT_RECORD.mint)
  const record = mintRecordOf(call, record_account, mint)
  mustKnowState(ringOf(call, ring), treeOf(call, tree), cited_count, cited_root)
  must(opening.leaf_index < cited_count, 'a leaf behind the cited state')
  must(opening.amount >= u64At(record, MINT_RECORD.min_exit), 'an exit below the minimum')
  const { commitment, nullifier } = openNote(opening, mint, owner.address)
  must(same(rootOf(commitment, opening.leaf_index, path), cited_root), 'a note that is not there')
  const made = {
    seeds: exitRequestSeeds(nullifier),
    size: ACCOUNT_BYTES.exit_request,
    owner: call.vault.program,
  }
  const { data, bump } = createAccount(call, payer, account, { ...made, bond: BOND })
  data.set([5, 1, bump])
  data.set(nullifier, REQUEST.nullifier)
  data.set(commitment, REQUEST.commitment)
  data.set(mint, REQUEST.mint)
  setU64(data, REQUEST.amount, opening.amount)
  data.set(destination, REQUEST.destination)
  data.set(refund_inner, REQUEST.refund_inner)
  data.set(payer.address, REQUEST.bond_payer)
  setU64(data, REQUEST.deadline_s, BigInt(call.clock.unix_s) + u64At(config, CONFIG.exit_delay_s))
  setU64(data, REQUEST.slot, BigInt(call.clock.slot))
}

export function judgeRefuseExit(call: Call): void {
  const [refuser, config_account, ring, account, us] = accountsOf(call, 5) as [
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
  ]
  const fields = new Fields(call.data)
  const [cited_root, next_value, index, path] = [fields.word(), fields.word(), fields.u64(), fields.words(32)]
  fields.end()
  mustBeProgram(call, us)
  mustSign(refuser)
  const config = configOf(call, config_account)
  const request = anyRequestOf(call, account)
  mustKnowSpentRoot(ringOf(call, ring), wordAt(config, CONFIG.spent_root), cited_root)
  must(isReduced(next_value), 'a value is no field element')
  const [leaf] = spentLeaves([{ value: wordAt(request, REQUEST.nullifier), next_value }])
  must(same(rootOf(leaf!, index, path), cited_root), 'a note that is not spent')
  closeAccount(account, refuser)
}

export function judgeFreeze(call: Call): void {
  const [config_account, account, bond_payer, us] = accountsOf(call, 4) as [Placed, Placed, Placed, Placed]
  new Fields(call.data).end()
  mustBeProgram(call, us)
  const config = writableConfig(call, config_account)
  const request = anyRequestOf(call, account)
  if (!isFrozen(config)) {
    must(BigInt(call.clock.unix_s) > u64At(request, REQUEST.deadline_s), 'a freeze before the deadline')
    config[CONFIG.frozen] = 1
    setU64(config, CONFIG.frozen_at_s, BigInt(call.clock.unix_s))
  }
  returnBond(request, account, bond_payer)
}
