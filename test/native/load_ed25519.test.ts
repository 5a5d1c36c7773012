/** Compiled Ed25519 and Poseidon give the reference's results on any input, and are used only if they do. */

import { afterAll, afterEach, describe, expect, test } from 'bun:test'
import { createHash, generateKeyPairSync, sign } from 'node:crypto'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ED25519_TORSION_SUBGROUP, ed25519 } from '@noble/curves/ed25519.js'
import fc from 'fast-check'
import { ED25519_VECTORS } from '../../native/ed25519_vectors'
import { loadNativeEd25519, type VerifyAll } from '../../native/load_ed25519'
import { loadNativePoseidon } from '../../native/load_poseidon'
import { concatBytes } from '../../protocol/bytes'
import { verifySignature } from '../../protocol/ed25519'
import {
  FIELD_MODULUS,
  installPoseidon,
  POSEIDON_VECTORS,
  poseidonEach,
  poseidonOf,
  purePoseidon,
} from '../../protocol/notes/poseidon'
import { Random } from '../kit/random'

/** Of the differential test; a million take some minutes. */
const MUTATIONS = Number(process.env['TACIT_MUTATIONS'] ?? 5_000)
const SEED = Number(process.env['TACIT_SEED'] ?? 25)
const FOLDER = join(import.meta.dir, '../../native')
const AVX2_ONLY = 'abm avx avx2 bmi1 bmi2 f16c fma movbe'

type Vector = { public_key: Uint8Array; signature: Uint8Array; message: Uint8Array; holds: boolean }

const native = loadNativeEd25519()
/** Every processor that runs the faster library runs the other one. */
const libraries = [native, native && loadNativeEd25519(FOLDER, AVX2_ONLY)].filter((one) => one !== undefined)
type Verify = typeof verifySignature
const oneByOne =
  (verifyAll: VerifyAll): Verify =>
  (signature, message, public_key) =>
    verifyAll([{ signature, message, public_key }])[0]!
const compiled = libraries.map(oneByOne)
const fastest = native && oneByOne(native)
if (native === undefined) console.log('compiled Ed25519 is not tried: it is built for x86-64 Linux with AVX2')

const BUILT_FOR_THIS =
  process.platform === 'linux' &&
  process.arch === 'x64' &&
  AVX2_ONLY.split(' ').every((flag) => readFileSync('/proc/cpuinfo', 'utf8').includes(` ${flag} `))

const folder = mkdtempSync(join(tmpdir(), 'tacit-ed25519-'))
afterAll(() => rmSync(folder, { recursive: true }))

const hex = (text: string) => Uint8Array.fromHex(text)
const utf8 = (text: string) => new TextEncoder().encode(text)

function published(file: string): string {
  const bytes = readFileSync(join(import.meta.dir, '../vectors/ed25519', `${file}.gz`))
  return new TextDecoder().decode(Bun.gunzipSync(bytes))
}

/** The publishers' verdicts; where a file serves several rules, that of a strict one without cofactor. */
const PUBLISHED: Record<string, () => Vector[]> = {
  'speccheck_cases.json': () =>
    JSON.parse(published('speccheck_cases.json')).map((one: Record<string, string>, at: number) => ({
      public_key: hex(one['pub_key']!),
      signature: hex(one['signature']!),
      message: hex(one['message']!),
      // The others have a point of small order, a residue or an encoding that is not canonical.
      holds: at === 3,
    })),
  'ed25519vectors.json': () =>
    JSON.parse(published('ed25519vectors.json')).map(
      ({ A, R, S, M, Flags }: { A: string; R: string; S: string; M: string; Flags: string[] | null }) => ({
        public_key: hex(A),
        signature: hex(R + S),
        message: utf8(M),
        holds: !/LowOrder[AR]\b|LowOrderResidue|NonCanonical/.test(`${Flags}`),
      }),
    ),
  'zip215.json': () =>
    JSON.parse(published('zip215.json')).map(([key, signature]: [string, string]) => ({
      public_key: hex(key),
      signature: hex(signature),
      message: utf8('Zcash'),
      holds: false,
    })),
  'sign.input': () =>
    published('sign.input')
      .trim()
      .split('\n')
      .map((line) => {
        const [, key, message, signature] = line.split(':')
        return {
          public_key: hex(key!),
          signature: hex(signature!.slice(0, 128)),
          message: hex(message!),
          holds: true,
        }
      }),
  'wycheproof.json': () =>
    JSON.parse(published('wycheproof.json')).testGroups.flatMap(
      ({ publicKey, tests }: { publicKey: { pk: string }; tests: Record<string, string>[] }) =>
        tests.map(({ msg, sig, result }) => ({
          public_key: hex(publicKey.pk),
          signature: hex(sig!),
          message: hex(msg!),
          holds: result === 'valid',
        })),
    ),
}

