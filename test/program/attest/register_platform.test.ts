/** A machine's certificate is registered only under the announced root, and only in Intel's form. */
import { describe, expect, test } from 'bun:test'
import * as der from '../../../enclave/der'
import * as x509 from '../../../enclave/x509'
import { addressOf } from '../../../engine/chain/client/chain_client'
import { concatBytes, fromHex, toHex } from '../../../protocol/bytes'
import { parseQuote } from '../../../protocol/tdx/quote'
import { decodePlatform } from '../../../protocol/vault/accounts'
import { announceInstruction } from '../../../protocol/vault/admin'
import {
  compressedKey,
  platformAddress,
  platformOf,
  registerPlatformInstructions,
} from '../../../protocol/vault/epochs'
import type { VaultInstruction } from '../../../protocol/vault/instruction'
import { readCertificate } from '../../../protocol/x509/certificate'
import {
  AUTHORITY,
  authorityParts,
  type Chain,
  COMPONENTS,
  developmentChain,
  FMSPC,
  item,
  leafParts,
  membersOf,
  nameOf,
  type Parts,
  PCE_SVN,
  PCK,
  PlatformKey,
  PPID,
  ROOT,
  sgxOf,
  signedChain,
  TCB,
} from '../../kit/vault/development_chain'
import { bytes32, EXIT_DELAY_S, errorOf, landed, OpenVault } from '../../kit/vault/open_vault'
import { HAVE_QUOTES, readAnswer, realQuotes } from '../../kit/verify/sign_any_quote'
import { FORWARDER, FORWARDER_SO, forwarded } from '../forwarder'

const NOW_S = 1_800_000_000

function announceRoot(vault: OpenVault, value: Uint8Array, action: 'announce' | 'revoke' = 'announce'): void {
  const { program, admin, chain } = vault
  const keys = { program, admin: admin.key, payer: chain.payer.key, list: 'attestation_root' } as const
  landed(
    chain.send(announceInstruction(action === 'announce' ? { ...keys, action, value } : { ...keys, action })),
  )
}

function rootedVault(root = ROOT.compressed): OpenVault {
  const vault = new OpenVault()
  announceRoot(vault, root)
  return vault
}

function instructionsOf(vault: OpenVault, chain: Chain) {
  return registerPlatformInstructions({ ...chain, program: vault.program, payer: vault.chain.payer.key })
}

/** Both instructions in one transaction. */
function send(vault: OpenVault, before: VaultInstruction[], last: VaultInstruction) {
  vault.chain.before = before
  const result = vault.chain.send(last)
  vault.chain.before = []
  return result
}
function register(vault: OpenVault, chain: Chain) {
  const [verify, registration] = instructionsOf(vault, chain)
  return send(vault, [verify], registration)
}

const vault = rootedVault()
/** Simulated, so that one vault serves every case. */
function outcomeOf(chain: Chain): string {
  const [verify, registration] = instructionsOf(vault, chain)
  vault.chain.before = [verify]
  const outcome = vault.chain.outcome(registration)
  vault.chain.before = []
  return outcome
}

test('a platform under the announced root is registered once, with what its certificate says', () => {
  const own = rootedVault()
  const { events, bytes } = landed(register(own, developmentChain()))
  const says = { ppid: PPID, fmspc: FMSPC, components: COMPONENTS, pce_svn: PCE_SVN }
  expect(events).toEqual([{ kind: 'platform_registered', key: PCK.compressed, ...says }])
  expect(bytes).toBeLessThan(4_096)
  const record = decodePlatform(own.chain.account(platformAddress(own.program, PCK.compressed))!.data)
  expect(record).toMatchObject({
    ...says,
    parity: PCK.compressed[0],
    key: PCK.compressed.slice(1),
    root_parity: ROOT.compressed[0],
    root: ROOT.compressed.slice(1),
  })
  expect(errorOf(register(own, developmentChain()))).toBe('already_initialized')
  const other = new PlatformKey('another pck')
  expect(errorOf(register(own, developmentChain({}, {}, other)))).toBe('landed')
})

