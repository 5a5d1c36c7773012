/** Reads again when a node is busy or briefly gone: a whole history takes thousands of reads, and none may be lost. */
import { isSolanaError, SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR } from '@solana/kit'

const ATTEMPTS_MAX = 7
const WAIT_MS = 100

/** A node that is rate-limiting (429) or failing (5xx); every other answer is an answer. */
export function isPassing(error: unknown): boolean {
  if (isSolanaError(error, SOLANA_ERROR__RPC__TRANSPORT_HTTP_ERROR)) {
    const { statusCode } = error.context
    return statusCode === 429 || statusCode >= 500
  }
  // What fetch throws when there is no connection: a TypeError that names the system's reason, here or as its cause.
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  return error instanceof TypeError && typeof (code ?? cause?.code) === 'string'
}

/** Only for reads: asking twice must change nothing. @throws the last failure, after about six seconds in all */
export async function patientRead<T>(read: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await read()
    } catch (error) {
      if (attempt === ATTEMPTS_MAX || !isPassing(error)) throw error
      await Bun.sleep(WAIT_MS * 2 ** (attempt - 1))
    }
  }
}
