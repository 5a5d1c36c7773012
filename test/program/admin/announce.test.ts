/** Admin changes and terms of epochs are announced first and hold later, so that users can leave; stricter ones at once. */

import { describe, expect, test } from 'bun:test'
import { u64Le } from '../../../protocol/bytes'
import { decodeAnnouncement } from '../../../protocol/vault/accounts'
import {
  ANNOUNCED_LISTS,
  type AnnouncedList,
  type AnnouncedTopic,
  type AnnounceFields,
  announceInstruction,
  announcementAddress,
  authorizeRestoreInstruction,
  declareOutageInstruction,
  minimumValue,
  pauseInstruction,
  setAdminInstruction,
  unpauseInstruction,
} from '../../../protocol/vault/admin'
import { freezeInstruction } from '../../../protocol/vault/exits'
import { bytes32, EXIT_DELAY_S, errorOf, landed, OpenVault, runningVault } from '../../kit/vault/open_vault'
import { testKey } from '../../kit/vault/vault_chain'
import { WindDown } from '../../kit/vault/wind_down'

const NOW_S = 1_800_000_000
const EFFECTIVE_S = NOW_S + 2 * EXIT_DELAY_S
const LISTS = Object.keys(ANNOUNCED_LISTS) as AnnouncedList[]
const MINIMUMS: readonly AnnouncedList[] = ['fmspc_minimum', 'tee_tcb_minimum', 'qe_minimum']

type Action = Omit<
  Extract<AnnounceFields, { value?: Uint8Array }>,
  'program' | 'admin' | 'payer' | 'action'
> & {
  action: AnnounceFields['action']
}

const announcing = (vault: OpenVault, fields: Action, admin = vault.admin.key) =>
  announceInstruction({
    ...(fields as AnnounceFields),
    program: vault.program,
    admin,
    payer: vault.chain.payer.key,
  })
const send = (vault: OpenVault, fields: Action): string =>
  errorOf(vault.chain.send(announcing(vault, fields)))
const recordOf = (vault: OpenVault, topic: AnnouncedTopic) =>
  decodeAnnouncement(vault.chain.account(announcementAddress(vault.program, topic))!.data)!

/** An id and a value of the widths of a list. */
function topicOf(
  list: AnnouncedList,
  name = 'some',
): { list: AnnouncedList; id: Uint8Array; value: Uint8Array } {
  const { id, value } = ANNOUNCED_LISTS[list]
  const whole = Uint8Array.of(2, ...bytes32(`${name} value`), 0)
  return { list, id: bytes32(`${name} id`).slice(0, id), value: whole.slice(0, value) }
}
const padded = (bytes: Uint8Array): Uint8Array => Uint8Array.from({ length: 40 }, (_, at) => bytes[at] ?? 0)