/** Signatures by ordinary keys of messages from 0 to 1,023 bytes. */
function honest(count: number): Vector[] {
  return Array.from({ length: count }, (_, at) => {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519')
    const message = new Uint8Array((at * 67) % 1_024).fill(at)
    const public_key = new Uint8Array(publicKey.export({ format: 'der', type: 'spki' }).subarray(12))
    return { public_key, signature: new Uint8Array(sign(null, message, privateKey)), message, holds: true }
  })
}

/** Signatures whose key and R carry a point of small order: they verify where the two cancel out. */
function withTorsion(): Vector[] {
  const { Point } = ed25519
  const littleEndian = (bytes: Uint8Array) => BigInt(`0x${bytes.toReversed().toHex()}`)
  const seed = new Uint8Array(32).fill(9)
  const { scalar, point } = ed25519.utils.getExtendedPublicKey(seed)
  return ED25519_TORSION_SUBGROUP.flatMap((of_key, at) =>
    ED25519_TORSION_SUBGROUP.map((of_r, round) => {
      const nonce = BigInt(1 + 8 * at + round)
      const public_key = point.add(Point.fromHex(of_key)).toBytes()
      const R = Point.BASE.multiply(nonce).add(Point.fromHex(of_r)).toBytes()
      const message = Uint8Array.of(at, round)
      const hash = createHash('sha512').update(R).update(public_key).update(message).digest()
      const s = (nonce + littleEndian(hash) * scalar) % Point.Fn.ORDER
      const signature = concatBytes(R, hex(s.toString(16).padStart(64, '0')).reverse())
      return { public_key, signature, message, holds: verifySignature(signature, message, public_key) }
    }),
  )
}

describe.each(Object.entries(PUBLISHED))('the vectors of %s', (_, read) => {
  test.each([
    ['the platform', verifySignature] as const,
    ...compiled.map((one) => ['the library', one] as const),
  ])('get their verdict from %s', (_, verify) => {
    const vectors = read()
    expect(vectors.length).toBeGreaterThan(11)
    for (const { signature, message, public_key, holds } of vectors)
      expect(verify(signature, message, public_key)).toBe(holds)
  })
})

test('the vectors checked before use are published ones', () => {
  const all = [...PUBLISHED['speccheck_cases.json']!(), ...PUBLISHED['sign.input']!()]
  for (const vector of ED25519_VECTORS) expect(all).toContainEqual(vector)
  expect(ED25519_VECTORS.filter(({ holds }) => holds).length).toBe(5)
})

// A library that fails its vectors is not loaded, and the tests below would skip themselves.
test.skipIf(!BUILT_FOR_THIS)('both libraries load where they are built for', () => {
  expect(compiled).toHaveLength(2)
})

