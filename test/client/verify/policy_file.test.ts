/** A policy is understood as written, or rejected. */
import { expect, test } from 'bun:test'
import { quoteOfFile } from '../../../client/cli/audit'
import { parseBundle } from '../../../client/verify/evidence_bundle'
import { BARE_POLICY, parsePolicy, SKIP_REASONS } from '../../../client/verify/policy'
import { CHECKS, policyLine } from '../../../client/verify/transcript'
import { makePki } from '../../kit/verify/development_pki'

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
  permitted_skips: ['kms_without_contract'],
  roots_pem: makePki().root_pem,
  ppids: ['00'.repeat(16)],
  collateral_url: 'https://pccs.example',
  chain: {
    rpc_url: 'https://rpc.example',
    witness_rpc_urls: ['https://other.example'],
    program_id: KEY,
    genesis_hash: KEY,
    program_sha256: HASH,
    program_bytes: 5,
    upgrade_authorities: [KEY],
    pending_actions: ['set_admin'],
    paused_allowed: true,
    exit_delay_min_s: 86_400,
    admins: [KEY],
    epoch_authorities: [KEY],
  },
  kms: { rpc_url: 'https://eth.example', owners: [`0x${'ab'.repeat(20)}`], timelock_min_s: 172_800 },
  xfam_mask: 'e702060000000000',
  app_ids: ['ab'.repeat(20)],
  key_providers: [{ name: 'kms', id: '3059' }],
  rpc_operators: {
    operators: [
      { name: 'one', hosts: ['rpc.one.example', 'rpc.one.example:8443'] },
      { name: 'two', hosts: ['two.example'] },
    ],
    minimum: 2,
  },
  location: {
    authorities: [
      { name: 'provider', key: KEY, url: 'https://hosts.example', levels: ['registry', 'inspected'] },
      { name: 'ours', ppids: ['00'.repeat(16)] },
    ],
    minimum: 1,
  },
}

const PEM_OF_NOTHING = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'

test('every field is read', () => {
  expect(parsePolicy(JSON.stringify(FULL))).toEqual(FULL as never)
})

test("a policy's absent fields have the strictest reading", () => {
  expect(parsePolicy('{}') as object).toEqual({ ...BARE_POLICY, tcb_statuses: [] })
  expect(parsePolicy('{}').tcb_evaluation_min).toBeUndefined()
  const { chain } = parsePolicy(
    JSON.stringify({ chain: { rpc_url: 'https://rpc.example', program_id: KEY } }),
  )
  expect(chain).toMatchObject({ upgrade_authorities: [], pending_actions: [], paused_allowed: false })
})