describe.each(LISTS)('%s', (list) => {
  test('holds at once before the first epoch and twice the exit delay later after it', () => {
    const vault = new OpenVault()
    const { id, value: some } = topicOf(list)
    // Terms of the first opening have no id and keep their value.
    const needed = vault.machine.announced(vault.authority.key)
    const value = id.length > 0 ? some : needed.find(([topic]) => topic.list === list)![1]!
    expect(send(vault, { list, id, action: 'announce', value })).toBe('landed')
    const first = { since_s: NOW_S, value: padded(value), next_at_s: 0 }
    expect(recordOf(vault, { list, id })).toMatchObject(first)
    landed(vault.openEpoch())
    const next = topicOf(list, 'next').value
    const { events } = landed(
      vault.chain.send(announcing(vault, { list, id, action: 'announce', value: next })),
    )
    expect(events).toMatchObject([
      { kind: 'announced', action: 'announce', list, value: padded(next), effective_at_s: EFFECTIVE_S },
    ])
    expect(recordOf(vault, { list, id })).toMatchObject({
      ...first,
      next_at_s: EFFECTIVE_S,
      next: padded(next),
    })
    vault.chain.setTime(2_000, EFFECTIVE_S - 1)
    expect(send(vault, { list, id, action: 'cancel' })).toBe('landed')
    expect(recordOf(vault, { list, id })).toMatchObject(first)
    expect(send(vault, { list, id, action: 'cancel' })).toBe('nothing_pending')
  })

  test('does not lapse: however long ago its delay passed, it holds until it is revoked', () => {
    const vault = runningVault(0n)
    const { id, value } = topicOf(list)
    expect(send(vault, { list, id, action: 'announce', value })).toBe('landed')
    vault.chain.setTime(2_000, EFFECTIVE_S + 400 * 86_400)
    expect(send(vault, { list, id, action: 'cancel' })).toBe('nothing_pending')
    expect(send(vault, { list, id, action: 'revoke' })).toBe('landed')
    expect(send(vault, { list, id, action: 'revoke' })).toBe('not_announced')
  })

  test('is revoked at once with its later value, and a new announcement waits again', () => {
    const vault = runningVault(0n)
    const { id, value } = topicOf(list)
    // Of the first opening where the list has no ids.
    expect(send(vault, { list, id, action: 'revoke' })).toBe(id.length > 0 ? 'not_announced' : 'landed')
    expect(send(vault, { list, id, action: 'revoke' })).toBe('not_announced')
    expect(send(vault, { list, id, action: 'announce', value })).toBe('landed')
    expect(send(vault, { list, id, action: 'revoke' })).toBe('landed')
    const none = { since_s: 0, next_at_s: 0, value: padded(new Uint8Array()) }
    expect(recordOf(vault, { list, id })).toMatchObject(none)
    expect(send(vault, { list, id, action: 'revoke' })).toBe('not_announced')
    expect(send(vault, { list, id, action: 'announce', value })).toBe('landed')
    expect(recordOf(vault, { list, id })).toMatchObject({ since_s: 0, next_at_s: EFFECTIVE_S })
  })

  test('is raised only where it is a minimum', () => {
    const vault = new OpenVault()
    const { id, value } = topicOf(list)
    expect(send(vault, { list, id, action: 'raise', value })).toBe('not_announced')
    expect(send(vault, { list, id, action: 'announce', value })).toBe('landed')
    const same = MINIMUMS.includes(list) ? 'landed' : 'invalid_data'
    expect(send(vault, { list, id, action: 'raise', value })).toBe(same)
  })
})

test('an announced value takes the place of the old one when its time has come', () => {
  const vault = new OpenVault()
  const [old, next, last] = [vault.authority.key, bytes32('next'), bytes32('last')]
  const list = 'epoch_authority' as const
  expect(send(vault, { list, action: 'announce', value: old })).toBe('landed')
  landed(vault.openEpoch())
  expect(send(vault, { list, action: 'announce', value: next })).toBe('landed')
  vault.chain.setTime(2_000, EFFECTIVE_S)
  expect(send(vault, { list, action: 'cancel' })).toBe('nothing_pending')
  expect(send(vault, { list, action: 'announce', value: last })).toBe('landed')
  expect(recordOf(vault, { list })).toMatchObject({
    since_s: EFFECTIVE_S,
    value: padded(next),
    next_at_s: EFFECTIVE_S + 2 * EXIT_DELAY_S,
    next: padded(last),
  })
})

test('a raised minimum holds at once, and lowers nothing', () => {
  const vault = new OpenVault()
  const components = Uint8Array.from({ length: 16 }, (_, at) => 16 + at)
  for (const list of MINIMUMS) {
    const { id } = topicOf(list)
    const announced = { list, id, action: 'announce', value: minimumValue(components, 300) } as const
    expect(send(vault, announced)).toBe('landed')
    const raise = (value: Uint8Array): string => send(vault, { list, id, action: 'raise', value })
    for (let at = 0; at < 16; at += 1) {
      const [more, less] = [components.slice(), components.slice()]
      more[at]! += 1
      less[at]! -= 1
      const outcome = list === 'tee_tcb_minimum' && at === 1 ? 'not_raised' : 'landed'
      const raised = vault.chain.outcome(
        announcing(vault, { list, id, action: 'raise', value: minimumValue(more, 300) }),
      )
      expect([list, at, raised]).toEqual([list, at, outcome])
      expect([list, at, raise(minimumValue(less, 300))]).toEqual([list, at, 'not_raised'])
    }
    expect(raise(minimumValue(components, 299))).toBe('not_raised')
    expect(raise(minimumValue(components, 512))).toBe('landed')
    expect(recordOf(vault, { list, id })).toMatchObject({ value: padded(minimumValue(components, 512)) })
  }
})

