/** The config account as the judge knows it, and the rules and effects of the admin's instructions and `announce`. */
import { venueId } from '../../../../protocol/bodies/statements'
import { isZero } from '../../../../protocol/bytes'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { findAddress, type VaultAddresses } from '../../../../protocol/vault/addresses'
import { ANNOUNCED_LISTS, announcementSeeds } from '../../../../protocol/vault/admin'
import {
  accountsOf,
  type Call,
  createAccount,
  Fields,
  must,
  mustBeProgram,
  mustBeSystem,
  mustBeWritable,
  mustSign,
  ownAccount,
  type Placed,
  same,
  setU64,
  u16At,
  u64At,
  VERSION,
  wordAt,
} from './call'

export const CONFIG = {
  paused: 3,
  frozen: 4,
  mint_count: 6,
  generation: 8,
  epoch: 16,
  last_batch: 24,
  exit_delay_s: 32,
  journal_seq: 40,
  journal_head: 48,
  admin: 80,
  settlement_signer: 112,
  boot_nonce: 144,
  compose_hash: 160,
  epoch_slot: 192,
  commit_seq: 200,
  commit_head: 208,
  pending_admin: 240,
  pending_restore_at_s: 280,
  paused_at_s: 288,
  frozen_at_s: 296,
  venue: 304,
  genesis_hash: 336,
  outage_at_s: 368,
  outage_extra_s: 376,
  spent_count: 384,
  settled_leaf_count: 392,
  tree: 400,
  ring: 432,
  queue: 464,
  frozen_leaf_count: 496,
} as const

export const configOf = (call: Call, account: Placed): Uint8Array =>
  ownAccount(call, account, call.vault.config, 1, ACCOUNT_BYTES.config)

export function writableConfig(call: Call, account: Placed): Uint8Array {
  mustBeWritable(account)
  return configOf(call, account)
}

export const isFrozen = (config: Uint8Array): boolean => config[CONFIG.frozen] !== 0

export function mustRun(config: Uint8Array): void {
  must(!isFrozen(config), 'the vault is frozen')
  must(config[CONFIG.paused] === 0, 'the vault is paused')
}

export function mustBeAdmin(config: Uint8Array, account: Placed): void {
  mustSign(account)
  must(same(account.address, wordAt(config, CONFIG.admin)), 'not the admin')
}

export function mustBeSigner(config: Uint8Array, account: Placed): void {
  mustSign(account)
  must(same(account.address, wordAt(config, CONFIG.settlement_signer)), 'not the settlement signer')
}

export function mustBeEpoch(config: Uint8Array, epoch: bigint): void {
  must(epoch > 0n && epoch === u64At(config, CONFIG.epoch), 'another epoch')
}

/** The journal never goes back, and one position has one head; before the first epoch nothing is stored yet. */
export function mustGoForward(config: Uint8Array, seq: bigint, head: Uint8Array): void {
  const stored = u64At(config, CONFIG.journal_seq)
  must(seq >= stored, 'the journal goes back')
  const conflict = seq === stored && !same(head, wordAt(config, CONFIG.journal_head))
  must(!conflict || u64At(config, CONFIG.epoch) === 0n, 'two heads at one position')
}

/** A newer position is stored, an older one ignored, and one position has one head. */
export function advanceJournal(config: Uint8Array, seq: bigint, head: Uint8Array): void {
  const stored = u64At(config, CONFIG.journal_seq)
  if (seq > stored) setJournal(config, seq, head)
  must(seq !== stored || same(head, wordAt(config, CONFIG.journal_head)), 'two heads at one position')
}

export function setVenue(config: Uint8Array, { program, config: config_account }: VaultAddresses): void {
  const genesis_hash = wordAt(config, CONFIG.genesis_hash)
  const generation = Number(u64At(config, CONFIG.generation))
  config.set(venueId({ genesis_hash, program_id: program, config_account, generation }), CONFIG.venue)
}

/** Ends an announced restore. */
export function setJournal(config: Uint8Array, seq: bigint, head: Uint8Array): void {
  setU64(config, CONFIG.journal_seq, seq)
  config.set(head, CONFIG.journal_head)
  setU64(config, CONFIG.pending_restore_at_s, 0n)
}

