/** Rules and effects of `anchor`, `register_platform` and `open_attested_epoch`. */
import { concatBytes, equalBytes, isZero, toHex, utf8 } from '../../../../protocol/bytes'
import { u16 } from '../../../../protocol/codec'
import { ACCOUNT_BYTES } from '../../../../protocol/vault/accounts'
import { type AnnouncedTopic, announcementAddress } from '../../../../protocol/vault/admin'
import {
  epochReportData,
  INSTRUCTIONS_SYSVAR,
  platformAddress,
  registerPlatformInstructions,
  verifying,
} from '../../../../protocol/vault/epochs'
import { CERTIFICATES, isIssued, MACHINE, openingAt } from '../world'
import {
  ANNOUNCEMENT_LIFE_S,
  advanceJournal,
  bringForward,
  CONFIG,
  configOf,
  mustBeEpoch,
  mustBeSigner,
  mustGoForward,
  RECORD,
  setJournal,
  setVenue,
  writableConfig,
} from './admin'
import {
  accountsOf,
  type Call,
  createAccount,
  Fields,
  must,
  mustBeProgram,
  mustBeSystem,
  mustSign,
  ownAccount,
  type Placed,
  same,
  setU16,
  setU64,
  u64At,
  VERSION,
  wordAt,
} from './call'
import { mustKnowState, ringOf, spentRoot, treeOf } from './note_states'

type Advanced = { epoch: bigint; boot_nonce: Uint8Array; compose_hash: Uint8Array }

/** The fields of venue and journal, and their effect on config. */
function judgeAdvance(
  call: Call,
  accounts: { config: Uint8Array; tree: Placed; ring: Placed },
  fields: Fields,
): Advanced {
  const { config } = accounts
  const [epoch, boot_nonce, compose_hash] = [fields.u64(), fields.bytes(16), fields.word()]
  const [seq, head, expected_head] = [fields.u64(), fields.word(), fields.word()]
  const [restore, generation] = [fields.u8(), fields.u64()]
  const [last_batch, spent_root] = [fields.u64(), fields.word()]
  const [cited_count, cited_root] = [fields.u64(), fields.word()]
  must(restore <= 1, 'a restore flag that is none')
  must(!isZero(boot_nonce), 'an empty boot nonce')
  must(epoch === u64At(config, CONFIG.epoch) + 1n, 'not the next epoch')
  if (restore === 1) {
    const from_s = u64At(config, CONFIG.pending_restore_at_s)
    const now_s = BigInt(call.clock.unix_s)
    const usable = now_s >= from_s && now_s <= from_s + ANNOUNCEMENT_LIFE_S
    must(from_s !== 0n && usable, 'a restore that is not authorized')
    setU64(config, CONFIG.pending_restore_at_s, 0n)
    setU64(config, CONFIG.generation, u64At(config, CONFIG.generation) + 1n)
    config.fill(0, CONFIG.commit_seq, CONFIG.commit_head + 32)
    setVenue(config, call.vault)
  } else mustGoForward(config, seq, head)
  must(same(expected_head, wordAt(config, CONFIG.journal_head)), 'another journal head than the expected one')
  must(generation === u64At(config, CONFIG.generation), 'another generation')
  const [tree, ring] = [treeOf(call, accounts.tree), ringOf(call, accounts.ring)]
  must(last_batch === u64At(config, CONFIG.last_batch), 'another last batch')
  must(same(spent_root, spentRoot(tree)), 'another spent root')
  must(cited_count >= u64At(config, CONFIG.settled_leaf_count), 'a state before the last batch')
  mustKnowState(ring, tree, cited_count, cited_root)
  setU64(config, CONFIG.epoch, epoch)
  config.set(boot_nonce, CONFIG.boot_nonce)
  config.set(compose_hash, CONFIG.compose_hash)
  setU64(config, CONFIG.epoch_slot, BigInt(call.clock.slot))
  setJournal(config, seq, head)
  return { epoch, boot_nonce, compose_hash }
}