test('only the admin announces', () => {
  const vault = new OpenVault()
  const thief = vault.chain.fund(testKey('thief'))
  const topic = topicOf('build')
  for (const action of ['announce', 'revoke', 'cancel'] as const) {
    const value = action === 'announce' ? topic.value : undefined
    const forged = announcing(
      vault,
      { list: 'build', id: topic.id, action, ...(value && { value }) },
      thief.key,
    )
    expect(errorOf(vault.chain.send(forged))).toBe('not_admin')
  }
  const unsigned = announcing(vault, { ...topic, action: 'announce' })
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
})

test('a record is that of its topic', () => {
  const vault = new OpenVault()
  const [one, other] = [topicOf('build', 'one'), topicOf('build', 'other')]
  for (const topic of [one, other]) expect(send(vault, { ...topic, action: 'announce' })).toBe('landed')
  const record = announcementAddress(vault.program, other)
  for (const action of ['announce', 'revoke'] as const) {
    const wrong = announcing(vault, { list: 'build', id: one.id, action })
    wrong.accounts[3]!.address = record
    expect(errorOf(vault.chain.send(wrong))).toBe('wrong_address')
  }
  const list = announcing(vault, { list: 'build', id: one.id, action: 'revoke' })
  list.data[2] = 2
  expect(errorOf(vault.chain.send(list))).toBe('wrong_address')
})

const at =
  (place: number, byte: number) =>
  (data: Uint8Array): void => {
    data[place] = byte
  }

/** Action u8 at 1, list u8 at 2, id at 3, value at 35. */
test('ids and values have the form of their list', () => {
  const vault = new OpenVault()
  const altered = (topic: ReturnType<typeof topicOf>, change: (data: Uint8Array) => void): string => {
    const instruction = announcing(vault, { ...topic, action: 'announce' })
    change(instruction.data)
    return vault.chain.outcome(instruction)
  }
  for (const list of LISTS) {
    const topic = topicOf(list)
    const widths = ANNOUNCED_LISTS[list]
    expect([list, altered(topic, () => {})]).toEqual([list, 'landed'])
    for (let id_at = widths.id; id_at < 32; id_at += 1)
      expect(altered(topic, at(3 + id_at, 1))).toBe('invalid_data')
    for (let value_at = widths.value; value_at < 40; value_at += 1)
      expect(altered(topic, at(35 + value_at, 1))).toBe('invalid_data')
    if (widths.id > 0) expect(altered(topic, (data) => void data.fill(0, 3, 35))).toBe('invalid_data')
    const empty = widths.value === 0 || MINIMUMS.includes(list)
    expect(altered(topic, (data) => void data.fill(0, 35))).toBe(empty ? 'landed' : 'invalid_data')
  }
  const root = topicOf('attestation_root')
  expect(altered(root, at(35, 4))).toBe('invalid_data')
  for (const list of [0, LISTS.length + 1, 255]) expect(altered(root, at(2, list))).toBe('invalid_data')
  for (const action of [4, 255]) expect(altered(root, at(1, action))).toBe('not_announced')
  expect(send(vault, { ...root, action: 'announce' })).toBe('landed')
  for (const action of [1, 2, 4, 255]) expect(altered(root, at(1, action))).toBe('invalid_data')
  const longer = announcing(vault, { ...root, action: 'announce' })
  expect(errorOf(vault.chain.send({ ...longer, data: Uint8Array.of(...longer.data, 0) }))).toBe(
    'invalid_data',
  )
})

const DAY_S = 86_400
/** In a config account (protocol/vault/accounts.ts). */
const EXIT_DELAY_AT = 32
const next = testKey('next')

test('set_admin announces, waits twice the exit delay and applies once', () => {
  const vault = new OpenVault()
  vault.chain.fund(next)
  const admin = { program: vault.program, admin: vault.admin.key }
  const applying = { ...admin, admin: next.key }
  const apply = (): string => errorOf(vault.chain.send(setAdminInstruction({ ...applying, action: 'apply' })))
  expect(apply()).toBe('nothing_pending')
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  expect(vault.chain.config().pending_admin).toEqual({ key: next.key, effective_at_s: EFFECTIVE_S })
  vault.chain.setTime(2_000, EFFECTIVE_S - 1)
  expect(apply()).toBe('not_effective')
  vault.chain.setTime(2_000, EFFECTIVE_S)
  const unsigned = setAdminInstruction({ ...applying, action: 'apply' })
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
  expect(apply()).toBe('landed')
  expect(vault.chain.config().admin).toEqual(next.key)
  expect(vault.chain.config().pending_admin).toBeUndefined()
  expect(apply()).toBe('nothing_pending')
})

