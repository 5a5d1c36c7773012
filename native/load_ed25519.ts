/** Loads `ed25519_*.so`, Ed25519 verification compiled for x86-64 Linux, and checks it against published signatures. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { passesStrictRule } from '../protocol/sign'
import { ED25519_VECTORS } from './ed25519_vectors'
import { openLibrary } from './open_library'

export type SignedMessage = { signature: Uint8Array; message: Uint8Array; public_key: Uint8Array }
/**
 * Whether each signature (64 bytes) of its message by its key (32 bytes) passes the strict rule; false for other widths. Each has
 * its own verdict; together they take less time.
 */
export type VerifyAll = (signatures: readonly SignedMessage[]) => boolean[]

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
): VerifyAll | undefined {
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
  ed25519_verify: { args: ['ptr', 'ptr', 'usize', 'ptr', 'usize'], returns: 'void' },
} as const

/** Bytes before each message: key, signature and length. */
const HEAD_BYTES = 32 + 64 + 4

function openEd25519(path: string, hashes?: Readonly<Record<string, string>>): VerifyAll {
  const symbols = openLibrary(path, FUNCTIONS, hashes)
  const memory = new Uint8Array(symbols.ed25519_memory_bytes())
  symbols.ed25519_open(memory)
  let verdicts = new Uint8Array(64)
  let bytes = new Uint8Array(32_768)
  return (signatures) => {
    const strict = signatures.filter(({ signature, public_key }) => passesStrictRule(signature, public_key))
    const length = strict.reduce((sum, { message }) => sum + HEAD_BYTES + message.length, 0)
    if (bytes.length < length) bytes = new Uint8Array(2 * length)
    if (verdicts.length < strict.length) verdicts = new Uint8Array(2 * strict.length)
    let at = 0
    for (const { signature, message, public_key } of strict) {
      bytes.set(public_key, at)
      bytes.set(signature, at + 32)
      for (let byte = 0; byte < 4; byte++) bytes[at + 96 + byte] = message.length >>> (8 * byte)
      bytes.set(message, at + HEAD_BYTES)
      at += HEAD_BYTES + message.length
    }
    symbols.ed25519_verify(memory, bytes, length, verdicts, strict.length)
    let next = 0
    return signatures.map((one) => one === strict[next] && verdicts[next++] === 1)
  }
}

/** Twice, because the tables of a key are made for its first signature only. */
function givesPublishedVerdicts(verify: VerifyAll): boolean {
  const calls = [[...ED25519_VECTORS, ...ED25519_VECTORS], ED25519_VECTORS]
  return calls.every((vectors) => verify(vectors).every((verdict, at) => verdict === vectors[at]!.holds))
}
