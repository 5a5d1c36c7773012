/** Loads `ed25519_*.so`, Ed25519 verification compiled for x86-64 Linux, and checks it against published signatures. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { passesStrictRule } from '../protocol/sign'
import { ED25519_VECTORS } from './ed25519_vectors'
import { openLibrary } from './open_library'

/** Whether `signature` (64 bytes) of `message` by `public_key` (32 bytes) passes the strict rule; false for other widths. */
type Verify = (signature: Uint8Array, message: Uint8Array, public_key: Uint8Array) => boolean

/** In this folder, and next to the bundles of a built server. */
const FOLDER = fileURLToPath(new URL('.', import.meta.url))

/** The extensions that each library is compiled for, as /proc/cpuinfo names them; the faster library is first. */
const AVX2 = 'abm avx avx2 bmi1 bmi2 f16c fma movbe'
const LIBRARIES = [
  ['ed25519_avx512.so', `${AVX2} avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma`],
  ['ed25519_avx2.so', AVX2],
] as const

function processorFlags(): string {
  const [, flags = ''] = /^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'latin1')) ?? []
  return flags
}

/**
 * Undefined where no library is built for this machine, or where it is absent, not as it was built, or gives another verdict
 * than the published one. The result keeps tables of keys in memory that one thread uses: each thread loads for itself.
 * @param processor extensions of the processor, as /proc/cpuinfo lists them; default: this machine's
 * @param hashes for tests: of libraries that were not built here
 */
export function loadNativeEd25519(
  folder = FOLDER,
  processor?: string,
  hashes?: Readonly<Record<string, string>>,
): Verify | undefined {
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined
  try {
    const has = new Set((processor ?? processorFlags()).split(' '))
    const library = LIBRARIES.find(([, needs]) => needs.split(' ').every((flag) => has.has(flag)))
    const verify = library && openEd25519(`${folder}/${library[0]}`, hashes)
    return verify && givesPublishedVerdicts(verify) ? verify : undefined
  } catch {
    return undefined
  }
}

const FUNCTIONS = {
  ed25519_memory_bytes: { args: [], returns: 'u32' },
  ed25519_open: { args: ['ptr'], returns: 'void' },
  ed25519_verify: { args: ['ptr', 'ptr', 'ptr', 'ptr', 'usize'], returns: 'u32' },
} as const

function openEd25519(path: string, hashes?: Readonly<Record<string, string>>): Verify {
  const symbols = openLibrary(path, FUNCTIONS, hashes)
  const memory = new Uint8Array(symbols.ed25519_memory_bytes())
  symbols.ed25519_open(memory)
  return (signature, message, public_key) =>
    passesStrictRule(signature, public_key) &&
    symbols.ed25519_verify(memory, public_key, signature, message, message.length) === 1
}

/** Twice, because the tables of a key are made for its first signature only. */
function givesPublishedVerdicts(verify: Verify): boolean {
  return [...ED25519_VECTORS, ...ED25519_VECTORS].every(
    ({ holds, public_key, signature, message }) => verify(signature, message, public_key) === holds,
  )
}
