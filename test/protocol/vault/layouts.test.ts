/** Decoders accept exactly the output of encoders and program, and nothing longer, shorter or foreign. */

import { expect, test } from 'bun:test'
import { p256 } from '@noble/curves/nist.js'
import { address, getProgramDerivedAddress } from '@solana/kit'
import fc from 'fast-check'
import { encodeBase58 } from '../../../protocol/base58'
import { fromHex, toHex } from '../../../protocol/bytes'
import type { Codec } from '../../../protocol/codec'
import { sha256 } from '../../../protocol/sha256'
import {
  ACCOUNT_BYTES,
  CONFIG,
  decodeConfig,
  decodeEscapeClaim,
  decodeExitRequest,
  decodeMintRecord,
  decodeQueue,
  decodeRing,
  decodeTree,
  ESCAPE_CLAIM,
  EXIT_REQUEST,
  MINT_RECORD,
  RING,
  TREE,
} from '../../../protocol/vault/accounts'
import {
  exitRequestSeeds,
  findAddress,
  mintRecordSeeds,
  vaultAddresses,
} from '../../../protocol/vault/addresses'
import { compressedKey, lowSignature } from '../../../protocol/vault/epochs'
import { decodeEvent, innerDataOf } from '../../../protocol/vault/events'
import { INSTRUCTION, type InstructionName, instructionName } from '../../../protocol/vault/instruction'
import { decodeSettleData, encodeSettleData, type SettleData } from '../../../protocol/vault/settle'
import { decodeAnchor, decodeDeposit, decodePay, isKnownState } from '../../kit/vault/open_vault'
import vector from '../../vectors/vault.json'

const bytes = (size: number) => fc.uint8Array({ minLength: size, maxLength: size })
const count = fc.nat()
const { accounts, events, instructions } = vector

const ofHex = (hex: string): Uint8Array => fromHex(hex, hex.length / 2)!

/** An account of the vectors with the zeros at its end. */
function account(name: keyof typeof accounts): Uint8Array {
  const data = new Uint8Array(accounts[name].bytes)
  data.set(ofHex(accounts[name].hex))
  return data
}

/** An instruction of the vectors, of `size` bytes with the zeros at its end. */
function instruction(name: keyof typeof instructions, size?: number): Uint8Array {
  const data = ofHex(instructions[name])
  if (size === undefined) return data
  const padded = new Uint8Array(size)
  padded.set(data)
  return padded
}

const settle: fc.Arbitrary<SettleData> = fc.record({
  epoch: count,
  batch: count,
  cited_leaf_count: count,
  cited_root: bytes(32),
  journal_seq: count,
  journal_head: bytes(32),
  payout_mints: fc.nat({ max: 8 }),
  nullifiers: fc.array(bytes(32), { maxLength: 5 }),
  outputs: fc.array(fc.record({ commitment: bytes(32), memo: bytes(16) }), { maxLength: 5 }),
  payouts: fc.array(
    fc.record({
      kind: fc.constantFrom('withdrawal' as const, 'exit' as const),
      mint: fc.nat({ max: 7 }),
      nullifier: fc.nat({ max: 55 }),
      amount: fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
      destination: bytes(32),
      inner: bytes(32),
    }),
    { maxLength: 3 },
  ),
})

test('settle data comes back as it went in, and a byte more or less makes it foreign', () => {
  fc.assert(
    fc.property(settle, (fields) => {
      const data = encodeSettleData(fields)
      expect(decodeSettleData(data)).toEqual(fields)
      expect(decodeSettleData(data.slice(0, -1))).toBeUndefined()
      expect(decodeSettleData(Uint8Array.of(...data, 0))).toBeUndefined()
    }),
    { numRuns: 50 },
  )
})

const DECODERS = {
  config: decodeConfig,
  tree: decodeTree,
  ring: decodeRing,
  mint_record: decodeMintRecord,
  exit_request: decodeExitRequest,
  escape_claim: decodeEscapeClaim,
  queue: decodeQueue,
} as const

