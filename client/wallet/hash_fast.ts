/** Installs compiled Poseidon, which a wallet's recovery spends nearly all of its time in. Bun on x86-64 Linux. */
import { loadNativePoseidon } from '../../native/load_poseidon'
import { installPoseidon } from '../../protocol/notes/poseidon'

/** On other machines the pure implementation stays; both give the same hashes. */
export function hashFast(): void {
  const native = loadNativePoseidon()
  if (native !== undefined) installPoseidon(native)
}