test('only the root that holds now', () => {
  const own = new OpenVault()
  expect(errorOf(register(own, developmentChain()))).toBe('wrong_owner')
  const [other, next] = [new PlatformKey('other root').compressed, ROOT.compressed]
  announceRoot(own, other)
  expect(errorOf(register(own, developmentChain()))).toBe('wrong_root')
  landed(own.openEpoch())
  const second = developmentChain({}, {}, new PlatformKey('second pck'))
  announceRoot(own, other)
  own.chain.setTime(2_000, NOW_S + 2 * EXIT_DELAY_S)
  expect(errorOf(register(own, second))).toBe('wrong_root')
  announceRoot(own, next)
  own.chain.setTime(2_000, NOW_S + 4 * EXIT_DELAY_S - 1)
  expect(errorOf(register(own, second))).toBe('wrong_root')
  own.chain.setTime(2_000, NOW_S + 4 * EXIT_DELAY_S)
  expect(errorOf(register(own, second))).toBe('landed')
  announceRoot(own, next, 'revoke')
  const third = developmentChain({}, {}, new PlatformKey('third pck'))
  expect(errorOf(register(own, third))).toBe('not_announced')
})

describe.if(HAVE_QUOTES)('real certificates under Intel’s root', () => {
  const quotes: [string, () => Uint8Array][] = [
    ['the TD 1.0 sample', () => realQuotes()[0]!.quote],
    ['dstack 0.5', () => realQuotes()[1]!.quote],
    ['dstack 0.6', () => new Uint8Array(Buffer.from(readAnswer('dstack-0.6-lite').quote, 'hex'))],
  ]
  for (const [name, read] of quotes)
    test(`of ${name}`, () => {
      const bytes = read()
      const chain = parseQuote(bytes).pck_chain
      const root = compressedKey(readCertificate(chain[2]!).public_key)
      const own = rootedVault(root)
      const { units, bytes: size } = landed(register(own, platformOf(chain)))
      expect(size).toBeLessThan(2_600)
      expect(units).toBeLessThan(40_000n)
      expect(errorOf(register(rootedVault(), platformOf(chain)))).toBe('wrong_root')
    })
})

/** The runtime's own words for a signature that does not hold. */
const BAD_SIGNATURE = 'custom 2'

describe('the precompile', () => {
  const [verify, registration] = instructionsOf(vault, developmentChain())
  const outcome = (before: VaultInstruction[], last = registration): string =>
    errorOf(send(rootedVault(), before, last))
  const altered = (at: number, byte: number): VaultInstruction => {
    const data = verify.data.slice()
    data[at] = byte
    return { ...verify, data }
  }
  const signed = (count: number, data = verify.data): VaultInstruction => ({
    ...verify,
    data: concatBytes(Uint8Array.of(count, 0), data.slice(2, 2 + 14 * count)),
  })
  const swapped = concatBytes(verify.data.slice(0, 2), verify.data.slice(16), verify.data.slice(2, 16))
  const twice = concatBytes(verify.data.slice(0, 16), verify.data.slice(2, 16))
  const cases: [string, VaultInstruction[], string][] = [
    ['missing', [], 'signatures_not_verified'],
    ['for one signature', [signed(1)], 'signatures_not_verified'],
    ['in another order', [{ ...verify, data: swapped }], 'signatures_not_verified'],
    ['twice for the same signature', [{ ...verify, data: twice }], 'signatures_not_verified'],
    ['with another padding byte', [altered(1, 1)], 'signatures_not_verified'],
    [
      'with a byte behind',
      [{ ...verify, data: Uint8Array.of(...verify.data, 0) }],
      'signatures_not_verified',
    ],
    ['for a shorter message', [altered(12, verify.data[12]! - 1)], BAD_SIGNATURE],
  ]
  for (const [name, before, wanted] of cases)
    test(`${name} is refused`, () => expect(outcome(before)).toBe(wanted))

  test('behind, or over the same bytes in another instruction, is refused', () => {
    const own = rootedVault()
    expect(errorOf(send(own, [registration], verify))).toBe('signatures_not_verified')
    // The genuine pair lies in front: its data is verified, ours is not.
    const forged = developmentChain({}, {}, new PlatformKey('unsigned'))
    const [, unsigned] = instructionsOf(own, { ...forged, leaf_signature: new Uint8Array(64).fill(1) })
    expect(errorOf(send(own, [verify, registration], unsigned))).toBe('signatures_not_verified')
    expect(errorOf(send(own, [registration, verify], unsigned))).toBe('signatures_not_verified')
    expect(errorOf(send(own, [verify, registration, verify], unsigned))).toBe('signatures_not_verified')
  })

  test('may follow other instructions', () => {
    const own = rootedVault()
    const fields = { ...developmentChain(), program: own.program, payer: own.chain.payer.key }
    const [first, ...rest] = registerPlatformInstructions(
      { ...fields, ...developmentChain({}, {}, new PlatformKey('b')) },
      2,
    )
    const before = instructionsOf(own, developmentChain())
    expect(errorOf(send(own, [...before, first], rest[0]!))).toBe('landed')
  })

  test('a high s, and each flipped bit of signatures, keys and messages, is refused', () => {
    const flips = [1, 30, 65, 66, 90, 98, 162, 163, 190, 197, 400, registration.data.length - 1]
    for (const at of flips) {
      const data = registration.data.slice()
      data[at]! ^= 1
      expect([at, /^custom [02]$/.test(outcome([verify], { ...registration, data }))]).toEqual([at, true])
    }
    const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
    const high = (signature: Uint8Array): Uint8Array => {
      const s = order - BigInt(`0x${toHex(signature.slice(32))}`)
      return concatBytes(signature.slice(0, 32), fromHex(s.toString(16).padStart(64, '0'), 32)!)
    }
    const chain = developmentChain()
    expect(outcomeOf({ ...chain, leaf_signature: high(chain.leaf_signature) })).toBe(BAD_SIGNATURE)
    expect(outcomeOf({ ...chain, authority_signature: high(chain.authority_signature) })).toBe(BAD_SIGNATURE)
  })

  test('an inner call is refused before anything else is read', () => {
    const own = rootedVault()
    own.chain.svm.addProgram(addressOf(FORWARDER), FORWARDER_SO)
    expect(errorOf(send(own, [], forwarded(registration)))).toBe('not_top_level')
  })
})