test('every account decoder knows its kind, version and size only', () => {
  for (const [name, decode] of Object.entries(DECODERS) as [keyof typeof DECODERS, typeof decodeQueue][]) {
    const data = account(name)
    expect([name, data.length]).toEqual([name, ACCOUNT_BYTES[name]])
    expect(decode(data)).toBeDefined()
    expect(decode(data.slice(1))).toBeUndefined()
    expect(decode(Uint8Array.of(...data, 0))).toBeUndefined()
    for (const at of [0, 1]) {
      const foreign = data.slice()
      foreign[at]! ^= 0x40
      expect([name, at, decode(foreign)]).toEqual([name, at, undefined])
    }
  }
})

test("the program's accounts are encoded again byte by byte", () => {
  const layouts = {
    config: CONFIG,
    tree: TREE,
    ring: RING,
    mint_record: MINT_RECORD,
    exit_request: EXIT_REQUEST,
    escape_claim: ESCAPE_CLAIM,
    frozen_config: CONFIG,
    frozen_mint_record: MINT_RECORD,
  }
  for (const [name, layout] of Object.entries(layouts) as [keyof typeof layouts, Codec<unknown>][]) {
    const data = account(name)
    expect([name, toHex(layout.encode(layout.decode(data)))]).toEqual([name, toHex(data)])
  }
})

test('fields are at the places that the documents name', () => {
  const places = (
    [
      'journal_seq',
      'admin',
      'commit_seq',
      'venue',
      'spent_count',
      'tree',
      'queue',
      'frozen_leaf_count',
    ] as const
  ).map((field) => CONFIG.offsetOf(field))
  expect(places).toEqual([40, 80, 200, 304, 384, 400, 464, 496])
  expect(TREE.offsetOf('spent_root')).toBe(1_328)
  expect(TREE.offsetOf('spent_frontier')).toBe(1_360)
  expect(RING.offsetOf('states')).toBe(16)
  expect([MINT_RECORD.offsetOf('liabilities'), MINT_RECORD.offsetOf('queued')]).toEqual([120, 128])
  const window = (['window_total', 'window_base', 'window_owed', 'window_fixed_at_s'] as const).map((field) =>
    MINT_RECORD.offsetOf(field),
  )
  expect(window).toEqual([136, 152, 160, 168])
  expect([ESCAPE_CLAIM.offsetOf('rank'), ESCAPE_CLAIM.offsetOf('paid')]).toEqual([4, 192])
  expect([EXIT_REQUEST.offsetOf('served'), EXIT_REQUEST.offsetOf('deadline_s')]).toEqual([3, 208])
})

test('the accounts of the vectors show the story', () => {
  const config = decodeConfig(account('config'))!
  expect(config).toMatchObject({
    epoch: 1,
    last_batch: 1,
    spent_count: 2,
    commit_seq: 5,
    settled_leaf_count: 4,
  })
  const tree = decodeTree(account('tree'))!
  const ring = decodeRing(account('ring'))!
  expect(tree.leaf_count).toBe(5)
  expect(ring.states.map(({ slot, leaf_count }) => [slot, leaf_count])).toEqual([
    [1_000, 0],
    [1_018, 2],
  ])
  expect(isKnownState(tree, tree, ring)).toBe(true)
  expect(isKnownState(ring.states[0]!, tree, ring)).toBe(true)
  expect(isKnownState({ ...ring.states[0]!, leaf_count: 1 }, tree, ring)).toBe(false)
  const queue = decodeQueue(account('queue'))!
  expect(queue).toMatchObject({ next_number: 4, capacity: 60 })
  expect(queue.entries).toMatchObject([
    { number: 3, place: 2, kind: 'withdrawal', amount: 800n, queued_slot: 1_018 },
  ])
  expect(decodeMintRecord(account('mint_record'))).toMatchObject({ liabilities: 4_200n, queued: 800n })
  expect(decodeExitRequest(account('exit_request'))).toMatchObject({ served: true, amount: 40_000n })
})

