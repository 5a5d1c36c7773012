/** Lets this process hash with compiled code where there is some: a wallet's search is hashing and little else. */
import { loadNativePoseidon } from '../../native/load_poseidon'
import { installPoseidon } from '../../protocol/poseidon'

/** Elsewhere the pure implementation goes on; both give the same hashes. */
export function hashFast(): void {
  const native = loadNativePoseidon()
  if (native !== undefined) installPoseidon(native)
}
