/** Owns the seeds of every program derived address of the vault program. */

const ascii = (text: string): Uint8Array => new TextEncoder().encode(text)

/**
 * Seeds without the bump, in order. The config account is at the same time the authority of every vault
 * token account and the signer of every event, which saves two addresses in each transaction.
 */
export const CONFIG_SEEDS: readonly Uint8Array[] = [ascii('config')]

/** Note tree: leaf count, root and frontier. */
export const TREE_SEEDS: readonly Uint8Array[] = [ascii('tree')]

/** Known states: 128 earlier `(leaf_count, note_root)` and 32 earlier spent roots. */
export const RING_SEEDS: readonly Uint8Array[] = [ascii('ring')]

/** Record of a registered mint. `mint`: 32 bytes. */
export const mintRecordSeeds = (mint: Uint8Array): readonly Uint8Array[] => [ascii('mint'), mint]

/** Vault token account of a mint. `mint`: 32 bytes. */
export const vaultTokenSeeds = (mint: Uint8Array): readonly Uint8Array[] => [ascii('vault'), mint]

/** Open exit request of a note. `nullifier`: 32 bytes, big-endian field element. */
export const exitRequestSeeds = (nullifier: Uint8Array): readonly Uint8Array[] => [ascii('exit'), nullifier]

/** Record that a note escaped a frozen vault. `nullifier`: 32 bytes, big-endian field element. */
export const escapeRecordSeeds = (nullifier: Uint8Array): readonly Uint8Array[] => [
  ascii('escape'),
  nullifier,
]