test('the accounts of a wind-down show its story', () => {
  expect(decodeConfig(account('frozen_config'))).toMatchObject({
    frozen: true,
    frozen_leaf_count: 2,
    outage_extra_s: 2_000,
  })
  expect(decodeMintRecord(account('frozen_mint_record'))).toMatchObject({
    liabilities: 0n,
    window_total: 5_000n,
    window_base: 5_000n,
    window_owed: 0n,
  })
  expect(decodeEscapeClaim(account('escape_claim'))).toMatchObject({
    state: 'paid',
    rank: 'window',
    amount: 5_000n,
    sequence: 1,
    paid: 5_000n,
  })
})

test('every event of the vectors decodes, and a byte more or less makes it foreign', () => {
  const kinds = Object.entries(events).map(([name, hex]) => {
    const data = ofHex(hex)
    expect(decodeEvent(data.slice(0, -1))).toBeUndefined()
    expect(decodeEvent(Uint8Array.of(...data, 0))).toBeUndefined()
    expect(decodeEvent(Uint8Array.of(254, ...data.slice(1)))).toBeUndefined()
    return [name, decodeEvent(data)!.kind]
  })
  expect(kinds).toEqual([
    ['request_exit', 'exit_requested'],
    ['deposit', 'deposited'],
    ['settle', 'settled'],
    ['pay', 'paid'],
    ['close_exit', 'exit_closed'],
    ['refuse_exit', 'exit_refused'],
    ['freeze', 'frozen'],
    ['claim_escape', 'escape_claimed'],
    ['challenge_escape', 'escape_challenged'],
    ['redirect_escape', 'escape_redirected'],
    ['pay_escape', 'escape_paid'],
    ['announce', 'announced'],
    ['register_platform', 'platform_registered'],
    ['epoch_opened', 'epoch_opened'],
    ['open_attested_epoch', 'epoch_attested'],
  ])
  const settled = decodeEvent(ofHex(events.settle))
  const queued = settled?.kind === 'settled' ? settled.payouts : []
  expect(queued.map(({ number, place, kind, served }) => [number, place, kind, served])).toEqual([
    [1, 0, 'exit', true],
    [2, 1, 'withdrawal', false],
    [3, 2, 'withdrawal', false],
  ])
  expect(decodeEvent(ofHex(events.pay))).toMatchObject({
    number: 2,
    outcome: 'destination_missing',
    refund: { leaf_index: 4 },
  })
})

test('instructions of the vectors decode', () => {
  for (const [name, hex] of Object.entries(instructions))
    expect(instructionName(ofHex(hex))).toBe(name as InstructionName)
  expect(decodeSettleData(instruction('settle'))).toMatchObject({ epoch: 1, batch: 1, payout_mints: 1 })
  expect(decodeDeposit(instruction('deposit'))).toMatchObject({ amount: 5_000n })
  expect(decodeAnchor(instruction('anchor', 65))).toMatchObject({ journal_seq: 5, not_after_slot: 2_000 })
  expect(decodePay(instruction('pay', 23))).toEqual({
    refund: false,
    entries: [
      { place: 0, number: 1 },
      { place: 1, number: 2 },
    ],
  })
})

test('random bytes are no event, account or instruction, and no decoder throws', () => {
  const others = [decodeEvent, decodeSettleData, decodeDeposit, decodeAnchor, decodePay]
  const decoders = [...Object.values(DECODERS), ...others]
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (data) => {
      for (const decode of decoders) expect(() => decode(data)).not.toThrow()
    }),
  )
  for (let kind = 0; kind < 10; kind++) {
    expect(decodeEvent(Uint8Array.of(255, kind))).toBeUndefined()
    expect(decodeEvent(Uint8Array.of(255, kind, ...new Uint8Array(3_000)))).toBeUndefined()
  }
})

test('a counter beyond 2^53 - 1 makes data foreign instead of wrong', () => {
  const data = instruction('anchor', 65)
  data[8] = 0x10
  expect(decodeAnchor(data)).toBeUndefined()
})

test('data names its instruction by the first byte', () => {
  for (const [name, number] of Object.entries(INSTRUCTION))
    expect(instructionName(Uint8Array.of(number, 1))).toBe(name as InstructionName)
  expect(instructionName(Uint8Array.of(9))).toBeUndefined()
  expect(instructionName(Uint8Array.of(99))).toBeUndefined()
  expect(instructionName(new Uint8Array())).toBeUndefined()
})

