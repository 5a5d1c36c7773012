/** Draws hash seeds, outside the deterministic machine, which takes them as arguments. */
import type { HashSeed } from '../memory/id_table'

/** A fresh seed from the system's random source; call it once per state or cache. */
export function randomHashSeed(): HashSeed {
  const [k0, k1] = crypto.getRandomValues(new Uint32Array(2))
  return [k0!, k1!]
}