test('set_admin can be cancelled, and announcing again restarts the wait', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  vault.chain.setTime(2_000, NOW_S + 500)
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  expect(vault.chain.config().pending_admin?.effective_at_s).toBe(EFFECTIVE_S + 500)
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'cancel' })))
  expect(vault.chain.config().pending_admin).toBeUndefined()
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...admin, action: 'cancel' })))).toBe(
    'nothing_pending',
  )
})

test('set_admin is void 30 days after it took effect, and can be cancelled or announced again', () => {
  const vault = new OpenVault()
  vault.chain.fund(next)
  const admin = { program: vault.program, admin: vault.admin.key }
  const applying = { ...admin, admin: next.key }
  const announce = () =>
    landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  announce()
  const apply = setAdminInstruction({ ...applying, action: 'apply' })
  vault.chain.setTime(2_000, EFFECTIVE_S + 30 * DAY_S)
  expect(vault.chain.outcome(apply)).toBe('landed')
  vault.chain.setTime(2_000, EFFECTIVE_S + 30 * DAY_S + 1)
  expect(vault.chain.outcome(apply)).toBe('nothing_pending')
  expect(vault.chain.outcome(setAdminInstruction({ ...admin, action: 'cancel' }))).toBe('landed')
  announce()
  vault.chain.setTime(2_000, EFFECTIVE_S + 30 * DAY_S + 1 + 2 * EXIT_DELAY_S)
  expect(vault.chain.outcome(apply)).toBe('landed')
})

test('set_admin belongs to the admin', () => {
  const vault = new OpenVault()
  const thief = vault.chain.fund(testKey('thief'))
  const forged = { program: vault.program, admin: thief.key }
  const announce = { action: 'announce', key: thief.key } as const
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...forged, ...announce })))).toBe('not_admin')
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  vault.chain.setTime(2_000, EFFECTIVE_S)
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...forged, action: 'cancel' })))).toBe('not_admin')
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...forged, action: 'apply' })))).toBe('not_admin')
})

test('set_admin refuses a zero key and unknown actions', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  const zero = setAdminInstruction({ ...admin, action: 'announce', key: new Uint8Array(32) })
  expect(errorOf(vault.chain.send(zero))).toBe('invalid_data')
  zero.data[1] = 3
  expect(errorOf(vault.chain.send(zero))).toBe('invalid_data')
})
test('the old admin cannot apply the change for a new one', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(setAdminInstruction({ ...admin, action: 'announce', key: next.key })))
  vault.chain.setTime(2_000, EFFECTIVE_S)
  expect(errorOf(vault.chain.send(setAdminInstruction({ ...admin, action: 'apply' })))).toBe('not_admin')
})

test('pause and unpause are the admin’s and each changes something', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  expect(errorOf(vault.chain.send(unpauseInstruction(admin)))).toBe('not_paused')
  landed(vault.chain.send(pauseInstruction(admin)))
  expect(vault.chain.config()).toMatchObject({ paused: true, paused_at_s: NOW_S })
  expect(errorOf(vault.chain.send(pauseInstruction(admin)))).toBe('not_paused')
  const thief = vault.chain.fund(testKey('thief'))
  expect(errorOf(vault.chain.send(unpauseInstruction({ ...admin, admin: thief.key })))).toBe('not_admin')
  const unsigned = unpauseInstruction(admin)
  unsigned.accounts[0]!.signer = false
  expect(errorOf(vault.chain.send(unsigned))).toBe('missing_signature')
  landed(vault.chain.send(unpauseInstruction(admin)))
  expect(vault.chain.config().paused).toBe(false)
})