const extension = (id: string, critical: boolean): Uint8Array =>
  x509.extension(id, critical, der.octets(Uint8Array.of(1)))
const named = (...attributes: [string, string][]): Uint8Array =>
  der.sequence(...attributes.map(([id, value]) => der.set(der.sequence(der.oid(id), der.text(value)))))
const [usage, constraints, sgx] = leafParts().extensions as [Uint8Array, Uint8Array, Uint8Array]
const own = authorityParts().extensions
const withMembers = (members: Uint8Array[]): Partial<Parts> => ({
  extensions: [usage, constraints, sgxOf(members)],
})
const withTcb = (change: (tcb: Uint8Array[]) => Uint8Array[]): Partial<Parts> =>
  withMembers(membersOf(change([...TCB])))
const replaced = (list: readonly Uint8Array[], at: number, one: Uint8Array): Uint8Array[] => [
  ...list.slice(0, at),
  one,
  ...list.slice(at + 1),
]
const raw = (hex: string): Uint8Array => fromHex(hex, hex.length / 2)!
const members = membersOf(TCB)
const [FORM, ROLE, EXTENSION, MEMBER] = [
  'invalid_certificate',
  'wrong_certificate_role',
  'wrong_extension',
  'invalid_sgx_extension',
] as const

/** Each is signed by the right key. */
const CASES: [name: string, leaf: Partial<Parts>, authority: Partial<Parts>, outcome: string][] = [
  ['as issued', {}, {}, 'landed'],
  [
    'an unknown extension that is not critical',
    { extensions: [usage, constraints, sgx, extension('1.2.3', false)] },
    {},
    'landed',
  ],
  [
    'an unknown critical extension of the leaf',
    { extensions: [usage, constraints, sgx, extension('1.2.3', true)] },
    {},
    EXTENSION,
  ],
  [
    'an unknown critical extension of the authority',
    {},
    { extensions: [...own, extension('1.2.3', true)] },
    EXTENSION,
  ],
  ['an extension twice', { extensions: [usage, constraints, sgx, usage] }, {}, EXTENSION],
  [
    'an unknown extension twice',
    { extensions: [usage, constraints, sgx, extension('1.2.3', false), extension('1.2.3', false)] },
    {},
    EXTENSION,
  ],
  [
    'more extensions than are read',
    {
      extensions: [
        usage,
        constraints,
        sgx,
        ...Array.from({ length: 14 }, (_, at) => extension(`1.2.${at}`, false)),
      ],
    },
    {},
    EXTENSION,
  ],
  ['no SGX extension', { extensions: [usage, constraints] }, {}, EXTENSION],
  ['no key usage', { extensions: [constraints, sgx] }, {}, ROLE],
  ['no basic constraints', { extensions: [usage, sgx] }, {}, ROLE],
  ['a leaf that is an authority', { extensions: [usage, x509.basicConstraints(true, 0), sgx] }, {}, ROLE],
  ['a leaf that may sign certificates', { extensions: [x509.keyUsage(5, 6), constraints, sgx] }, {}, ROLE],
  [
    'basic constraints that are not critical',
    { extensions: [usage, x509.extension('2.5.29.19', false, der.sequence()), sgx] },
    {},
    ROLE,
  ],
  ['an authority that is none', {}, { extensions: [own[0]!, x509.basicConstraints(false)] }, ROLE],
  ['an authority of path length 1', {}, { extensions: [own[0]!, x509.basicConstraints(true, 1)] }, ROLE],
  ['an authority without a path length', {}, { extensions: [own[0]!, x509.basicConstraints(true)] }, ROLE],
  ['an authority that only signs data', {}, { extensions: [x509.keyUsage(0, 1), own[1]!] }, ROLE],
  ['an authority with an SGX extension', {}, { extensions: [...own, sgx] }, ROLE],
  ['the PCK certificate as authority', {}, leafParts(), ROLE],
  ['the Processor CA', { issuer: nameOf('PCK Processor CA') }, { subject: nameOf('PCK Processor CA') }, ROLE],
  ['a leaf of another role', { subject: nameOf('TCB Signing') }, {}, ROLE],
  [
    'two common names',
    { subject: named(['2.5.4.3', 'a SGX PCK Certificate'], ['2.5.4.3', 'b SGX PCK Certificate']) },
    {},
    ROLE,
  ],
  ['no common name', { subject: named(['2.5.4.10', 'x SGX PCK Certificate']) }, {}, ROLE],
  [
    'a name of a form that Intel does not use',
    { subject: der.sequence(der.set(der.sequence(der.oid('2.5.4.3'), raw('1e024142')))) },
    {},
    FORM,
  ],
  ['another issuer', { issuer: nameOf('another PCK Platform CA') }, {}, 'wrong_authority'],
  ['another key in the authority', {}, { key: leafParts().key }, 'wrong_authority'],
  ['version 2', { version: der.explicit(0, der.smallInteger(1)) }, {}, FORM],
  ['another algorithm', { algorithm: der.sequence(der.oid('1.2.840.10045.4.3.3')) }, {}, FORM],
  [
    'another curve',
    {
      key: der.sequence(
        der.sequence(der.oid('1.2.840.10045.2.1'), der.oid('1.3.132.0.10')),
        der.bits(new Uint8Array(65)),
      ),
    },
    {},
    FORM,
  ],
  ['a negative serial', { serial: raw('020180') }, {}, FORM],
  ['a serial with a superfluous zero', { serial: raw('02020001') }, {}, FORM],
  ['an empty serial', { serial: raw('0200') }, {}, FORM],
  ['a long form of a short length', { serial: raw('02810101') }, {}, FORM],
  ['two bytes for a short length', { serial: raw('0282000101') }, {}, FORM],
  ['an indefinite length', { serial: raw('028001') }, {}, FORM],
  ['an item behind the extensions', { more: [der.smallInteger(1)] }, {}, FORM],
  [
    'a flag that is neither absent nor true',
    {
      extensions: [
        der.sequence(der.oid('2.5.29.15'), raw('010101'), der.octets(raw('030206c0'))),
        constraints,
        sgx,
      ],
    },
    {},
    FORM,
  ],
  ['members swapped', withMembers([members[1]!, members[0]!, ...members.slice(2)]), {}, MEMBER],
  ['a member missing', withMembers(members.slice(0, 6)), {}, FORM],
  ['a member in the middle missing', withMembers([...members.slice(0, 4), ...members.slice(5)]), {}, MEMBER],
  ['a member doubled', withMembers([members[0]!, ...members]), {}, MEMBER],
  ['a member more', withMembers([...members, item('8', der.octets(Uint8Array.of(1)))]), {}, FORM],
  [
    'a PPID of another length',
    withMembers(replaced(members, 0, item('1', der.octets(PPID.slice(1))))),
    {},
    FORM,
  ],
  [
    'an FMSPC of another length',
    withMembers(replaced(members, 3, item('4', der.octets(PPID.slice(9))))),
    {},
    FORM,
  ],
  [
    'something behind a member',
    withMembers(replaced(members, 0, item('1', concatBytes(der.octets(PPID), der.smallInteger(1))))),
    {},
    FORM,
  ],
  ['components swapped', withTcb((tcb) => [tcb[1]!, tcb[0]!, ...tcb.slice(2)]), {}, MEMBER],
  ['a component doubled', withTcb((tcb) => [tcb[0]!, ...tcb]), {}, MEMBER],
  ['a component missing', withTcb((tcb) => tcb.slice(1)), {}, MEMBER],
  ['a component more', withTcb((tcb) => [...tcb, item('2.19', der.smallInteger(1))]), {}, FORM],
  ['a component of 256', withTcb((tcb) => replaced(tcb, 0, item('2.1', der.smallInteger(256)))), {}, FORM],
  ['a negative component', withTcb((tcb) => replaced(tcb, 0, item('2.1', raw('0201ff')))), {}, FORM],
  [
    'a component with a superfluous zero',
    withTcb((tcb) => replaced(tcb, 0, item('2.1', raw('02020003')))),
    {},
    FORM,
  ],
  ['a PCE of 65,536', withTcb((tcb) => replaced(tcb, 16, item('2.17', raw('0203010000')))), {}, FORM],
  [
    'an object identifier that begins otherwise',
    withMembers(replaced(members, 0, der.sequence(der.oid('1.2.840.113742.1.13.1.1'), der.octets(PPID)))),
    {},
    MEMBER,
  ],
]

