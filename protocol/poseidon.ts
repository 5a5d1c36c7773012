/** Poseidon over BN254 with circom's parameters: the function Solana's `sol_poseidon` syscall computes. */
import { poseidon1 } from 'poseidon-lite/poseidon1'
import { poseidon2 } from 'poseidon-lite/poseidon2'
import { poseidon3 } from 'poseidon-lite/poseidon3'
import { poseidon4 } from 'poseidon-lite/poseidon4'
import { poseidon5 } from 'poseidon-lite/poseidon5'

const BY_ARITY = [undefined, poseidon1, poseidon2, poseidon3, poseidon4, poseidon5] as const

/** Hashes 1 to 5 field elements. @throws RangeError for another count. */
export function poseidon(inputs: bigint[]): bigint {
  const hash = BY_ARITY[inputs.length]
  if (hash === undefined) throw new RangeError('poseidon takes 1 to 5 inputs')
  return hash(inputs)
}