export function judgeAnchor(call: Call): void {
  const [signer, config_account] = accountsOf(call, 2)
  const fields = new Fields(call.data)
  const [epoch, seq, head] = [fields.u64(), fields.u64(), fields.word()]
  const [not_after_slot, not_after_s] = [fields.u64(), fields.u64()]
  fields.end()
  must((not_after_slot === 0n) === (not_after_s === 0n), 'half a limit')
  const config = writableConfig(call, config_account)
  mustBeSigner(config, signer)
  mustBeEpoch(config, epoch)
  advanceJournal(config, seq, head)
  if (not_after_slot === 0n) return
  const { slot, unix_s } = call.clock
  must(BigInt(slot) <= not_after_slot && BigInt(unix_s) <= not_after_s, 'an expired commit')
  const stored = u64At(config, CONFIG.commit_seq)
  must(seq >= stored, 'the commit goes back')
  must(seq > stored || same(head, wordAt(config, CONFIG.commit_head)), 'two heads of one commit')
  setU64(config, CONFIG.commit_seq, seq)
  config.set(head, CONFIG.commit_head)
}

const { machine, keys, evidence, compose_hash } = MACHINE

type Signed = Parameters<typeof verifying>[0]

/** The instruction before this one is the precompile over exactly these places of this one. */
function mustBeVerified(call: Call, sysvar: Placed, signed: Signed): void {
  must(!call.inner, 'signatures verified outside of the transaction')
  must(same(sysvar.address, INSTRUCTIONS_SYSVAR), 'the sysvar is another')
  const wanted = verifying(signed, call.index)
  const verified =
    call.before !== undefined &&
    same(call.before.program, wanted.program) &&
    same(call.before.data, wanted.data) &&
    call.before.accounts.length === 0
  must(verified, 'signatures that nothing verified')
}

/** The value that holds now; a list's member has zeros. */
function holding(call: Call, account: Placed, topic: AnnouncedTopic): Uint8Array {
  const address = announcementAddress(call.vault.program, topic)
  const record = ownAccount(call, account, address, 9, ACCOUNT_BYTES.announcement).slice()
  bringForward(record, BigInt(call.clock.unix_s))
  must(u64At(record, RECORD.since_s) !== 0n, `${topic.list} does not hold`)
  return record.slice(RECORD.value, RECORD.next_at_s)
}

const begins = (value: Uint8Array, wanted: Uint8Array): boolean =>
  equalBytes(value.slice(0, wanted.length), wanted)

const u16In = (value: Uint8Array): number => value[16]! + 256 * value[17]!

/** Sixteen components and the SVN behind them. */
const reaches = (components: Uint8Array, svn: number, minimum: Uint8Array): boolean =>
  components.every((component, at) => component >= minimum[at]!) && svn >= u16In(minimum)

const GENUINE = CERTIFICATES.map((certificate) => {
  const fields = { ...certificate, program: new Uint8Array(32), payer: new Uint8Array(32) }
  return { certificate, data: toHex(registerPlatformInstructions(fields)[1].data) }
})

export function judgeRegisterPlatform(call: Call): void {
  const [payer, config, root, account, sysvar, system, us] = accountsOf(call, 7)
  const genuine = GENUINE.find(({ data }) => data === toHex(call.data))
  must(genuine !== undefined, 'a certificate that no authority signed')
  const { leaf, authority, key } = genuine.certificate
  const message = 197 + leaf.length + 2
  mustBeVerified(call, sysvar, [
    { signature: 1, key: 65, message: 197, length: leaf.length },
    { signature: 98, key: 162, message, length: authority.length },
  ])
  mustBeProgram(call, us)
  mustBeSystem(system)
  configOf(call, config)
  must(begins(holding(call, root, { list: 'attestation_root' }), keys.root), 'another root')
  const own = { size: ACCOUNT_BYTES.platform, owner: call.vault.program, bond: 0n }
  const made = createAccount(call, payer, account, { ...own, seeds: [utf8('platform'), key.slice(1)] })
  made.data.set([10, VERSION, made.bump, key[0]!, keys.root[0]!])
  setU16(made.data, 6, machine.pce_svn)
  const versions = concatBytes(machine.ppid, machine.components, machine.fmspc)
  made.data.set(concatBytes(key.slice(1), keys.root.slice(1), versions), 8)
}

