/** The journal's bytes of every command, and the table of 32-byte keys for trees and nullifiers. */

import { expect, test } from 'bun:test'
import fc from 'fast-check'
import type { CommandBody, CommandOf } from '../../../engine/commands'
import { decodeCommand, encodeCommand, KINDS } from '../../../engine/machine/codec/command_codec'
import { RowQueue } from '../../../engine/memory/row_queue'
import { ByteReader, ByteWriter } from '../../../protocol/byte_stream'
import {
  admission,
  FIXED_HASH_SEED,
  key,
  SIGNATURE,
  seeded,
  settings,
  World,
} from '../../kit/venue/machine_world'

const id = seeded('id').slice(0, 16)
const opening = {
  mint: key('m'),
  amount: 5n,
  blinding: seeded('b'),
  commitment: seeded('c'),
  nullifier: seeded('n'),
  leaf: 5,
}
const note = { ...opening, leaf_index: 7 }
const owner = { account_id: 'alice', trading_key: key('a'), signature: SIGNATURE }
const world = new World()
world.account('alice')
const { unix_ms: _, kind: __, account_id, origin, ...replacement } = world.placing('alice', key('a'))
const signed = {
  batch_id: 3,
  signature: SIGNATURE,
  transaction: new Uint8Array(900),
  last_valid_block_height: 5,
}
const result = {
  nullifiers: [seeded('x')],
  outputs: [{ blinding: seeded('y'), commitment: seeded('z'), memo: id }],
  refund_inners: [],
  refund_blindings: [seeded('w')],
}
const request = {
  nullifier: seeded('n'),
  commitment: seeded('c'),
  mint: key('m'),
  amount: 2n ** 64n - 1n,
  destination: key('d'),
  deadline_unix_s: 9,
  request_account: key('q'),
  refund_inner: seeded('i'),
  stage: 'vanished' as const,
  leaf_index: 7,
}
const refund = { outcome: 'refunded' as const, refund_commitment: seeded('c'), refund_leaf_index: 4 }

const COMMANDS: CommandBody[] = [
  { kind: 'configure', settings: settings() },
  admission('ä', { version: 2, state: 'closed', orders_live_max: 1, keys_max: 2 }),
  {
    kind: 'credential',
    account_id,
    credential_id: id,
    grants: 'revoke',
    version: 3,
    secret_hash: seeded('secret'),
    passphrase_digest: seeded('passphrase'),
    salt: id,
    expiry_s: 4,
    signature: SIGNATURE,
  },
  { kind: 'login', account_id, credential_id: '5f'.repeat(16), version: 3 },
  {
    kind: 'token_issued',
    account_id,
    credential_id: '5f'.repeat(16),
    version: 3,
    token_id: '6e'.repeat(32),
    until_ms: 2 ** 53 - 1,
  },
  { kind: 'token_ended', account_id, token_id: '6e'.repeat(32) },
  { kind: 'rebind', account_id, trading_key: key('a'), cancel_nonce: 9n, signature: SIGNATURE },
  { kind: 'place', account_id, origin, ...replacement },
  { kind: 'place', account_id, origin: 's', ...replacement, opening: { ...opening, leaf_index: undefined } },
  { kind: 'cancel', ...owner, order_id: id, cancel_nonce: 2n ** 64n - 1n },
  {
    kind: 'modify',
    account_id,
    origin,
    cancel: { trading_key: key('a'), signature: SIGNATURE, order_id: id, cancel_nonce: 1n },
    replacement,
  },
  {
    kind: 'cancel_all',
    account_id,
    items: ['SOL-USDC', undefined].map((symbol) => ({
      trading_key: key('a'),
      signature: SIGNATURE,
      cancel_nonce: 1n,
      symbol,
    })),
  },
  { kind: 'dead_man', ...owner, cancel_nonce: 1n, timeout_slots: 0 },
  {
    kind: 'withdraw',
    ...owner,
    withdrawal_id: id,
    commitment: seeded('c'),
    destination: key('d'),
    amount: 1n,
    nonce: 2n,
    expiry_slot: 3,
    change_anchor: seeded('a'),
    opening: note,
  },
  {
    kind: 'reshape',
    ...owner,
    reshape_id: id,
    inputs: [seeded('1'), seeded('2')],
    amounts: [1n],
    anchor: seeded('a'),
    nonce: 2n,
    expiry_slot: 3,
    openings: [note, undefined],
  },
  { kind: 'arm_disconnect', account_id, origin: 's', armed: true },
  { kind: 'disconnected', account_id, origin: 's' },
  { kind: 'slot', reopens_slot: 0, slot: Number.MAX_SAFE_INTEGER },
  { kind: 'closed', seq: 9, capacity: 4, due: [] },
  {
    kind: 'closed',
    seq: 9,
    capacity: 28,
    due: [{ symbol: 'SOL-USDC', batch: 7, reference_ticks: 100, seed: seeded('s') }],
  },
  { kind: 'decided', seq: 9, outcome: 'committed', slot: 12, epoch: 3, commit_seq: 9 },
  { kind: 'decided', seq: 9, outcome: 'void', slot: 12, epoch: 4, commit_seq: 0 },
  { kind: 'leaves', first_index: 4, leaves: [seeded('1')], slot: 5 },
  { kind: 'hashed', batch_id: 3, result },
  { kind: 'batch_signed', signed },
  {
    kind: 'batch_stage',
    stage: { batch_id: 3, stage: 'confirmed', signature: SIGNATURE, slot: 4 },
  },
  {
    kind: 'payout_stage',
    stage: { number: 3, stage: 'finalized', signature: SIGNATURE, slot: 4, ...refund },
    refund_spent: true,
  },
  { kind: 'queue_capacity', capacity: 120 },
  {
    kind: 'queue_restored',
    next_payout: 4,
    payouts: [{ number: 3, mint: seeded('m'), destination: seeded('d'), amount: 5n }],
  },
  {
    kind: 'epoch_intended',
    epoch: 1,
    boot_nonce: id,
    generation: 0,
    settlement_key: seeded('settlement key'),
    signature: SIGNATURE,
    transaction: new Uint8Array(3),
  },
  { kind: 'epoch_opened', epoch: 1, slot: 2, signature: SIGNATURE },
  { kind: 'reference', symbol: 'SOL-USDC', price: 3n, publish_unix_ms: 4, source: 'feed' },
  { kind: 'exit_requested', request },
  { kind: 'halted', reason: 'program_error' },
  { kind: 'resumed' },
  { kind: 'instrument_status', symbol: 'SOL-USDC', status: 'closed' },
  {
    kind: 'spent_restored',
    batches: [{ batch_id: 1, nullifiers: [seeded('n')], signature: SIGNATURE, slot: 7 }],
  },
  {
    kind: 'snapshot_taken',
    seq: 9,
    state_hash: seeded('h'),
    catalogue_hash: seeded('c'),
    covered: { leaves: 4, nullifiers: 3, retired: 2, finals: 1 },
  },
  { kind: 'released' },
  { kind: 'activate', version: 9 },
  { kind: 'node_absent', node: 'n.', spent_ms: 7 },
  { kind: 'node_absent', node: 'n.', spent_ms: undefined },
]

