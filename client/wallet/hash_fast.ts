/** Installs compiled Poseidon, which a wallet's recovery spends nearly all of its time in. Bun on x86-64 Linux. */
import { installPoseidon } from '../../protocol/notes/poseidon'

/** Elsewhere the pure implementation stays; both give the same hashes. */
export async function hashFast(): Promise<void> {
  if (typeof Bun === 'undefined') return
  const { loadNativePoseidon } = await import('../../native/load_poseidon')
  const native = loadNativePoseidon()
  if (native !== undefined) installPoseidon(native)
}