test('an announced restore can be cancelled', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  const applied = authorizeRestoreInstruction({ ...admin, action: 'announce' })
  applied.data[1] = 1
  expect(errorOf(vault.chain.send(applied))).toBe('invalid_data')
  const longer = authorizeRestoreInstruction({ ...admin, action: 'announce' })
  longer.data = Uint8Array.of(...longer.data, 0)
  expect(errorOf(vault.chain.send(longer))).toBe('invalid_data')
  expect(errorOf(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'cancel' })))).toBe(
    'nothing_pending',
  )
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'announce' })))
  expect(vault.chain.config().pending_restore_at_s).toBe(NOW_S + EXIT_DELAY_S / 4)
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'cancel' })))
  expect(vault.chain.config().pending_restore_at_s).toBe(0)
})

test('an unused restore is void 30 days after it took effect', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  landed(vault.chain.send(authorizeRestoreInstruction({ ...admin, action: 'announce' })))
  const effective_at_s = NOW_S + EXIT_DELAY_S / 4
  const restore = () => vault.chain.outcome(vault.opening({ restore: true, generation: 1 }))
  vault.chain.setTime(2_000, effective_at_s + 30 * DAY_S + 1)
  expect(restore()).toBe('restore_not_authorized')
  vault.chain.setTime(2_000, effective_at_s + 30 * DAY_S)
  expect(restore()).toBe('landed')
})

const setExitDelay = ({ chain, program }: OpenVault, exit_delay_s: number): void => {
  const { data, lamports } = chain.account(chain.vault.config)!
  data.set(u64Le(BigInt(exit_delay_s)), EXIT_DELAY_AT)
  chain.setAccount(chain.vault.config, data, program, lamports)
}

test('an outage is declared by the admin, for at most three exit delays, once in 90 days', () => {
  const vault = new OpenVault()
  const admin = { program: vault.program, admin: vault.admin.key }
  const declare = (extra_s: number, key = admin.admin): string =>
    errorOf(vault.chain.send(declareOutageInstruction({ ...admin, admin: key, extra_s })))
  expect(declare(1, vault.chain.fund(testKey('thief')).key)).toBe('not_admin')
  expect(declare(0)).toBe('invalid_data')
  expect(declare(3 * EXIT_DELAY_S + 1)).toBe('invalid_data')
  expect(declare(3 * EXIT_DELAY_S)).toBe('landed')
  expect(vault.chain.config()).toMatchObject({ outage_at_s: NOW_S, outage_extra_s: 3 * EXIT_DELAY_S })
  vault.chain.setTime(2_000, NOW_S + 90 * DAY_S - 1)
  expect(declare(1)).toBe('outage_too_soon')
  vault.chain.setTime(2_000, NOW_S + 90 * DAY_S)
  expect(declare(1)).toBe('landed')
  expect(vault.chain.config()).toMatchObject({ outage_at_s: NOW_S + 90 * DAY_S, outage_extra_s: 1 })
})

test('the next outage waits until each deadline that the last one extended is over', () => {
  const down = new WindDown()
  const { vault, chain } = down
  const delay_s = 30 * DAY_S
  setExitDelay(vault, delay_s)
  const note = down.deposit(40_000n)
  down.request(note)
  const requested_s = NOW_S
  const declare = (extra_s: number) =>
    errorOf(chain.send(declareOutageInstruction({ program: vault.program, admin: vault.admin.key, extra_s })))
  const declared_s = requested_s + delay_s - 1
  chain.setTime(2_000, declared_s)
  expect(declare(90 * DAY_S)).toBe('landed')
  const freezable_s = requested_s + delay_s + 90 * DAY_S
  const freeze = () => chain.outcome(freezeInstruction(vault.program, note.nullifier))
  chain.setTime(3_000, declared_s + 90 * DAY_S)
  expect(declare(1)).toBe('outage_too_soon')
  chain.setTime(3_000, freezable_s)
  expect(freeze()).toBe('deadline_not_reached')
  chain.setTime(3_000, declared_s + 120 * DAY_S - 1)
  expect(declare(1)).toBe('outage_too_soon')
  expect(freeze()).toBe('landed')
  chain.setTime(3_000, declared_s + 120 * DAY_S)
  expect(declare(1)).toBe('landed')
})

test('an outage is not declared in a frozen vault', () => {
  const down = new WindDown()
  down.freeze(down.deposit(5_000n))
  const { program, admin } = down.vault
  const outage = declareOutageInstruction({ program, admin: admin.key, extra_s: 1 })
  expect(errorOf(down.chain.send(outage))).toBe('vault_frozen')
})