describe.skipIf(native === undefined)('the library', () => {
  test('gives the verdict of the platform on mutations of every kind of signature', () => {
    const bases = [...Object.values(PUBLISHED).flatMap((read) => read()), ...withTorsion(), ...honest(1_000)]
    const edit = fc.record({
      field: fc.constantFrom('signature', 'message', 'public_key'),
      change: fc.oneof(
        fc.record({ at: fc.nat(1_023), bits: fc.integer({ min: 1, max: 255 }) }),
        fc.record({ from: fc.nat(bases.length - 1), half: fc.constantFrom(0, 32) }),
      ),
    })
    let accepted = 0
    const judged: Vector[] = []
    console.log(`${MUTATIONS} mutations from seed ${SEED}`)
    fc.assert(
      fc.property(fc.nat(bases.length - 1), fc.array(edit, { maxLength: 2 }), (base, edits) => {
        const { public_key, signature, message } = bases[base]!
        const given = {
          public_key: public_key.slice(),
          signature: signature.slice(),
          message: message.slice(),
        }
        for (const { field, change } of edits) {
          const bytes = given[field]
          if ('bits' in change) bytes[change.at % Math.max(1, bytes.length)]! ^= change.bits
          else {
            const [from, to] = [change.half, change.half + 32].map((at) => Math.min(at, bytes.length))
            bytes.set(bases[change.from]![field].subarray(from, to), from)
          }
        }
        const expected = verifySignature(given.signature, given.message, given.public_key)
        accepted += Number(expected)
        judged.push({ ...given, holds: expected })
        for (const verify of compiled)
          expect(verify(given.signature, given.message, given.public_key)).toBe(expected)
      }),
      { numRuns: MUTATIONS, seed: SEED },
    )
    expect(accepted).toBeGreaterThan(MUTATIONS / 10)
    const random = new Random(SEED)
    for (let from = 0; from < judged.length; ) {
      const some = judged.slice(from, from + 1 + random.below(40))
      for (const verify of libraries) expect(verify(some)).toEqual(some.map(({ holds }) => holds))
      from += some.length
    }
  })

  test('gives each its verdict in any company: of one key, of keys that are kept in one set, of invalid ones', () => {
    const valid = honest(1_200)
    const sets = Map.groupBy(valid, ({ public_key: [first, second] }) => `${first} ${second! % 4}`)
    const rivals = [...sets.values()].filter((some) => some.length > 3).flat()
    expect(rivals.length).toBeGreaterThan(20)
    const [one, other] = rivals as [Vector, Vector]
    const wide = { ...one, message: new Uint8Array(100_000) }
    const invalid: Vector[] = [
      { ...one, message: other.message, holds: false },
      { ...one, public_key: other.public_key, holds: false },
      { ...one, signature: one.signature.subarray(1), holds: false },
      { ...one, public_key: new Uint8Array(33), holds: false },
      { ...one, signature: one.signature.with(63, 0x1f), holds: false },
      { ...wide, holds: false },
    ]
    const random = new Random(SEED)
    const drawn = () => random.pick(random.pick([valid.slice(0, 8), rivals, invalid]))
    for (const verify of libraries) {
      expect(verify([])).toEqual([])
      for (let size = 1; size < 70; size++) {
        const some = Array.from({ length: size }, drawn)
        expect(verify(some)).toEqual(some.map(({ holds }) => holds))
      }
    }
  })

  test('gives the verdict of the platform again once it keeps the tables of a key', () => {
    const all = [...Object.values(PUBLISHED).flatMap((read) => read()), ...withTorsion(), ...honest(64)]
    // By key, so that most signatures meet the tables that one before them left.
    all.sort((a, b) => Buffer.compare(a.public_key, b.public_key))
    for (const { signature, message, public_key } of [...all, ...all.toReversed()]) {
      const expected = verifySignature(signature, message, public_key)
      for (const verify of compiled)
        for (const _ of [1, 2]) expect(verify(signature, message, public_key)).toBe(expected)
    }
  })

  test('keeps keys apart that it keeps in one set, also more than fit', () => {
    const sets = Map.groupBy(honest(12_000), ({ public_key: [first, second] }) => `${first} ${second! % 4}`)
    const full = [...sets.values()].filter((some) => some.length > 8)
    expect(full.length).toBeGreaterThan(500)
    for (const verify of libraries)
      for (const some of full) {
        const wrong = some.map((one, at) => ({
          ...one,
          public_key: some.at(at - 1)!.public_key,
          holds: false,
        }))
        const all = [...some, ...wrong, ...some.toReversed(), ...some.slice(0, 2), ...some.slice(0, 2)]
        expect(verify(all)).toEqual(all.map(({ holds }) => holds))
      }
  })

  test('reads views into larger buffers', () => {
    for (const { public_key, signature, message } of honest(32)) {
      const all = concatBytes(Uint8Array.of(1), public_key, signature, message)
      expect(fastest!(all.subarray(33, 97), all.subarray(97), all.subarray(1, 33))).toBe(true)
      expect(fastest!(all.subarray(32, 96), all.subarray(97), all.subarray(1, 33))).toBe(false)
    }
  })

  test('is the one that the processor can run', () => {
    // The faster library is absent: where it is chosen, none is loaded, and no processor runs an unknown instruction.
    copyFileSync(join(FOLDER, 'ed25519_avx2.so'), join(folder, 'ed25519_avx2.so'))
    const avx512 = `${AVX2_ONLY} avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma`
    expect(loadNativeEd25519(folder, AVX2_ONLY)).toBeDefined()
    expect(loadNativeEd25519(folder, avx512)).toBeUndefined()
    for (const flag of avx512.split(' ')) {
      const without = avx512.replace(new RegExp(`\\b${flag}( |$)`), '')
      expect(loadNativeEd25519(folder, without) !== undefined).toBe(flag.startsWith('avx512'))
    }
  })

  test('absent, damaged or with wrong verdicts, it is not used', () => {
    // A file that was loaded stays mapped: each library has a folder.
    const loaded = (library: Uint8Array | string, name: string, hashes?: Record<string, string>) => {
      const other = join(folder, name)
      mkdirSync(other)
      writeFileSync(join(other, 'ed25519_avx2.so'), library)
      return loadNativeEd25519(other, AVX2_ONLY, hashes)
    }
    const library = readFileSync(join(FOLDER, 'ed25519_avx2.so'))
    expect(loaded(library, 'whole')).toBeDefined()
    expect(loaded('not a library', 'damaged')).toBeUndefined()
    expect(loadNativeEd25519(join(folder, 'absent'), AVX2_ONLY)).toBeUndefined()
    // Loaded, these end the process, or the call does not.
    for (const bytes of [0, 4_096, library.length >> 1, library.length - 4_096, library.length - 1])
      expect(loaded(library.subarray(0, bytes), `cut ${bytes}`)).toBeUndefined()
    for (let at = 0; at < library.length; at += 997) {
      const changed = new Uint8Array(library)
      changed[at]! ^= 0xff
      expect(loaded(changed, `changed ${at}`)).toBeUndefined()
    }
    // The first constant of SHA-512: with another one, no signature verifies.
    const at = library.indexOf(hex('22ae28d7982f8a42'))
    expect(at).toBeGreaterThan(0)
    library[at]! ^= 1
    const hash = createHash('sha256').update(library).digest('hex')
    expect(loaded(library, 'wrong', { 'ed25519_avx2.so': hash })).toBeUndefined()
  })

  test('a name that leads to another file once the hash is known loads the hashed file', () => {
    const name = 'ed25519_avx2.so'
    const other = join(folder, 'exchanged')
    mkdirSync(other)
    copyFileSync(join(FOLDER, name), join(other, 'built'))
    writeFileSync(join(other, 'foreign'), 'not a library')
    symlinkSync('built', join(other, name))
    const built = createHash('sha256')
      .update(readFileSync(join(other, name)))
      .digest('hex')
    const hashes = {
      get [name]() {
        rmSync(join(other, name))
        symlinkSync('foreign', join(other, name))
        return built
      },
    }
    expect(loadNativeEd25519(other, AVX2_ONLY, hashes)).toBeDefined()
    expect(loadNativeEd25519(other, AVX2_ONLY)).toBeUndefined()
  })

  test('that is loaded again, or not at all, leaves no descriptor open', () => {
    const broken = join(folder, 'broken')
    mkdirSync(broken)
    writeFileSync(join(broken, 'ed25519_avx2.so'), 'not a library')
    const load = () => [loadNativeEd25519(FOLDER, AVX2_ONLY), loadNativeEd25519(broken, AVX2_ONLY)]
    load()
    const open = readdirSync('/proc/self/fd').length
    expect(load()).toEqual([expect.anything(), undefined])
    expect(readdirSync('/proc/self/fd')).toHaveLength(open)
  })
})

