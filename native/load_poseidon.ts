/** Loads `poseidon.so`, Poseidon compiled for x86-64 Linux, with the interface of the pure implementation. */
import { fileURLToPath } from 'node:url'
import { ELEMENT_BYTES, type PoseidonHasher } from '../protocol/notes/poseidon'
import { openLibrary } from './open_library'

/** In this folder, and next to the bundles of a built server. */
const LIBRARY = fileURLToPath(new URL('./poseidon.so', import.meta.url))

/** Undefined where the library is absent, not as it was built, or for another machine. */
export function loadNativePoseidon(path = LIBRARY): PoseidonHasher | undefined {
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined
  try {
    const symbols = openLibrary(path, {
      poseidon_hash: { args: ['usize', 'usize', 'ptr', 'ptr'], returns: 'u32' },
    })
    return (arity, elements) => {
      const count = elements.length / (arity * ELEMENT_BYTES)
      const hashes = new Uint8Array(count * ELEMENT_BYTES)
      if (count === 0) return hashes
      if (symbols.poseidon_hash(arity, count, elements, hashes) !== 0)
        throw new RangeError('poseidon takes 1 to 5 inputs')
      return hashes
    }
  } catch {
    return undefined
  }
}
