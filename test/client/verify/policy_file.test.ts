/** A policy says what it means, or is refused. */
import { expect, test } from 'bun:test'
import { parseBundle } from '../../../client/verify/evidence_bundle'
import { BARE_POLICY, parsePolicy } from '../../../client/verify/policy'
import { quoteOfFile } from '../../../client/verify/read_quote_file'

const HASH = 'ab'.repeat(32)
const KEY = 'So11111111111111111111111111111111111111112'
const FULL = {
  compose_hashes: [HASH],
  tcb_statuses: ['UpToDate', 'SWHardeningNeeded'],
  advisories: ['INTEL-SA-00001'],
  tcb_evaluation_min: 17,
  os_image_hashes: [HASH],
  registers: [
    { mrtd: 'cd'.repeat(48), rtmr0: 'cd'.repeat(48), rtmr1: 'cd'.repeat(48), rtmr2: 'cd'.repeat(48) },
  ],
  environment_names: ['SECRET'],
  permitted_skips: ['kms'],
  roots_pem: 'text',
  ppids: ['00'.repeat(16)],
  collateral_url: 'https://pccs.example',
  chain: {
    rpc_url: 'https://rpc.example',
    program_id: KEY,
    genesis_hash: KEY,
    program_sha256: HASH,
    program_bytes: 5,
    upgrade_authorities: [KEY],
    pending_actions: ['set_admin'],
    paused_allowed: true,
  },
  kms: { rpc_url: 'https://eth.example' },
}

test('every field is read', () => {
  expect(parsePolicy(JSON.stringify(FULL))).toEqual(FULL as never)
})

test('what a policy does not say is the strictest reading', () => {
  expect(parsePolicy('{}')).toEqual({ ...BARE_POLICY, tcb_statuses: [] })
  const { chain } = parsePolicy(
    JSON.stringify({ chain: { rpc_url: 'https://rpc.example', program_id: KEY } }),
  )
  expect(chain).toMatchObject({ upgrade_authorities: [], pending_actions: [], paused_allowed: false })
})

test('an unknown field, a malformed value or a status nobody may allow is refused', () => {
  const { chain } = FULL
  const faulty: object[] = [
    { compose_hash: [HASH] },
    { compose_hashes: HASH },
    { compose_hashes: [HASH.toUpperCase()] },
    { compose_hashes: [HASH.slice(2)] },
    { tcb_statuses: ['Revoked'] },
    { tcb_statuses: ['uptodate'] },
    { tcb_evaluation_min: '17' },
    { tcb_evaluation_min: -1 },
    { permitted_skips: ['everything'] },
    { registers: [{ mrtd: 'cd'.repeat(48) }] },
    { ppids: ['00'] },
    { collateral_url: 'nowhere' },
    { chain: { ...chain, program_id: 'zero' } },
    { chain: { ...chain, paused_allowed: 'yes' } },
    { chain: { ...chain, pending_actions: ['anything'] } },
    { chain: { ...chain, more: 1 } },
    { chain: null },
    { kms: {} },
  ]
  for (const change of faulty)
    expect(() => parsePolicy(JSON.stringify({ ...FULL, ...change }))).toThrow(/the policy/)
  for (const text of ['', '[]', 'null']) expect(() => parsePolicy(text)).toThrow(/the policy/)
})

test('text that is no bundle is refused', () => {
  for (const text of ['', 'null', '{}', '[]', JSON.stringify({ format: 'other' })])
    expect(() => parseBundle(text)).toThrow()
})

test('a quote is found in raw bytes, hex and a GetQuote answer', () => {
  const raw = Uint8Array.of(4, 0, 2, 0, 0x81, 0, 0, 0)
  const text = (value: string) => new TextEncoder().encode(value)
  expect(quoteOfFile(raw)).toEqual(raw)
  for (const file of ['0400020081000000\n', '0x0400020081000000', '{"quote":"0400020081000000"}'])
    expect(quoteOfFile(text(file))).toEqual(raw)
  for (const file of ['', ' ', 'zz', '{}', '{"quote":5}', '{"quote":""}', '{'])
    expect(() => quoteOfFile(text(file))).not.toThrow(TypeError)
  for (const file of ['zz', '{}', '{"quote":5}', '{"quote":""}', '{'])
    expect(() => quoteOfFile(text(file))).toThrow(/no quote/)
})