test('functions that run without a library are named', () => {
  const named = (without: string) => {
    const code = `
      Bun.plugin({ name: 'without', setup: (build) => build.onLoad({ filter: /${without}\\.ts$/ }, () => ({
        contents: 'export const loadNativeEd25519 = () => undefined, loadNativePoseidon = () => undefined', loader: 'ts' })) })
      console.log((await import('${join(FOLDER, '../engine/index.ts')}')).portableCode().join('; '))`
    return Bun.spawnSync([process.execPath, '-e', code]).stdout.toString().trim()
  }
  expect(named('load_ed25519')).toStartWith('signatures (Ed25519)')
  expect(named('load_poseidon')).toEndWith('hashes of notes (Poseidon)')
  if (BUILT_FOR_THIS) expect(named('nothing')).toBe('')
})

const poseidon = loadNativePoseidon()
if (poseidon === undefined) console.log('the native Poseidon is not tried: it is built for x86-64 Linux')

afterEach(() => void installPoseidon(purePoseidon))

const integerBytes = (value: bigint) => Uint8Array.fromHex(value.toString(16).padStart(64, '0'))
/** Any 32 bytes, the field's borders and multiples of its order more often. */
const element = fc.oneof(
  fc.uint8Array({ minLength: 32, maxLength: 32 }),
  fc
    .tuple(fc.bigInt({ min: 0n, max: 5n }), fc.bigInt({ min: -2n, max: 2n }))
    .filter(([times, off]) => times * FIELD_MODULUS + off >= 0n)
    .map(([times, off]) => integerBytes(times * FIELD_MODULUS + off)),
  fc.bigInt({ min: 0n, max: 255n }).map((bit) => integerBytes((1n << (bit + 1n)) - 1n)),
)

