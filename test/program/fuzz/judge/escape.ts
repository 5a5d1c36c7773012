/** What `escape` must be and do. */
import { compareBytes, isZero } from '../../../../protocol/bytes'
import { spentLeaves } from '../../../../protocol/notes/spent_tree'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { escapeRecordSeeds, exitRequestAddress } from '../../../../protocol/vault/addresses'
import {
  accountsOf,
  type Call,
  createAccount,
  isReduced,
  must,
  mustBeProgram,
  mustBeSystem,
  mustBeWritable,
  mustSign,
  type Placed,
  same,
} from './call'
import { CONFIG, configOf, isFrozen } from './config_account'
import { requestOf, returnBond } from './exits'
import { Fields, setU64, u64At, wordAt } from './fields'
import { leafCount, noteRoot, treeOf } from './note_states'
import { openNote, readOpening, rootOf } from './notes'
import { MINT_RECORD, mintRecordOf, moveTokens, mustBeVaultToken, payoutOutcome } from './tokens'

type Proof = ReturnType<typeof readProof>

function readProof(data: Uint8Array) {
  const fields = new Fields(data)
  const opening = readOpening(fields)
  const [low_value, low_next, low_index] = [fields.word(), fields.word(), fields.u64()]
  const [path, low_path] = [fields.words(32), fields.words(32)]
  fields.end()
  must(isReduced(low_value) && isReduced(low_next), 'a value is no field element')
  return { opening, low_value, low_next, low_index, path, low_path }
}

/** The low leaf must enclose the nullifier and be in the spent tree. */
function mustBeUnspent(proof: Proof, nullifier: Uint8Array, spent_root: Uint8Array): void {
  const { low_value, low_next, low_index, low_path } = proof
  const above = isZero(low_next) || compareBytes(low_next, nullifier) > 0
  must(compareBytes(low_value, nullifier) < 0 && above, 'a spent note')
  const [leaf] = spentLeaves([{ value: low_value, next_value: low_next }])
  must(same(rootOf(leaf!, low_index, low_path), spent_root), 'a forged absence')
}

export function judgeEscape(call: Call): void {
  const [
    owner,
    payer,
    config_account,
    tree_account,
    record_account,
    mint,
    vault,
    destination,
    token_program,
    escaped,
    request,
    bond_payer,
    system,
    us,
  ] = accountsOf(call, 14) as [
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
    Placed,
  ]
  const proof = readProof(call.data)
  const { opening, path } = proof
  mustBeProgram(call, us)
  mustBeSystem(system)
  mustSign(owner)
  const config = configOf(call, config_account)
  must(isFrozen(config), 'an escape from a running vault')
  const tree = treeOf(call, tree_account)
  mustBeWritable(record_account)
  const record = mintRecordOf(call, record_account, mint.address)
  mustBeVaultToken(vault, record, token_program)
  const { commitment, nullifier } = openNote(opening, mint.address, owner.address)
  must(opening.leaf_index < leafCount(tree), 'a leaf behind the tree')
  must(same(rootOf(commitment, opening.leaf_index, path), noteRoot(tree)), 'a note that is not there')
  mustBeUnspent(proof, nullifier, wordAt(config, CONFIG.spent_root))
  const made = {
    seeds: escapeRecordSeeds(nullifier),
    size: ACCOUNT_BYTES.escape_record,
    owner: call.vault.program,
  }
  const { data, bump } = createAccount(call, payer, escaped, { ...made, bond: 0n })
  data.set([6, 1, bump])
  data.set(nullifier, 8)
  setU64(data, 40, opening.amount)
  must(
    payoutOutcome(destination, vault, mint.address, token_program.address) === 0,
    'an unusable destination',
  )
  must(u64At(record, MINT_RECORD.liabilities) >= opening.amount, 'a payout above the liabilities')
  setU64(record, MINT_RECORD.liabilities, u64At(record, MINT_RECORD.liabilities) - opening.amount)
  moveTokens(vault, destination, mint.address, opening.amount)
  // A request of this note that is still open must not outlive it, whatever account stands in its place.
  const at_home = same(request.address, exitRequestAddress(call.vault.program, nullifier))
  if (same(request.state.owner, call.vault.program))
    returnBond(requestOf(call, request, nullifier), request, bond_payer)
  else must(!at_home || request.state.data.length === 0, 'an open request is passed over')
}