test('every kind of command has a case here', () => {
  expect(new Set(COMMANDS.map((command) => command.kind))).toEqual(new Set(KINDS))
})

for (const [at, body] of COMMANDS.entries()) {
  test(`${body.kind} (case ${at}) comes back from its bytes as it was, and from no shorter or longer bytes`, () => {
    const command = { ...body, unix_ms: 1_700_000_000_001 }
    const bytes = encodeCommand(command)
    expect(decodeCommand(bytes)).toEqual(command)
    expect(() => decodeCommand(bytes.slice(0, -1))).toThrow()
    expect(() => decodeCommand(new Uint8Array([...bytes, 0]))).toThrow()
  })
}

test('type bytes never leave the order of their first publication', () => {
  expect(KINDS.join(' ')).toBe(
    'configure account_record place cancel modify cancel_all dead_man withdraw reshape arm_disconnect disconnected ' +
      'slot leaves hashed batch_signed batch_stage epoch_intended epoch_opened reference exit_requested halted ' +
      'resumed instrument_status spent_restored payout_stage queue_capacity queue_restored ' +
      'closed decided snapshot_taken released credential login rebind token_issued token_ended activate ' +
      'node_absent',
  )
})

test('a queue of rows finds the newest place of each and nothing else, also after growing', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(3_000), { minLength: 1, maxLength: 4_000 }), (names) => {
      const index = new RowQueue(32, 32, FIXED_HASH_SEED)
      const model = new Map<number, number>()
      for (const [at, name] of names.entries()) {
        expect(index.append(seeded(`${name}`))).toBe(at)
        model.set(name, at)
      }
      for (const [name, at] of model) expect(index.indexOf(seeded(`${name}`))).toBe(at)
      expect(index.has(seeded('none'))).toBe(false)
      const [written, again] = [new ByteWriter(), new ByteWriter()]
      for (const _ of index.encode(written));
      const read = new RowQueue(32, 32, FIXED_HASH_SEED)
      read.decode(new ByteReader(written.done()))
      for (const _ of read.encode(again));
      expect(again.done()).toEqual(written.done())
    }),
    { numRuns: 5 },
  )
})

test('the length of a record says nothing of the terms of its order', () => {
  const terms = [
    { side: 'buy', type: 'limit', amount: 1n, price_limit: 1n, min_fill: 0n },
    { side: 'sell', type: 'fok', amount: 2n ** 64n - 1n, price_limit: 2n ** 63n, min_fill: 2n ** 60n },
    { side: 'sell', type: 'ioc', amount: 10n ** 9n, price_limit: 10n ** 6n, min_fill: 10n ** 9n },
  ] as const
  const place = COMMANDS.find((one) => one.kind === 'place') as CommandOf<'place'>
  const lengths = terms.map((one) => encodeCommand({ ...place, ...one, unix_ms: 1 }).length)
  expect(new Set(lengths).size).toBe(1)
})
