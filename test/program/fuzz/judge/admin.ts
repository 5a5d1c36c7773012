/** What the admin's instructions must be and do. */
import { isZero } from '../../../../protocol/bytes'
import { accountsOf, type Call, must, mustSign, same } from './call'
import { CONFIG, isFrozen, mustBeAdmin, writableConfig } from './config_account'
import { Fields, setU64, u64At, wordAt } from './fields'

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
