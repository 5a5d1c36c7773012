/** An attested epoch opens for a listed machine, an announced image and build, and a fresh key, and for nothing else. */
import { describe, expect, test } from 'bun:test'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { concatBytes } from '../../../protocol/bytes'
import { sha256 } from '../../../protocol/sha256'
import { authorizeRestoreInstruction, minimumValue } from '../../../protocol/vault/admin'
import { openAttestedEpochInstructions } from '../../../protocol/vault/epochs'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { settleInstruction } from '../../../protocol/vault/settle'
import { developmentChain, FMSPC, PCK, PlatformKey, PPID, ROOT } from '../../kit/vault/development_chain'
import { AttestedVault, bytes32, EXIT_DELAY_S, errorOf, landed } from '../../kit/vault/open_vault'
import {
  bodyOf,
  type Changes,
  COMPOSE_HASH,
  DEVELOPMENT,
  developmentEvidence,
  event,
  TD,
} from '../../kit/vault/quoting_machine'
import { testKey } from '../../kit/vault/vault_chain'
import { FORWARDER, FORWARDER_SO, forwarded } from '../forwarder'

const NOW_S = 1_800_000_000
/** Of the build's event in the log. */
const COMPOSE_AT = 2

describe('a quote of each form opens an epoch', () => {
  for (const [name, body] of [
    ['version 4', undefined],
    ['version 5, TD 1.0', 2],
    ['version 5, TD 1.5', 3],
  ] as const)
    test(name, () => {
      const own = new AttestedVault(developmentEvidence(body))
      const fields = own.fields()
      const { events, bytes, units } = landed(own.open())
      const { epoch, boot_nonce, settlement_signer, pck_key } = fields
      expect(events).toEqual([
        {
          kind: 'epoch_opened',
          epoch,
          boot_nonce,
          compose_hash: COMPOSE_HASH,
          generation: 0,
          journal_seq: 0,
          journal_head: new Uint8Array(32),
          restored: false,
        },
        { kind: 'epoch_attested', epoch, settlement_signer, pck_key, quote_hash: sha256(fields.signed) },
      ])
      expect(own.chain.config()).toMatchObject({ epoch: 1, settlement_signer, boot_nonce })
      expect(bytes).toBeLessThan(2_800)
      expect(units).toBeLessThan(250_000n)
      expect(errorOf(own.open())).toBe('landed')
    })
})

/** The runtime's own words: the key is no point, the signature does not hold. */
const REFUSED_BY_PRECOMPILE = ['custom 0', 'custom 2']

describe('signatures', () => {
  const own = new AttestedVault()
  const [verify, opening] = own.opening()
  const outcome = (before: VaultInstruction[], last = opening): string => {
    own.chain.before = before
    const found = own.chain.outcome(last)
    own.chain.before = []
    return found
  }
  const altered = (at: number, flip = 1): VaultInstruction => {
    const data = opening.data.slice()
    data[at]! ^= flip
    return { ...opening, data }
  }
  const end = 613 + own.fields().signed.length

  test('a bit flipped and not signed again, each field once and every 37th byte', () => {
    const places = new Set([1, 33, 66, 97, 130, 162, 195, 227, 610, 613, end - 1])
    for (let at = 227; at < end; at += 37) if (at < 611 || at > 612) places.add(at)
    for (const at of places) expect(REFUSED_BY_PRECOMPILE).toContain(outcome([verify], altered(at)))
    // The precompile reads another y; the quoting enclave's report covers it.
    expect(outcome([verify], altered(100))).toBe('wrong_attestation_key')
    expect(outcome([verify], altered(129))).toBe('wrong_parity')
  })

  test('a high s', () => {
    const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
    for (const at of [1, 130]) {
      const data = opening.data.slice()
      const s = BigInt(`0x${Buffer.from(data.slice(at + 32, at + 64)).toString('hex')}`)
      data.set(Buffer.from((order - s).toString(16).padStart(64, '0'), 'hex'), at + 32)
      expect(outcome([verify], { ...opening, data })).toBe('custom 2')
    }
  })

  test('offsets that are swapped, doubled, fewer, elsewhere or padded', () => {
    const { data } = verify
    const [head, first, second] = [data.slice(0, 2), data.slice(2, 16), data.slice(16)]
    const cases = [
      concatBytes(head, second, first),
      concatBytes(head, first, first),
      concatBytes(Uint8Array.of(1, 0), first),
      concatBytes(Uint8Array.of(2, 1), first, second),
      concatBytes(data, Uint8Array.of(0)),
    ]
    for (const one of cases) expect(outcome([{ ...verify, data: one }])).toBe('signatures_not_verified')
    expect(outcome([])).toBe('signatures_not_verified')
  })

  test('a second precompile instruction, or the genuine data in front, verifies nothing of this one', () => {
    const forged = own.opening({ bound: { settlement_signer: bytes32('thief') } })[1]
    expect(outcome([verify, opening], forged)).toBe('signatures_not_verified')
    // An instruction before both is harmless: the program finds its own place.
    const [at_2] = openAttestedEpochInstructions(own.fields(), 1)
    const admin = { program: own.vault.program, admin: own.vault.admin.key }
    const before = authorizeRestoreInstruction({ ...admin, action: 'announce' })
    expect(outcome([before, at_2])).toBe('landed')
    const one = concatBytes(Uint8Array.of(1, 0), at_2.data.slice(2, 16))
    expect(outcome([at_2, { ...at_2, data: one }])).toBe('signatures_not_verified')
  })

  test('an inner call opens nothing, and is refused before its data is read', () => {
    own.chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
    expect(outcome([], forwarded(opening))).toBe('not_top_level')
  })
})

