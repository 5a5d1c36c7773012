/** What `request_exit`, `refuse_exit`, `freeze` and `close_exit` must be and do. */

import { spentLogLeaf } from '../../../../protocol/notes/spent_log'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { exitRequestAddress, exitRequestSeeds } from '../../../../protocol/vault/addresses'
import { spentRootFromPath } from '../../../kit/root_from_path'
import {
  accountsOf,
  type Call,
  closeAccount,
  createAccount,
  must,
  mustBeElement,
  mustBeProgram,
  mustBeSystem,
  mustSign,
  ownAccount,
  type Placed,
  same,
  VERSION,
} from './call'
import { CONFIG, configOf, isFrozen, writableConfig } from './config_account'
import { Fields, setU64, u64At, wordAt } from './fields'
import { leafCount, mustKnowSpentRoot, mustKnowState, ringOf, treeOf } from './note_states'
import { openNote, readOpening, rootOf } from './notes'
import { MINT_RECORD, mintRecordOf } from './tokens'

const BOND = 20_000_000n
export const REQUEST = {
  served: 3,
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

/** A request, which must be at the address of the nullifier it holds. */
export function requestOf(call: Call, account: Placed): Uint8Array {
  const { data } = account.state
  must(data.length === ACCOUNT_BYTES.exit_request, 'no request')
  const address = exitRequestAddress(call.vault.program, wordAt(data, REQUEST.nullifier))
  return ownAccount(call, account, address, 5, ACCOUNT_BYTES.exit_request)
}

export function judgeRequestExit(call: Call): void {
  const [owner, payer, config_account, tree, ring, record_account, account, system, us] = accountsOf(call, 9)
  const fields = new Fields(call.data)
  const opening = readOpening(fields)
  const [cited_count, cited_root] = [fields.u64(), fields.word()]
  const [destination, refund_inner, path] = [fields.word(), fields.word(), fields.words(40)]
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
  data.set([5, VERSION, bump])
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

/** The data proves that a batch of the log spent the note. */
export function mustBeSpent(
  call: Call,
  accounts: { tree: Placed; ring: Placed },
  nullifier: Uint8Array,
): void {
  const fields = new Fields(call.data)
  const [cited_root, batch] = [fields.word(), fields.u64()]
  const [nullifiers, path] = [fields.words(fields.u8()), fields.words(40)]
  fields.end()
  mustKnowSpentRoot(ringOf(call, accounts.ring), treeOf(call, accounts.tree), cited_root)
  must(batch >= 1n && batch <= 1n << 40n, 'no such batch')
  must(
    nullifiers.some((one) => same(one, nullifier)),
    'a batch that does not spend the note',
  )
  const root = spentRootFromPath(spentLogLeaf(Number(batch), nullifiers), Number(batch) - 1, path)
  must(same(root, cited_root), 'a batch that is not in the log')
}

export function judgeRefuseExit(call: Call): void {
  const [refuser, config_account, tree, ring, account, us] = accountsOf(call, 6)
  mustBeProgram(call, us)
  mustSign(refuser)
  configOf(call, config_account)
  const request = requestOf(call, account)
  must(request[REQUEST.served] === 0, 'a served request refused')
  mustBeSpent(call, { tree, ring }, wordAt(request, REQUEST.nullifier))
  closeAccount(account, refuser)
}

export function judgeFreeze(call: Call): void {
  const [config_account, tree, account, us] = accountsOf(call, 4)
  new Fields(call.data).end()
  mustBeProgram(call, us)
  const config = writableConfig(call, config_account)
  must(!isFrozen(config), 'frozen already')
  const request = requestOf(call, account)
  must(request[REQUEST.served] === 0, 'a freeze for a served request')
  const [deadline_s, outage_at_s] = [u64At(request, REQUEST.deadline_s), u64At(config, CONFIG.outage_at_s)]
  const extended = deadline_s - u64At(config, CONFIG.exit_delay_s) < outage_at_s && outage_at_s <= deadline_s
  const extra_s = extended ? u64At(config, CONFIG.outage_extra_s) : 0n
  must(BigInt(call.clock.unix_s) > deadline_s + extra_s, 'a freeze before the deadline')
  config[CONFIG.frozen] = 1
  setU64(config, CONFIG.frozen_at_s, BigInt(call.clock.unix_s))
  setU64(config, CONFIG.frozen_leaf_count, leafCount(treeOf(call, tree)))
}

export function judgeCloseExit(call: Call): void {
  const [config, account, bond_payer, us] = accountsOf(call, 4)
  new Fields(call.data).end()
  mustBeProgram(call, us)
  const frozen = isFrozen(configOf(call, config))
  const request = requestOf(call, account)
  must(request[REQUEST.served] === 1 || frozen, 'an open request closed')
  must(same(bond_payer.address, wordAt(request, REQUEST.bond_payer)), 'the bond of another')
  closeAccount(account, bond_payer)
}