type Records = Record<
  | ('root' | 'platform' | 'ppid' | 'fmspc' | 'tee_tcb')
  | ('qe' | 'image' | 'build' | 'app_id' | 'key_provider'),
  Placed
>

/** Every record that the machine needs. */
function mustBeAnnounced(call: Call, records: Records, signed: Uint8Array): void {
  const { root, platform, ppid, fmspc, tee_tcb, qe, image, build, app_id, key_provider } = records
  const { program } = call.vault
  const announced = new Map(
    MACHINE.announced(new Uint8Array(32)).map(([topic, value]) => [topic.list, { topic, value }]),
  )
  const valueIn = (account: Placed, list: AnnouncedTopic['list']): Uint8Array =>
    holding(call, account, announced.get(list)!.topic)
  for (const [account, list] of [
    [root, 'attestation_root'],
    [app_id, 'app_id'],
    [key_provider, 'key_provider'],
  ] as const)
    must(begins(valueIn(account, list), announced.get(list)!.value!), `another ${list}`)
  ownAccount(call, platform, platformAddress(program, machine.chain.key), 10, ACCOUNT_BYTES.platform)
  valueIn(ppid, 'platform')
  valueIn(image, 'image')
  valueIn(build, 'build')
  const { components, pce_svn } = machine
  must(reaches(components, pce_svn, valueIn(fmspc, 'fmspc_minimum')), 'a platform below its minimum')
  const tcb = signed.slice(48, 64)
  const minimum = valueIn(tee_tcb, 'tee_tcb_minimum')
  must(
    tcb[1] === minimum[1] && reaches(tcb, 0, new Uint8Array([...minimum.slice(0, 16), 0, 0])),
    'a TDX module below its minimum',
  )
  must(evidence.qe_report[258]! >= u16In(valueIn(qe, 'qe_minimum')), 'a quoting enclave below its minimum')
}

export function judgeOpenAttestedEpoch(call: Call): void {
  const placed = accountsOf(call, 18)
  const [signer, authority_signer, config_account, tree, ring, authority, ...others] = placed
  const [root, platform, ppid, fmspc, tee_tcb, qe, image, build, app_id, key_provider, sysvar, us] = others
  const at = openingAt(call.data)
  must(at < call.data.length, 'the data ends early')
  const signed = call.data.slice(613, 613 + u16.decode(call.data.slice(611, 613)))
  mustBeVerified(call, sysvar, [
    { signature: 1, key: 65, message: 613, length: signed.length },
    { signature: 130, key: 194, message: 227, length: 384 },
  ])
  mustBeProgram(call, us)
  const config = writableConfig(call, config_account)
  mustSign(signer)
  must(!same(signer.address, wordAt(config, CONFIG.settlement_signer)), 'the key of the present epoch')
  mustSign(authority_signer)
  const named = holding(call, authority, { list: 'epoch_authority' })
  must(begins(named, authority_signer.address), 'not the epoch authority')
  const opening = judgeAdvance(call, { config, tree, ring }, new Fields(call.data.slice(at - 1)))
  mustBeAnnounced(
    call,
    { root, platform, ppid, fmspc, tee_tcb, qe, image, build, app_id, key_provider },
    signed,
  )
  must(same(opening.compose_hash, compose_hash) && !isZero(opening.boot_nonce), 'another build')
  const bound = { venue: wordAt(config, CONFIG.venue), settlement_signer: signer.address }
  const { boot_nonce } = opening
  const report_data = epochReportData({ ...bound, boot_nonce, epoch: Number(opening.epoch) })
  must(isIssued(call.data, report_data), 'a quote that the machine did not issue')
  config.set(signer.address, CONFIG.settlement_signer)
}
