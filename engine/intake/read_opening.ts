/** The opening of a note the venue may not know: mint, amount, blinding and, for deposit-form notes, the leaf index. */
import { elementOf, integerOf, keyOf, objectOf, path, u64Of } from './form'

export type Opening = {
  mint: Uint8Array
  amount: bigint
  blinding: Uint8Array
  /** Present exactly for notes in deposit form. */
  leaf_index: number | undefined
}

/** Reads `opening`; undefined when the request carries none. Refuses a form fault with its field. */
export function readOpening(value: unknown, at: string): Opening | undefined {
  if (value === undefined) return undefined
  const body = objectOf(value, at, ['mint', 'amount', 'blinding'], ['leaf_index'])
  return {
    mint: keyOf(body['mint'], path(at, 'mint')),
    amount: u64Of(body['amount'], path(at, 'amount')),
    blinding: elementOf(body['blinding'], path(at, 'blinding')),
    leaf_index:
      body['leaf_index'] === undefined ? undefined : integerOf(body['leaf_index'], path(at, 'leaf_index')),
  }
}