test('an unknown field, a malformed value or a status that no policy may allow is refused', () => {
  const { chain } = FULL
  const faulty: object[] = [
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
    { chain: null },
    { kms: {} },
    { kms: { ...FULL.kms, owners: ['0x00'] } },
    { kms: { rpc_url: FULL.kms.rpc_url, timelock_min_s: 1 } },
    { kms: { ...FULL.kms, timelock_min_s: -1 } },
    // A contract lies at the app id and governs keys of one KMS: it needs both pins.
    { app_ids: undefined },
    { key_providers: undefined },
    { app_ids: ['ab'.repeat(32)] },
    { key_providers: [{ name: 'kms', id: '' }] },
    { key_providers: [{ name: 'kms' }] },
    { key_providers: [{ name: '', id: '00' }] },
    { xfam_mask: 'e7' },
    { xfam_mask: 7 },
    { registers: [{ ...FULL.registers[0], xfam: 'e7' }] },
    { rpc_operators: { operators: [], minimum: 1 } },
    { rpc_operators: { ...FULL.rpc_operators, minimum: 0 } },
    { rpc_operators: { ...FULL.rpc_operators, minimum: 3 } },
    { rpc_operators: { operators: FULL.rpc_operators.operators } },
    { rpc_operators: { operators: [{ name: 'one', hosts: ['https://one.example'] }], minimum: 1 } },
    {
      rpc_operators: {
        operators: [...FULL.rpc_operators.operators, { name: 'three', hosts: ['two.example'] }],
        minimum: 2,
      },
    },
    {
      rpc_operators: {
        operators: [...FULL.rpc_operators.operators, { name: 'two', hosts: ['three.example'] }],
        minimum: 2,
      },
    },
    { location: { authorities: [], minimum: 1 } },
    { location: { ...FULL.location, minimum: 3 } },
    { location: { authorities: [FULL.location.authorities[1], FULL.location.authorities[1]], minimum: 2 } },
    { location: { authorities: [{ ...FULL.location.authorities[0], levels: ['near'] }], minimum: 1 } },
    { location: { authorities: [{ ...FULL.location.authorities[0], ppids: [] }], minimum: 1 } },
    // One key under two names would count twice.
    {
      location: {
        authorities: ['a', 'b'].map((name) => ({ ...FULL.location.authorities[0], name })),
        minimum: 2,
      },
    },
    { chain: { ...chain, exit_delay_min_s: '1' } },
    { chain: { ...chain, admins: ['x'] } },
    { chain: { ...chain, epoch_authorities: ['x'] } },
    { permitted_skips: ['constructor'] },
  ]
  for (const change of faulty)
    expect(() => parsePolicy(JSON.stringify({ ...FULL, ...change }))).toThrow(/the policy/)
  for (const text of ['', '[]', 'null']) expect(() => parsePolicy(text)).toThrow(/the policy/)
})

test('a number is whole and of 32 bits', () => {
  for (const tcb_evaluation_min of [-1, 0.5, 2 ** 32, '17', null])
    expect(() => parsePolicy(JSON.stringify({ ...FULL, tcb_evaluation_min }))).toThrow(
      'the policy has no well formed tcb_evaluation_min',
    )
})

test('a demand that is present and empty is rejected with its name, a permission may be empty', () => {
  const empty: Record<string, object> = {
    compose_hashes: { compose_hashes: [] },
    tcb_statuses: { tcb_statuses: [] },
    os_image_hashes: { os_image_hashes: [] },
    registers: { registers: [] },
    ppids: { ppids: [] },
    app_ids: { app_ids: [] },
    key_providers: { key_providers: [] },
    owners: { kms: { ...FULL.kms, owners: [] } },
    admins: { chain: { ...FULL.chain, admins: [] } },
    epoch_authorities: { chain: { ...FULL.chain, epoch_authorities: [] } },
    witness_rpc_urls: { chain: { ...FULL.chain, witness_rpc_urls: [] } },
    operators: { rpc_operators: { operators: [], minimum: 1 } },
    hosts: { rpc_operators: { operators: [{ name: 'one', hosts: [] }], minimum: 1 } },
    authorities: { location: { authorities: [], minimum: 1 } },
    levels: { location: { authorities: [{ ...FULL.location.authorities[0], levels: [] }], minimum: 1 } },
  }
  for (const [field, change] of Object.entries(empty))
    expect(() => parsePolicy(JSON.stringify({ ...FULL, ...change }))).toThrow(
      `the policy's ${field} is empty: name something or leave it out`,
    )
  const { chain } = FULL
  const permissions = {
    advisories: [],
    environment_names: [],
    permitted_skips: [],
    chain: { ...chain, upgrade_authorities: [], pending_actions: [] },
  }
  expect(parsePolicy(JSON.stringify({ ...FULL, ...permissions })) as object).toEqual({
    ...FULL,
    ...permissions,
  })
})

