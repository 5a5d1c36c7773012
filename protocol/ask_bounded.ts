/**
 * Asks over HTTP, also JSON-RPC, and reads the answer within a number of bytes and a time, so that no sender fills its
 * reader's memory. A redirect is not followed.
 */
import { concatBytes } from './bytes'
import { RPC_ANSWER_BYTES_MAX } from './limits'

const KINDS = {
  unreachable: 'did not answer',
  time_limit: 'took too long',
  too_long: 'answered too much',
} as const

/** There is no usable answer. The message is a predicate of its sender and never has the content. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
  constructor(readonly kind: keyof typeof KINDS) {
    super(KINDS[kind])
  }
}

/**
 * Options that the request must pass on to `fetch`; other headers are added to these. A redirect is an answer that is not `ok`:
 * otherwise a server could have its caller ask any address that the caller reaches, or take another's answer for its own.
 */
export type AskInit = {
  signal: AbortSignal
  headers: Record<string, string>
  decompress: false
  redirect: 'manual'
}
type BoundedAnswer = { ok: boolean; status: number; headers: Headers; bytes: Uint8Array }

/**
 * Bun leaves a compressed answer packed, because one segment may unpack to a thousand times its bytes; it then fails as
 * any other malformed text. Other platforms ignore `decompress`: they unpack while the body is read and counted.
 * @param timeout_ms for the whole answer
 * @throws NoAnswer
 */
export async function askBounded(
  ask: (init: AskInit) => Promise<Response>,
  bytes_max: number,
  timeout_ms: number,
): Promise<BoundedAnswer> {
  const signal = AbortSignal.timeout(timeout_ms)
  try {
    const headers_asked = { 'accept-encoding': 'identity' }
    const response = await ask({ signal, headers: headers_asked, decompress: false, redirect: 'manual' })
    const { ok, status, headers } = response
    return { ok, status, headers, bytes: await readBody(response, bytes_max) }
  } catch (error) {
    if (error instanceof NoAnswer) throw error
    throw new NoAnswer(signal.aborted ? 'time_limit' : 'unreachable')
  }
}

async function readBody({ body }: Response, bytes_max: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = body?.getReader()
  for (let read = await reader?.read(); read?.value !== undefined; read = await reader?.read()) {
    length += read.value.length
    if (length > bytes_max) {
      // How its sender ends changes nothing.
      reader?.cancel().catch(() => undefined)
      throw new NoAnswer('too_long')
    }
    chunks.push(read.value)
  }
  return concatBytes(...chunks)
}

/** The endpoint answers with a status of HTTP that is no success. */
export class BadStatus extends Error {
  override readonly name = 'BadStatus'
  constructor(
    readonly status: number,
    readonly headers: Headers,
  ) {
    super(`answered HTTP ${status}`)
  }
}

/**
 * @param signal ends the request before its time
 * @throws NoAnswer, BadStatus, SyntaxError for an answer that is none of JSON-RPC
 */
export async function askJsonRpc(
  url: string,
  payload: unknown,
  timeout_ms: number,
  signal?: AbortSignal,
): Promise<{ result: unknown } | { error: unknown }> {
  const body = JSON.stringify(payload, (_, value) => (typeof value === 'bigint' ? exactNumber(value) : value))
  const ask = (init: AskInit) =>
    fetch(url, {
      ...init,
      signal: signal === undefined ? init.signal : AbortSignal.any([init.signal, signal]),
      method: 'POST',
      headers: { ...init.headers, 'content-type': 'application/json' },
      body,
    })
  const { ok, status, headers, bytes } = await askBounded(ask, RPC_ANSWER_BYTES_MAX, timeout_ms)
  if (!ok) throw new BadStatus(status, headers)
  return parsed(new TextDecoder().decode(bytes))
}

/** @throws RangeError for an integer that a double rounds */
function exactNumber(value: bigint): number {
  if (!Number.isSafeInteger(Number(value))) throw new RangeError('the number is too large for a node')
  return Number(value)
}

export const notOfANode = (): SyntaxError => new SyntaxError('the answer is not one of JSON-RPC')

/** An integer that a double rounds is left out, such as the rent epoch of an account: nothing reads a rounded amount. */
function parsed(text: string): { result: unknown } | { error: unknown } {
  let answer: unknown
  try {
    answer = JSON.parse(text, (_, value) =>
      Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : value,
    )
  } catch {
    // Nested too deeply, too.
    throw notOfANode()
  }
  if (typeof answer !== 'object' || answer === null) throw notOfANode()
  if ('result' in answer || 'error' in answer) return answer
  throw notOfANode()
}
