/** Terms of epochs are announced twice the exit delay before they hold; stricter terms hold at once. */
import { describe, expect, test } from 'bun:test'
import { decodeAnnouncement } from '../../../protocol/vault/accounts'
import {
  ANNOUNCED_LISTS,
  type AnnouncedList,
  type AnnouncedTopic,
  type AnnounceFields,
  announceInstruction,
  announcementAddress,
  minimumValue,
} from '../../../protocol/vault/admin'
import { bytes32, EXIT_DELAY_S, errorOf, landed, OpenVault, runningVault } from '../../kit/vault/open_vault'
import { testKey } from '../../kit/vault/vault_chain'

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

  test('is revoked at once with what was announced for later, and announced anew waits anew', () => {
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