test('a demand that is present and demands nothing, or cannot be judged, is rejected with its name', () => {
  const { chain, kms, location, rpc_operators } = FULL
  const [authority] = location.authorities
  const operator = (hosts: string[], name = 'three') => ({
    rpc_operators: { operators: [...rpc_operators.operators, { name, hosts }], minimum: 3 },
  })
  const zero = (field: string) => `the policy's ${field} is 0, which demands nothing: leave it out`
  const malformed = (field: string) => `the policy has no well formed ${field}`
  const twice = 'the policy names an operator, host, authority or its key twice'
  const hollow: [change: object, reason: string][] = [
    [{ tcb_evaluation_min: 0 }, zero('tcb_evaluation_min')],
    [{ chain: { ...chain, exit_delay_min_s: 0 } }, zero('exit_delay_min_s')],
    [{ chain: { ...chain, program_bytes: 0 } }, zero('program_bytes')],
    [{ kms: { ...kms, timelock_min_s: 0 } }, zero('timelock_min_s')],
    [
      { xfam_mask: 'f'.repeat(16) },
      "the policy's xfam_mask names every feature, which demands nothing: leave it out",
    ],
    ...['', ' \n', 'text', FULL.roots_pem.replaceAll('CERTIFICATE', 'KEY')].map(
      (roots_pem): [object, string] => [{ roots_pem }, malformed('roots_pem')],
    ),
    [{ roots_pem: PEM_OF_NOTHING }, malformed('roots_pem')],
    [operator(['two.example.']), 'the policy has a malformed host two.example.'],
    [operator(['three.example.:8443']), 'the policy has a malformed host three.example.:8443'],
    [operator(['two.example:8443']), twice],
    [operator(['three.example', 'three.example']), twice],
    [operator(['three.example'], ''), malformed('name')],
    [{ location: { authorities: [{ ...authority, name: '' }], minimum: 1 } }, malformed('name')],
    [{ key_providers: [{ name: '', id: '3059' }] }, malformed('name')],
    ...[
      'ftp://rpc.example',
      'data:,',
      'file:///etc/hosts',
      'https://rpc.example/#',
      'https:rpc.example',
    ].flatMap((url): [object, string][] => [
      [{ chain: { ...chain, rpc_url: url } }, malformed('rpc_url')],
      [{ kms: { ...kms, rpc_url: url } }, malformed('rpc_url')],
      [{ collateral_url: url }, malformed('collateral_url')],
      [{ location: { authorities: [{ ...authority, url }], minimum: 1 } }, malformed('url')],
    ]),
  ]
  for (const [change, reason] of hollow)
    expect(() => parsePolicy(JSON.stringify({ ...FULL, ...change }))).toThrow(reason)
  const { rpc_operators: read } = parsePolicy(JSON.stringify({ ...FULL, ...operator(['three.example:1']) }))
  expect(read!.operators[2]!.hosts).toEqual(['three.example:1'])
})

test('a number is written as an integer: JSON.parse rounds a fraction that is near one', () => {
  const written = (field: string, text: string) =>
    JSON.stringify(FULL).replace(new RegExp(`"${field}":\\d+`), `"${field}":${text}`)
  const fields = ['tcb_evaluation_min', 'program_bytes', 'exit_delay_min_s', 'timelock_min_s', 'minimum']
  for (const field of fields) {
    for (const text of ['2.0', '0.99999999999999999', '1.00000000000000000001', '1e0', '1E+0', '10e-1'])
      expect(() => parsePolicy(written(field, text))).toThrow(`the policy has no well formed ${field}`)
    expect(() => parsePolicy(written(field, '2'))).not.toThrow()
  }
  // Digits, dots and exponents in strings are text.
  for (const name of ['1.5', '1e5', '\\"1.5', '"\\'])
    expect(parsePolicy(JSON.stringify({ environment_names: [name, 'x'] })).environment_names[0]).toBe(name)
})