describe('a certificate', () => {
  test.each(CASES)('with %s', (_, leaf, authority, outcome) => {
    expect(outcomeOf(developmentChain(leaf, authority))).toBe(outcome)
  })

  test('with bytes behind, or shorter, is refused', () => {
    const { leaf, authority } = developmentChain()
    const longer = (body: Uint8Array): Uint8Array => concatBytes(body, Uint8Array.of(0))
    expect(outcomeOf(signedChain(longer(leaf), authority))).toBe(FORM)
    expect(outcomeOf(signedChain(leaf, longer(authority)))).toBe(FORM)
    expect(outcomeOf(signedChain(leaf.slice(0, -1), authority))).toBe(FORM)
    expect(outcomeOf(signedChain(new Uint8Array(), authority))).toBe(FORM)
    expect(outcomeOf(signedChain(leaf, leaf))).toBe(ROLE)
    expect(outcomeOf(signedChain(authority, authority))).toBe(ROLE)
  })

  test('with a byte flipped, and signed again, never crashes the program', () => {
    const { leaf, authority } = developmentChain()
    const outcomes = new Set<string>()
    for (let at = 0; at < leaf.length; at += 3) {
      const flipped = leaf.slice()
      flipped[at]! ^= 0x80
      outcomes.add(outcomeOf(signedChain(flipped, authority)))
    }
    for (const outcome of outcomes) expect(outcome).toMatch(/^[a-z_]+$/)
    expect(outcomes).toContain(FORM)
  })
})

test('the root is read from its own record, and the payer signs', () => {
  const [verify, good] = instructionsOf(vault, developmentChain())
  const place = (at: number, change: object): string => {
    const accounts = good.accounts.map((one, index) => (index === at ? { ...one, ...change } : one))
    vault.chain.before = [verify]
    const outcome = vault.chain.outcome({ ...good, accounts })
    vault.chain.before = []
    return outcome
  }
  expect(place(2, { address: bytes32('another record') })).toBe('wrong_owner')
  expect(place(4, { address: bytes32('another sysvar') })).toBe('wrong_address')
  expect(place(3, { address: platformAddress(vault.program, AUTHORITY.compressed) })).toBe('wrong_address')
})