/** 30 days. */
export const ANNOUNCEMENT_LIFE_S = 2_592_000n
/** 90 days. */
const OUTAGE_SPACING_MIN_S = 7_776_000n
const [ANNOUNCE, APPLY, CANCEL] = [0, 1, 2]

/** `set_admin`: announced, effective twice the exit delay later, applied or cancelled. */
export function judgeSetAdmin(call: Call): void {
  const [admin, config_account] = accountsOf(call, 2)
  const fields = new Fields(call.data)
  const [action, key] = [fields.u8(), fields.word()]
  fields.end()
  const config = writableConfig(call, config_account)
  const at = CONFIG.pending_admin
  const [pending, effective_at_s] = [wordAt(config, at), u64At(config, at + 32)]
  const setPending = (next: Uint8Array, from_s: bigint): void => {
    config.set(next, at)
    setU64(config, at + 32, from_s)
  }
  must(action <= CANCEL!, 'an action that is none')
  must(isZero(key) !== (action === ANNOUNCE), 'a key where none belongs, or none where one does')
  if (action === ANNOUNCE) {
    mustBeAdmin(config, admin)
    setPending(key, BigInt(call.clock.unix_s) + 2n * u64At(config, CONFIG.exit_delay_s))
    return
  }
  must(!isZero(pending), 'nothing is pending')
  if (action === APPLY) {
    mustSign(admin)
    must(same(admin.address, pending), 'applied by another than the new admin')
  } else mustBeAdmin(config, admin)
  if (action === APPLY) {
    const now_s = BigInt(call.clock.unix_s)
    must(now_s >= effective_at_s, 'applied before its time')
    must(now_s <= effective_at_s + ANNOUNCEMENT_LIFE_S, 'applied when void')
    config.set(pending, CONFIG.admin)
  }
  setPending(new Uint8Array(32), 0n)
}

/** Effective a quarter of the exit delay later, rounded up. */
export function judgeAuthorizeRestore(call: Call): void {
  const [admin, config_account] = accountsOf(call, 2)
  const fields = new Fields(call.data)
  const action = fields.u8()
  fields.end()
  const config = writableConfig(call, config_account)
  mustBeAdmin(config, admin)
  must(action === ANNOUNCE || action === CANCEL, 'an action that is none')
  must(action === ANNOUNCE || u64At(config, CONFIG.pending_restore_at_s) !== 0n, 'nothing is pending')
  const delay_s = (u64At(config, CONFIG.exit_delay_s) + 3n) / 4n
  const from_s = action === ANNOUNCE ? BigInt(call.clock.unix_s) + delay_s : 0n
  setU64(config, CONFIG.pending_restore_at_s, from_s)
}

export function judgePause(call: Call, paused: boolean): void {
  const [admin, config_account] = accountsOf(call, 2)
  new Fields(call.data).end()
  const config = writableConfig(call, config_account)
  mustBeAdmin(config, admin)
  must((config[CONFIG.paused] !== 0) !== paused, 'paused or running already')
  config[CONFIG.paused] = paused ? 1 : 0
  if (paused) setU64(config, CONFIG.paused_at_s, BigInt(call.clock.unix_s))
}

export function judgeDeclareOutage(call: Call): void {
  const [admin, config_account] = accountsOf(call, 2)
  const fields = new Fields(call.data)
  const extra_s = fields.u64()
  fields.end()
  const config = writableConfig(call, config_account)
  mustBeAdmin(config, admin)
  must(!isFrozen(config), 'an outage of a frozen vault')
  must(extra_s >= 1n && extra_s <= 3n * u64At(config, CONFIG.exit_delay_s), 'an outage too long')
  const now_s = BigInt(call.clock.unix_s)
  const extended_s = u64At(config, CONFIG.exit_delay_s) + u64At(config, CONFIG.outage_extra_s)
  const spacing_s = extended_s > OUTAGE_SPACING_MIN_S ? extended_s : OUTAGE_SPACING_MIN_S
  must(now_s >= u64At(config, CONFIG.outage_at_s) + spacing_s, 'an outage too soon')
  setU64(config, CONFIG.outage_at_s, now_s)
  setU64(config, CONFIG.outage_extra_s, extra_s)
}