test('a log needs another key than its authority and the head of a log that has entries', () => {
  const LOG_KEY = '11111111111111111111111111111112'
  const { levels: _levels, ...signing } = FULL.location.authorities[0]!
  const parse = (log: object) => {
    const location = { authorities: [{ ...signing, log }], minimum: 1 }
    return parsePolicy(JSON.stringify({ ...FULL, location })).location!.authorities[0]
  }
  const log = { key: LOG_KEY, size: 7, root: HASH }
  expect(parse(log) as object).toEqual({ ...signing, log })
  expect(() => parse({ ...log, key: KEY })).toThrow(/one key for an authority and its log/)
  expect(() => parse({ ...log, size: 0 })).toThrow(/empty log/)
  for (const odd of [
    { size: -1 },
    { size: 1.5 },
    { root: '00' },
    { key: 'x' },
    { more: 1 },
    { root: undefined },
  ])
    expect(() => parse({ ...log, ...odd })).toThrow(/the policy/)
  const both = { authorities: [{ ...FULL.location.authorities[0], log }], minimum: 1 }
  expect(() => parsePolicy(JSON.stringify({ ...FULL, location: both }))).toThrow(/unknown field levels/)
})

test('an unknown member is a misspelt demand, at every level', () => {
  const faulty: object[] = [
    { compose_hash: [HASH] },
    { kms: { ...FULL.kms, owner: [] } },
    { chain: { ...FULL.chain, more: 1 } },
    { key_providers: [{ name: 'kms', id: '3059', more: 1 }] },
    { registers: [{ ...FULL.registers[0], more: 1 }] },
    { rpc_operators: { ...FULL.rpc_operators, more: 1 } },
    {
      rpc_operators: {
        ...FULL.rpc_operators,
        operators: FULL.rpc_operators.operators.map((one) => ({ ...one, more: 1 })),
      },
    },
    { location: { ...FULL.location, more: 1 } },
    ...FULL.location.authorities.map((one) => ({
      location: { authorities: [{ ...one, more: 1 }], minimum: 1 },
    })),
  ]
  for (const change of faulty)
    expect(() => parsePolicy(JSON.stringify({ ...FULL, ...change }))).toThrow(/the policy/)
})

test('a policy that still lists names of checks is refused, and the message says how to rewrite it', () => {
  const said = (name: string) => {
    try {
      parsePolicy(JSON.stringify({ ...FULL, permitted_skips: [name] }))
      return 'accepted'
    } catch (error) {
      return (error as Error).message
    }
  }
  expect(said('kms')).toBe(
    "the policy's permitted_skips list reasons, not checks: instead of kms write kms_without_contract or keys_without_kms",
  )
  for (const [, name] of CHECKS) expect(said(name)).toMatch(/permitted_skips/)
  for (const [name, code] of [
    ['os_image', 'os_image_unpinned'],
    ['manifest', 'manifest_absent'],
    ['tls_key', 'tls_key_hidden'],
    ['mr_config_id', 'mr_config_id_absent'],
    ['compose_hash', 'compose_hash_unpinned'],
    ['settlement_signer', 'chain_unnamed'],
    ['vault_state', 'chain_unnamed'],
    ['program', 'chain_unnamed'],
  ])
    expect(said(name!)).toEndWith(`instead of ${name} write ${code}`)
  for (const code of Object.keys(SKIP_REASONS)) expect(said(code)).toBe('accepted')
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

test('a demand that is written twice is rejected: JSON.parse would drop the first', () => {
  const twice = [
    '{"chain":{"rpc_url":"https://rpc.example"},"chain":{}}',
    '{"compose_hashes":["aa"],"compose_hashes":["bb"]}',
    '{"ppids":[],"\\u0070pids":[]}',
    '{"chain":{"exit_delay_min_s":1,"exit_delay_min_s":2}}',
  ]
  for (const text of twice)
    expect(() => parsePolicy(text)).toThrow('the policy is not JSON, or repeats a key')
})

test('a check that did not pass names the lines of the policy that decide it', () => {
  expect(policyLine('quote', 'fail')).toBe('policy: roots_pem')
  expect(policyLine('registers', 'fail')).toBe('no policy decides this')
  expect(policyLine('quote', 'skipped')).toBe('policy: roots_pem, or permitted_skips')
  expect(policyLine('registers', 'skipped')).toBe('policy: permitted_skips')
})
