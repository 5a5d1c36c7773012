/** What `open_epoch` and `anchor` must be and do. */
import { isZero } from '../../../../protocol/bytes'
import { accountsOf, type Call, must, mustBeProgram, type Placed } from './call'
import {
  CONFIG,
  mustBeEpoch,
  mustBeSigner,
  mustGoForward,
  setJournal,
  writableConfig,
} from './config_account'
import { Fields, setU64, u64At } from './fields'

export function judgeOpenEpoch(call: Call): void {
  const [signer, config_account, us] = accountsOf(call, 3) as [Placed, Placed, Placed]
  const fields = new Fields(call.data)
  const [epoch, boot_nonce, compose_hash] = [fields.u64(), fields.bytes(16), fields.word()]
  const [seq, head, restore, generation] = [fields.u64(), fields.word(), fields.u8(), fields.u64()]
  fields.end()
  must(restore <= 1, 'a restore flag that is none')
  must(!isZero(boot_nonce), 'an empty boot nonce')
  mustBeProgram(call, us)
  const config = writableConfig(call, config_account)
  mustBeSigner(config, signer)
  must(epoch === u64At(config, CONFIG.epoch) + 1n, 'not the next epoch')
  if (restore === 1) {
    const from_s = u64At(config, CONFIG.pending_restore_at_s)
    must(from_s !== 0n && BigInt(call.clock.unix_s) >= from_s, 'a restore that is not authorized')
    setU64(config, CONFIG.pending_restore_at_s, 0n)
    setU64(config, CONFIG.generation, u64At(config, CONFIG.generation) + 1n)
  } else mustGoForward(config, seq, head)
  must(generation === u64At(config, CONFIG.generation), 'another generation')
  setU64(config, CONFIG.epoch, epoch)
  config.set(boot_nonce, CONFIG.boot_nonce)
  config.set(compose_hash, CONFIG.compose_hash)
  setU64(config, CONFIG.epoch_slot, BigInt(call.clock.slot))
  setJournal(config, seq, head)
}

export function judgeAnchor(call: Call): void {
  const [signer, config_account] = accountsOf(call, 2) as [Placed, Placed]
  const fields = new Fields(call.data)
  const [epoch, seq, head] = [fields.u64(), fields.u64(), fields.word()]
  fields.end()
  const config = writableConfig(call, config_account)
  mustBeSigner(config, signer)
  mustBeEpoch(config, epoch)
  mustGoForward(config, seq, head)
  setJournal(config, seq, head)
}