describe('who can open an epoch', () => {
  const refusal = (own: AttestedVault, changes: Changes = {}): string => own.outcome(changes)

  test('another build, image, machine, app or key provider than the announced: each revoked in turn', () => {
    for (const [topic, error] of [
      [{ list: 'build', id: COMPOSE_HASH }, 'not_announced'],
      [{ list: 'platform', id: PPID }, 'not_announced'],
      [{ list: 'fmspc_minimum', id: FMSPC }, 'not_announced'],
      [{ list: 'attestation_root' }, 'not_announced'],
      [{ list: 'epoch_authority' }, 'not_announced'],
      [{ list: 'tee_tcb_minimum' }, 'not_announced'],
      [{ list: 'qe_minimum' }, 'not_announced'],
      [{ list: 'app_id' }, 'not_announced'],
      [{ list: 'key_provider' }, 'not_announced'],
    ] as const) {
      const own = new AttestedVault()
      own.announce(topic, undefined, 'revoke')
      expect([topic.list, refusal(own)]).toEqual([topic.list, error])
    }
    const own = new AttestedVault()
    own.announce({ list: 'image', id: own.fields().image }, undefined, 'revoke')
    expect(refusal(own)).toBe('not_announced')
  })

  test('an unannounced build or image has no record', () => {
    const own = new AttestedVault()
    expect(refusal(own, { fields: { image: bytes32('unannounced') } })).toBe('wrong_owner')
    const compose_hash = bytes32('unannounced')
    expect(refusal(own, { fields: { compose_hash } })).toBe('wrong_build')
    const changed = (log: ReturnType<typeof developmentEvidence>['log']) =>
      log.with(COMPOSE_AT, event('compose-hash', compose_hash))
    const body = (report: Uint8Array) => void report.fill(0, TD.mr_config_id, TD.mr_config_id + 48)
    expect(refusal(own, { log: changed, body, fields: { compose_hash } })).toBe('wrong_owner')
  })

  test('the record of another build, image, machine or FMSPC does not stand in', () => {
    const own = new AttestedVault()
    const other = bytes32('another')
    own.announce({ list: 'build', id: other })
    own.announce({ list: 'image', id: other })
    own.announce({ list: 'platform', id: other.slice(0, 16) })
    own.announce({ list: 'fmspc_minimum', id: other.slice(0, 6) }, minimumValue(new Uint8Array(16), 0))
    expect(refusal(own, { fields: { image: other } })).toBe('wrong_image')
    expect(refusal(own, { fields: { ppid: other.slice(0, 16) } })).toBe('wrong_platform')
    expect(refusal(own, { fields: { fmspc: other.slice(0, 6) } })).toBe('wrong_platform')
    expect(refusal(own, { fields: { compose_hash: other } })).toBe('wrong_build')
  })

  test('a platform below the minimum, in each component and in the PCE', () => {
    for (let at = 0; at <= 16; at++) {
      const own = new AttestedVault()
      const components = DEVELOPMENT.components.map((svn, index) =>
        index === at ? Math.min(svn + 1, 255) : svn,
      )
      const pce_svn = DEVELOPMENT.pce_svn + (at === 16 ? 1 : 0)
      const topic = { list: 'fmspc_minimum', id: FMSPC } as const
      own.announce(topic, minimumValue(components, pce_svn), 'raise')
      // The last component of the development platform is 255 and cannot be raised.
      expect([at, refusal(own)]).toEqual([at, at === 15 ? 'landed' : 'platform_below_minimum'])
    }
  })

  test('a stolen attestation key of another machine, whose certificate is registered', () => {
    const own = new AttestedVault()
    const thief = new PlatformKey('another machine')
    landed(own.register(developmentChain({}, {}, thief)))
    const qe_report = own.fields().qe_report
    // The thief's machine has its own PCK key; the report of the listed one is not signed by it.
    const stolen = { pck_key: thief.compressed, qe_signature: PCK.sign(qe_report) }
    expect(REFUSED_BY_PRECOMPILE).toContain(refusal(own, { fields: stolen }))
    const named = { pck_key: thief.compressed, qe_signature: thief.sign(qe_report) }
    // Both certificates state one PPID here, so it is the same machine: listed by PPID, not by key.
    expect(refusal(own, { fields: named })).toBe('landed')
    own.announce({ list: 'platform', id: PPID }, undefined, 'revoke')
    expect(refusal(own, { fields: named })).toBe('not_announced')
  })

  test('a platform under a root that was replaced', () => {
    const own = new AttestedVault()
    own.announce({ list: 'attestation_root' }, new PlatformKey('next root').compressed)
    expect(refusal(own)).toBe('wrong_root')
    own.announce({ list: 'attestation_root' }, ROOT.compressed)
    expect(refusal(own)).toBe('landed')
  })

  test('a PCK key that is not the one of the named record', () => {
    const own = new AttestedVault()
    const thief = new PlatformKey('another machine')
    const [verify, opening] = own.opening({
      fields: { pck_key: thief.compressed, qe_signature: thief.sign(own.fields().qe_report) },
    })
    const platform = own.opening()[1].accounts[7]!
    const accounts = opening.accounts.with(7, platform)
    own.chain.before = [verify]
    expect(own.chain.outcome({ ...opening, accounts })).toBe('wrong_platform')
  })

  test('a replayed quote, and a quote for another vault, generation, epoch, key or nonce', () => {
    const own = new AttestedVault()
    const [verify, opening] = own.opening()
    landed(own.together(verify, opening))
    expect(errorOf(own.together(verify, opening))).toBe('key_not_fresh')
    const replay = own.fields({ bound: { epoch: 1, settlement_signer: testKey('settlement 1').key } })
    expect(refusal(own, { fields: { signed: replay.signed, quote_signature: replay.quote_signature } })).toBe(
      'wrong_report_data',
    )
    const bounds: Changes['bound'][] = [
      { venue: bytes32('another vault') },
      { epoch: 3 },
      { settlement_signer: bytes32('another key') },
      { boot_nonce: bytes32('nonce').slice(0, 16) },
    ]
    for (const bound of bounds) expect(refusal(own, { bound: bound! })).toBe('wrong_report_data')
    expect(refusal(own)).toBe('landed')
    expect(refusal(own, { fields: { epoch: 3 } })).toBe('epoch_out_of_sequence')
    expect(refusal(own, { fields: { generation: 1 } })).toBe('wrong_generation')
    expect(refusal(own, { fields: { boot_nonce: new Uint8Array(16) } })).toBe('invalid_data')
  })

  test('a quote made for an attestation or for evidence', () => {
    const own = new AttestedVault()
    const { report_data } = TD
    const evidence = (body: Uint8Array) => void body.fill(0, report_data + 32, report_data + 64)
    const attestation = (body: Uint8Array) => body.set(sha256(bytes32('tee key')), report_data + 32)
    expect(refusal(own, { body: evidence })).toBe('wrong_report_data')
    expect(refusal(own, { body: attestation })).toBe('wrong_report_data')
  })

  test('the present settlement key, a key that does not sign, another co-signer', () => {
    const own = new AttestedVault()
    landed(own.open())
    const present = own.chain.config().settlement_signer
    expect(
      refusal(own, { bound: { settlement_signer: present }, fields: { settlement_signer: present } }),
    ).toBe('key_not_fresh')
    const admin = own.vault.admin.key
    expect(refusal(own, { fields: { authority_signer: admin } })).toBe('not_epoch_authority')
    const [verify, opening] = own.opening()
    for (const place of [0, 1]) {
      const accounts = opening.accounts.with(place, { ...opening.accounts[place]!, signer: false })
      own.chain.before = [verify]
      expect(own.chain.outcome({ ...opening, accounts })).toBe('missing_signature')
      own.chain.before = []
    }
  })

  test('a record of a vault that the attacker administers, in each place, and one that he writes himself', () => {
    const own = new AttestedVault()
    const [verify, opening] = own.opening()
    const foreign = bytes32('program of the attacker')
    for (let place = 5; place <= 15; place++) {
      const { address } = opening.accounts[place]!
      const { data } = own.chain.account(address)!
      // Program, kind, list and id are right, and the value is the attacker's; the owner is another program.
      const copy = bytes32(`copy ${place}`)
      own.chain.setAccount(copy, data, foreign)
      const swap = (to: Uint8Array) => {
        const accounts = opening.accounts.with(place, { ...opening.accounts[place]!, address: to })
        return own.chain.outcome([verify, { ...opening, accounts }])
      }
      expect([place, swap(copy)]).toEqual([place, 'wrong_owner'])
      // Even the program's own bytes count at their derived address alone.
      const moved = bytes32(`moved ${place}`)
      own.chain.setAccount(moved, data, own.vault.program)
      expect([place, swap(moved)]).toEqual([place, 'wrong_address'])
    }
    expect(own.chain.outcome([verify, opening])).toBe('landed')
  })

  test('two openings in one transaction, and a batch of the old key behind one', () => {
    const own = new AttestedVault()
    landed(own.open())
    const old = own.vault.batchOf()
    const [verify, opening] = own.opening()
    const second = openAttestedEpochInstructions(own.fields({ fields: { epoch: 3 } }), 2)
    expect(own.chain.outcome([verify, opening, ...second])).toBe('key_not_fresh')
    expect(own.chain.outcome([verify, opening, settleInstruction(old)])).toBe('not_settlement_signer')
  })

  test('KMS and admin together open for a build of theirs only after twice the exit delay, announced', () => {
    const own = new AttestedVault()
    landed(own.open())
    const compose_hash = bytes32('their build')
    const theirs: Changes = {
      log: (log) => log.with(COMPOSE_AT, event('compose-hash', compose_hash)),
      body: (body) => void body.fill(0, TD.mr_config_id, TD.mr_config_id + 48),
      fields: { compose_hash },
    }
    own.announce({ list: 'build', id: compose_hash })
    expect(refusal(own, theirs)).toBe('not_announced')
    own.chain.setTime(2_000, NOW_S + 2 * EXIT_DELAY_S - 1)
    expect(refusal(own, theirs)).toBe('not_announced')
    own.chain.setTime(2_000, NOW_S + 2 * EXIT_DELAY_S)
    expect(refusal(own, theirs)).toBe('landed')
  })
})

