/** Rules and effects of exits, the freeze and the claims of a wind-down. */
import { spentLogLeaf } from '../../../../protocol/notes/merkle_tree'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import {
  escapeClaimAddress,
  escapeClaimSeeds,
  exitRequestAddress,
  exitRequestSeeds,
} from '../../../../protocol/vault/addresses'
import { spentRootFromPath } from '../../../kit/root_from_path'
import { CONFIG, configOf, isFrozen, writableConfig } from './admin'
import {
  accountsOf,
  type Call,
  closeAccount,
  createAccount,
  Fields,
  must,
  mustBeElement,
  mustBeProgram,
  mustBeSystem,
  mustBeWritable,
  mustSign,
  ownAccount,
  type Placed,
  same,
  setU64,
  u64At,
  VERSION,
  wordAt,
} from './call'
import {
  leafCount,
  mustKnowSpentRoot,
  mustKnowState,
  openNote,
  readOpening,
  ringOf,
  rootOf,
  treeOf,
} from './note_states'
import {
  addTo,
  MINT_RECORD,
  mintRecordOf,
  moveTokens,
  mustBeVaultToken,
  payoutOutcome,
  tokensIn,
} from './tokens'

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
function mustBeSpent(call: Call, accounts: { tree: Placed; ring: Placed }, nullifier: Uint8Array): void {
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

const CLAIM_BOND = 50_000_000n
const CLAIM = {
  state: 3,
  rank: 4,
  nullifier: 8,
  mint: 40,
  amount: 72,
  destination: 80,
  owner: 112,
  bond_payer: 144,
  claimed_at_s: 176,
  sequence: 184,
  paid: 192,
}
const [LATE, WINDOW, REFUND] = [0, 1, 2]
const [PAID, CANCELLED] = [1, 2]

const windowTotal = (record: Uint8Array): bigint =>
  u64At(record, MINT_RECORD.window_total) + (u64At(record, MINT_RECORD.window_total + 8) << 64n)

function setWindowTotal(record: Uint8Array, total: bigint): void {
  setU64(record, MINT_RECORD.window_total, total & ((1n << 64n) - 1n))
  setU64(record, MINT_RECORD.window_total + 8, total >> 64n)
}

function shareOf(record: Uint8Array, amount: bigint): bigint {
  const [base, total] = [u64At(record, MINT_RECORD.window_base), windowTotal(record)]
  return base < total ? (amount * base) / total : amount
}

/** The record of the mint that its account names. */
function writableRecord(call: Call, account: Placed): Uint8Array {
  mustBeWritable(account)
  must(account.state.data.length === ACCOUNT_BYTES.mint_record, 'no mint record')
  return mintRecordOf(call, account, wordAt(account.state.data, MINT_RECORD.mint))
}

/** An open claim, which must be at the address of the nullifier it holds. */
function openClaimOf(call: Call, account: Placed): Uint8Array {
  mustBeWritable(account)
  const { data } = account.state
  must(data.length === ACCOUNT_BYTES.escape_claim, 'no claim')
  const address = escapeClaimAddress(call.vault.program, wordAt(data, CLAIM.nullifier))
  const claim = ownAccount(call, account, address, 8, ACCOUNT_BYTES.escape_claim)
  must(claim[CLAIM.state] === 0, 'a claim that is closed')
  return claim
}

function giveBond(claim: Placed, receiver: Placed): void {
  mustBeWritable(receiver)
  claim.state.lamports -= CLAIM_BOND
  receiver.state.lamports += CLAIM_BOND
}

export function judgeClaimEscape(call: Call): void {
  const [owner, payer, config_account, tree, ring, record_account, account, system, us] = accountsOf(call, 9)
  const fields = new Fields(call.data)
  const opening = readOpening(fields)
  const [cited_count, cited_root] = [fields.u64(), fields.word()]
  const [destination, path] = [fields.word(), fields.words(40)]
  fields.end()
  must(opening.amount > 0n, 'a claim of nothing')
  mustBeProgram(call, us)
  mustBeSystem(system)
  mustSign(owner)
  const config = configOf(call, config_account)
  must(isFrozen(config), 'a claim in a vault that is not frozen')
  const record = writableRecord(call, record_account)
  const mint = wordAt(record, MINT_RECORD.mint)
  mustKnowState(ringOf(call, ring), treeOf(call, tree), cited_count, cited_root)
  must(opening.leaf_index < cited_count, 'a leaf behind the cited state')
  const { commitment, nullifier } = openNote(opening, mint, owner.address)
  must(same(rootOf(commitment, opening.leaf_index, path), cited_root), 'a note that is not there')
  const now_s = BigInt(call.clock.unix_s)
  const window_end_s = u64At(config, CONFIG.frozen_at_s) + u64At(config, CONFIG.exit_delay_s)
  const rank =
    opening.leaf_index >= u64At(config, CONFIG.frozen_leaf_count)
      ? REFUND
      : now_s < window_end_s
        ? WINDOW
        : LATE
  if (rank === WINDOW) setWindowTotal(record, windowTotal(record) + opening.amount)
  const made = { size: ACCOUNT_BYTES.escape_claim, owner: call.vault.program, bond: CLAIM_BOND }
  const seeds = escapeClaimSeeds(nullifier)
  const { data, bump } = createAccount(call, payer, account, { ...made, seeds })
  data.set([8, VERSION, bump, 0, rank!])
  data.set(nullifier, CLAIM.nullifier)
  data.set(mint, CLAIM.mint)
  setU64(data, CLAIM.amount, opening.amount)
  data.set(destination, CLAIM.destination)
  data.set(owner.address, CLAIM.owner)
  data.set(payer.address, CLAIM.bond_payer)
  setU64(data, CLAIM.claimed_at_s, now_s)
}

export function judgeChallengeEscape(call: Call): void {
  const [challenger, config, tree, ring, record_account, account, us] = accountsOf(call, 7)
  mustBeProgram(call, us)
  mustSign(challenger)
  configOf(call, config)
  const record = writableRecord(call, record_account)
  const claim = openClaimOf(call, account)
  must(same(wordAt(record, MINT_RECORD.mint), wordAt(claim, CLAIM.mint)), 'a claim in another mint')
  must(claim[CLAIM.rank] !== REFUND, 'a refund note cancelled')
  mustBeSpent(call, { tree, ring }, wordAt(claim, CLAIM.nullifier))
  const amount = u64At(claim, CLAIM.amount)
  if (claim[CLAIM.rank] === WINDOW) {
    if (u64At(record, MINT_RECORD.window_fixed_at_s) === 0n)
      setWindowTotal(record, windowTotal(record) - amount)
    else addTo(record, MINT_RECORD.window_owed, -shareOf(record, amount))
  }
  claim[CLAIM.state] = CANCELLED!
  giveBond(account, challenger)
}

function fixWindow(record: Uint8Array, balance: bigint, now_s: bigint): void {
  if (u64At(record, MINT_RECORD.window_fixed_at_s) !== 0n) return
  const queued = u64At(record, MINT_RECORD.queued)
  const [base, total] = [balance > queued ? balance - queued : 0n, windowTotal(record)]
  setU64(record, MINT_RECORD.window_base, base)
  setU64(record, MINT_RECORD.window_owed, base < total ? base : total)
  setU64(record, MINT_RECORD.window_fixed_at_s, now_s)
}

function leftForLate(record: Uint8Array, balance: bigint): bigint {
  const owed = u64At(record, MINT_RECORD.queued) + u64At(record, MINT_RECORD.window_owed)
  return balance > owed ? balance - owed : 0n
}

export function judgePayEscape(call: Call): void {
  const [
    config_account,
    us,
    record_account,
    mint,
    vault,
    token_program,
    destination,
    account,
    bond_payer,
    owner,
  ] = accountsOf(call, 10)
  const fields = new Fields(call.data)
  const accepts_less = fields.u8()
  fields.end()
  must(accepts_less <= 1, 'a flag that is none')
  mustBeProgram(call, us)
  const config = configOf(call, config_account)
  mustBeWritable(record_account)
  const record = mintRecordOf(call, record_account, mint.address)
  mustBeVaultToken(vault, record, token_program)
  const claim = openClaimOf(call, account)
  must(same(mint.address, wordAt(claim, CLAIM.mint)), 'a claim paid in another mint')
  must(same(destination.address, wordAt(claim, CLAIM.destination)), 'a claim paid to another')
  must(same(owner.address, wordAt(claim, CLAIM.owner)), 'another owner')
  must(same(bond_payer.address, wordAt(claim, CLAIM.bond_payer)), 'the bond of another')
  const [now_s, delay_s] = [BigInt(call.clock.unix_s), u64At(config, CONFIG.exit_delay_s)]
  const frozen_at_s = u64At(config, CONFIG.frozen_at_s)
  must(now_s >= frozen_at_s + 2n * delay_s, 'a claim paid before the window is over')
  must(now_s >= u64At(claim, CLAIM.claimed_at_s) + delay_s, 'a claim paid before its time')
  const [rank, amount, balance] = [claim[CLAIM.rank], u64At(claim, CLAIM.amount), tokensIn(vault.state)]
  fixWindow(record, balance, now_s)
  const left = leftForLate(record, balance)
  const missing = amount > left ? amount - left : 0n
  const paid = rank === REFUND ? amount : rank === WINDOW ? shareOf(record, amount) : amount - missing
  const consent = accepts_less === 1 && owner.signer
  must(rank === WINDOW || paid === amount || consent, 'less than the amount without consent')
  must(payoutOutcome(destination, vault, mint.address, token_program.address) === 0, 'nowhere to pay')
  moveTokens(vault, destination, mint.address, paid)
  if (rank === REFUND) addTo(record, MINT_RECORD.queued, -paid)
  else {
    const liabilities = u64At(record, MINT_RECORD.liabilities)
    setU64(record, MINT_RECORD.liabilities, liabilities > paid ? liabilities - paid : 0n)
    if (rank === WINDOW) addTo(record, MINT_RECORD.window_owed, -paid)
  }
  claim[CLAIM.state] = PAID!
  setU64(claim, CLAIM.paid, paid)
  giveBond(account, bond_payer)
}

export function judgeRedirectEscape(call: Call): void {
  const [owner, config, account, us] = accountsOf(call, 4)
  const fields = new Fields(call.data)
  const [sequence, destination] = [fields.u64(), fields.word()]
  fields.end()
  mustBeProgram(call, us)
  configOf(call, config)
  const claim = openClaimOf(call, account)
  mustSign(owner)
  must(same(owner.address, wordAt(claim, CLAIM.owner)), 'a redirect by another')
  must(sequence === u64At(claim, CLAIM.sequence) + 1n, 'a redirect out of sequence')
  setU64(claim, CLAIM.sequence, sequence)
  claim.set(destination, CLAIM.destination)
}
