/** MRCONFIGID of a dstack TD: where the machine's owner commits to the manifest without an event log. */
import { isZero } from './bytes'

/**
 * `none`: 48 zero bytes, nothing committed. `compose_hash`: form 1, byte 1 then the compose hash then zeros (dstack OS >=
 * 0.5.2). `other`: forms 2 and 3 hash the compose hash together with facts that are not in the quote.
 */
export type MrConfigId =
  | { form: 'none' }
  | { form: 'compose_hash'; compose_hash: Uint8Array }
  | { form: 'other'; tag: number }

export function readMrConfigId(value: Uint8Array): MrConfigId {
  if (value.length !== 48) throw new RangeError('expected 48 bytes')
  if (isZero(value)) return { form: 'none' }
  const tag = value[0]!
  if (tag !== 1 || !isZero(value.subarray(33))) return { form: 'other', tag }
  return { form: 'compose_hash', compose_hash: value.slice(1, 33) }
}