test('no instruction but an opening sets a settlement key: 3 and 10 of version 2 are gone', () => {
  const own = new AttestedVault()
  const { vault, chain } = own
  landed(own.open())
  const accounts = [vault.admin.key, chain.vault.config].map((address, at) => {
    return { address, signer: at === 0, writable: at === 1 }
  })
  for (const number of [3, 10])
    expect(
      chain.outcome({ program: vault.program, accounts, data: Uint8Array.of(number, ...new Uint8Array(33)) }),
    ).toBe('unknown_instruction')
  expect(errorOf(own.open())).toBe('landed')
})

test('a restore binds the venue of the generation that it begins', () => {
  const own = new AttestedVault()
  const { vault, chain } = own
  const old = chain.config().venue
  landed(own.open())
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(chain.send(authorizeRestoreInstruction({ ...admin, action: 'announce' })))
  chain.setTime(2_000, NOW_S + EXIT_DELAY_S)
  const restored = { restore: true, generation: 1, journal_seq: 0, journal_head: new Uint8Array(32) }
  expect(own.outcome({ fields: restored, bound: { venue: old } })).toBe('wrong_report_data')
  expect(own.outcome({ fields: { ...restored, restore: false } })).toBe('wrong_generation')
  const next = vault.venueOf(1)
  expect(errorOf(own.open({ fields: restored, bound: { venue: next } }))).toBe('landed')
  expect(chain.config()).toMatchObject({ generation: 1, venue: next })
})

test('the journal position and the cited state are judged', () => {
  const own = new AttestedVault()
  landed(own.open({ fields: { journal_seq: 7, journal_head: bytes32('seven') } }))
  expect(own.outcome({ fields: { journal_seq: 6 } })).toBe('journal_regressed')
  expect(own.outcome({ fields: { journal_head: bytes32('fork') } })).toBe('journal_conflict')
  expect(own.outcome({ fields: { last_batch: 1 } })).toBe('batch_out_of_sequence')
  expect(own.outcome({ fields: { spent_root: bytes32('x') } })).toBe('spent_root_mismatch')
  expect(own.outcome({ fields: { cited_root: bytes32('x') } })).toBe('unknown_state')
  expect(bodyOf(own.fields().signed)).toBe(48)
})