/** Places of the fields of a record. */
export const RECORD = { list: 3, id: 8, since_s: 40, value: 48, next_at_s: 88, next: 96 } as const
const LISTS = Object.entries(ANNOUNCED_LISTS)
const VALUE_BYTES = 40

const blankFrom = (bytes: Uint8Array, width: number): boolean => isZero(bytes.slice(width))

/** The next value replaces the one that holds, once it is due. */
export function bringForward(record: Uint8Array, now_s: bigint): void {
  const at_s = u64At(record, RECORD.next_at_s)
  if (at_s === 0n || now_s < at_s) return
  record.copyWithin(RECORD.value, RECORD.next, RECORD.next + VALUE_BYTES)
  setU64(record, RECORD.since_s, at_s)
  record.fill(0, RECORD.next_at_s, RECORD.next + VALUE_BYTES)
}

function mustBeValue(list: string, width: number, value: Uint8Array): void {
  must(blankFrom(value, width), 'a value of another width')
  must(!isZero(value) || width === 0 || list.endsWith('minimum'), 'no value')
  must(list !== 'attestation_root' || value[0] === 2 || value[0] === 3, 'no compressed key')
}

export function judgeAnnounce(call: Call): void {
  const [admin, payer, config_account, account, system, us] = accountsOf(call, 6)
  const fields = new Fields(call.data)
  const [action, number, id, value] = [fields.u8(), fields.u8(), fields.word(), fields.bytes(VALUE_BYTES)]
  fields.end()
  mustBeProgram(call, us)
  mustBeSystem(system)
  const config = configOf(call, config_account)
  mustBeAdmin(config, admin)
  const [list, widths] = LISTS[number - 1] ?? []
  must(list !== undefined && widths !== undefined, 'a list that is none')
  must(blankFrom(id, widths.id) && isZero(id) === (widths.id === 0), 'an id of another form')
  mustBeWritable(account)
  must(action <= 3, 'an action that is none')
  const minimum = list.endsWith('minimum')
  if (action === 0 || action === 3) mustBeValue(list, widths.value, value)
  else must(isZero(value), 'a value where none belongs')
  const topic = { list: list as keyof typeof ANNOUNCED_LISTS, id }
  const seeds = announcementSeeds(topic)
  const now_s = BigInt(call.clock.unix_s)
  let record: Uint8Array
  if (action === 0 && account.state.data.length === 0) {
    const own = { size: ACCOUNT_BYTES.announcement, owner: call.vault.program, bond: 0n }
    const made = createAccount(call, payer, account, { ...own, seeds })
    record = made.data
    record.set([9, VERSION, made.bump, number])
    record.set(id, RECORD.id)
  } else {
    const { address } = findAddress(seeds, call.vault.program)
    record = ownAccount(call, account, address, 9, ACCOUNT_BYTES.announcement)
  }
  bringForward(record, now_s)
  const [holds, waits] = [u64At(record, RECORD.since_s) !== 0n, u64At(record, RECORD.next_at_s) !== 0n]
  if (action === 0 && u64At(config, CONFIG.epoch) > 0n) {
    record.set(value, RECORD.next)
    setU64(record, RECORD.next_at_s, now_s + 2n * u64At(config, CONFIG.exit_delay_s))
    return
  }
  if (action === 1) {
    must(waits, 'nothing is pending')
    record.fill(0, RECORD.next_at_s, RECORD.next + VALUE_BYTES)
    return
  }
  if (action === 2) {
    must(holds || waits, 'nothing to revoke')
    record.fill(0, RECORD.since_s, RECORD.next + VALUE_BYTES)
    return
  }
  if (action === 3) {
    const old = record.slice(RECORD.value, RECORD.value + VALUE_BYTES)
    must(minimum && holds, 'nothing to raise')
    must(
      value.every((part, at) => at >= 16 || part >= old[at]!),
      'a component is lowered',
    )
    must(u16At(value, 16) >= u16At(old, 16), 'an SVN is lowered')
    must(list !== 'tee_tcb_minimum' || value[1] === old[1], 'another major version')
  }
  record.set(value, RECORD.value)
  setU64(record, RECORD.since_s, now_s)
}
