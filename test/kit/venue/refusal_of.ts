/** The refusal a promise ends in; anything else fails the test. */
import { Refusal } from '../../../protocol/refusals'

export async function refusalOf(promise: Promise<unknown>): Promise<Refusal> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  if (!(error instanceof Refusal)) throw new Error(`expected a refusal, got ${String(error)}`)
  return error
}