const key = (name: string): Uint8Array => sha256(new TextEncoder().encode(name))

test('address and bump equal those of @solana/kit for many seeds', async () => {
  for (let index = 0; index < 20; index++) {
    const program = key(`program ${index}`)
    for (const seeds of [
      mintRecordSeeds(key(`mint ${index}`)),
      exitRequestSeeds(key(`nullifier ${index}`)),
    ]) {
      const [expected, bump] = await getProgramDerivedAddress({
        programAddress: address(encodeBase58(program)),
        seeds: [...seeds],
      })
      const found = findAddress(seeds, program)
      expect([encodeBase58(found.address), found.bump]).toEqual([expected as string, bump as number])
    }
  }
})

test('changing an answer does not change the next one', () => {
  const program = key('program')
  vaultAddresses(program).config.fill(0)
  expect(vaultAddresses(program).config).not.toEqual(new Uint8Array(32))
})

const seeds = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .filter((seed) => p256.utils.isValidSecretKey(seed))

test('a key is compressed with the parity of its y', () => {
  const parities = new Set<number>()
  fc.assert(
    fc.property(seeds, (seed) => {
      const point = p256.getPublicKey(seed, false).subarray(1)
      const compressed = p256.getPublicKey(seed, true)
      parities.add(compressed[0]!)
      expect(toHex(compressedKey(point))).toBe(toHex(compressed))
    }),
    { numRuns: 60 },
  )
  expect([...parities].sort()).toEqual([2, 3])
})

test('a signature keeps r and its validity, and has the low s', () => {
  let raised = 0
  fc.assert(
    fc.property(seeds, fc.uint8Array({ maxLength: 80 }), (seed, message) => {
      const signature = p256.sign(message, seed, { lowS: false })
      const low = lowSignature(signature)
      raised += Number(toHex(low) !== toHex(signature))
      expect(toHex(low.subarray(0, 32))).toBe(toHex(signature.subarray(0, 32)))
      expect(p256.verify(low, message, p256.getPublicKey(seed), { lowS: true })).toBe(true)
    }),
    { numRuns: 60 },
  )
  expect(raised).toBeGreaterThan(5)
})

const call = (programIdIndex: number, ...bytes: number[]) => ({
  programIdIndex,
  data: encodeBase58(Uint8Array.from(bytes)),
})

test('instructions of the program, with their places; those of other programs are left out', () => {
  const groups = [
    { index: 0, instructions: [call(1, 9), call(2, 1, 2), call(2, 3)] },
    { index: 3, instructions: [call(2, 0, 0)] },
  ]
  expect(
    innerDataOf('vault', { own: ['payer'], loaded: { writable: ['token'], readonly: ['vault'] } }, groups),
  ).toEqual([
    { outer: 0, inner: 1, data: Uint8Array.of(1, 2) },
    { outer: 0, inner: 2, data: Uint8Array.of(3) },
    { outer: 3, inner: 0, data: Uint8Array.of(0, 0) },
  ])
})

test('a node that answers no accounts, no base58 or nothing at all shows no data', () => {
  const groups = [{ index: 0, instructions: [call(7, 1), { programIdIndex: 0, data: '0OIl' }] }]
  expect(innerDataOf('vault', { own: ['vault'] }, groups)).toEqual([])
  expect(innerDataOf('vault', { own: ['vault'] }, null)).toEqual([])
  expect(innerDataOf('vault', { own: ['vault'] }, undefined)).toEqual([])
})

test('an instruction has at most ten kibibytes: a longer one is not decoded', () => {
  const told = (bytes: number) => [
    {
      index: 0,
      instructions: [{ programIdIndex: 0, data: encodeBase58(new Uint8Array(bytes).fill(255)) }],
    },
  ]
  expect(innerDataOf('vault', { own: ['vault'] }, told(10_240))[0]!.data).toHaveLength(10_240)
  expect(innerDataOf('vault', { own: ['vault'] }, told(10_300))).toEqual([])
  const endless = [{ index: 0, instructions: [{ programIdIndex: 0, data: 'z'.repeat(1_000_000) }] }]
  expect(innerDataOf('vault', { own: ['vault'] }, endless)).toEqual([])
})