describe('the fixed vectors', () => {
  test('are hashes of the reference and of the syscall', () => {
    for (const { arity, elements, hashes } of POSEIDON_VECTORS)
      expect(purePoseidon(arity, elements)).toEqual(hashes)
    expect(POSEIDON_VECTORS[1]!.hashes.slice(0, 32).toHex()).toBe(
      '115cc0f5e7d690413df64c6b9662e9cf2a3617f2743245519e19607a4417189a',
    )
  })

  test('refuse an implementation with one wrong bit in any of them, and it is not used', () => {
    for (const { arity } of POSEIDON_VECTORS) {
      for (const group of [0, 1, 2]) {
        const wrong = installPoseidon((asked, elements) => {
          const hashes = purePoseidon(asked, elements)
          if (asked === arity) hashes[32 * group + 31]! ^= 1
          return hashes
        })
        expect(wrong).toBe(false)
      }
    }
    expect(poseidonOf(1, 2)).toEqual(POSEIDON_VECTORS[1]!.hashes.slice(0, 32))
  })
})

describe('the face', () => {
  test('an unknown arity, a part of a group or an oversized element is refused', () => {
    expect(() => poseidonEach(0, new Uint8Array(0))).toThrow(RangeError)
    expect(() => poseidonEach(6, new Uint8Array(192))).toThrow(RangeError)
    expect(() => poseidonEach(2, new Uint8Array(96))).toThrow(RangeError)
    expect(() => poseidonOf(1, new Uint8Array(33))).toThrow(RangeError)
    expect(() => poseidonOf(1, FIELD_MODULUS)).toThrow(RangeError)
    expect(poseidonEach(2, new Uint8Array(0))).toEqual(new Uint8Array(0))
  })

  test('short elements are numbers: leading zeros change nothing', () => {
    expect(poseidonOf(Uint8Array.of(1), 2)).toEqual(poseidonOf(1, integerBytes(2n)))
  })
})

describe('the library', () => {
  test('is there on the machine that it is built for', () => {
    expect(poseidon !== undefined).toBe(process.platform === 'linux' && process.arch === 'x64')
  })

  test('absent or damaged, it is not there', () => {
    const folder = mkdtempSync(join(tmpdir(), 'tacit-poseidon-'))
    try {
      expect(loadNativePoseidon(join(folder, 'poseidon.so'))).toBeUndefined()
      writeFileSync(join(folder, 'poseidon.so'), 'not a library')
      expect(loadNativePoseidon(join(folder, 'poseidon.so'))).toBeUndefined()
      // Loaded, it ends the process.
      const library = readFileSync(join(import.meta.dir, '../../native/poseidon.so'))
      writeFileSync(join(folder, 'poseidon.so'), library.subarray(0, library.length >> 1))
      expect(loadNativePoseidon(join(folder, 'poseidon.so'))).toBeUndefined()
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  test.skipIf(poseidon === undefined)('is accepted, and hashes any bytes like the reference', () => {
    expect(installPoseidon(poseidon!)).toBe(true)
    const groups = fc
      .tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 4 }))
      .chain(([arity, count]) =>
        fc.tuple(
          fc.constant(arity),
          fc.array(element, { minLength: arity * count, maxLength: arity * count }),
        ),
      )
    fc.assert(
      fc.property(groups, ([arity, elements]) => {
        const bytes = concatBytes(...elements)
        expect(poseidonEach(arity, bytes)).toEqual(purePoseidon(arity, bytes))
      }),
      { numRuns: 400 },
    )
  })
})
