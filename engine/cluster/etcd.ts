/** Calls etcd by the JSON gateway of its members, with a client certificate. */

import { askBounded } from '../../protocol/ask_bounded'
import { LIMITS } from '../limits'

export type EtcdAccess = {
  /** Client URLs of the members. */
  endpoints: readonly string[]
  /** PEM. */
  tls: { ca: string; cert: string; key: string }
}
export type KeyValue = { key: string; value: Uint8Array }
/** The key has this value, or is absent. */
export type Compare = { key: string; value: Uint8Array | undefined }
export type Operation =
  | { put: string; value: Uint8Array }
  | { get: string }
  /** From `from` on and before `to`, ascending. */
  | { range: string; to: string; most: number }
  | { remove: string; to: string }
/** `found` has the pairs of each operation that ran, in order. */
export type TxnResult = { succeeded: boolean; found: KeyValue[][] }

/** Whether the request changed something is unknown. */
export class NoReply extends Error {
  override readonly name = 'NoReply'
}
/** A majority of the members rejects the request: repeating it changes nothing. */
export class EtcdRejects extends Error {
  override readonly name = 'EtcdRejects'
}

/**
 * Codes of gRPC that a repetition does not change: invalid argument, not found, permission denied, resource exhausted (a full
 * database), failed precondition, out of range (a compacted revision), an unknown method, unauthenticated.
 */
const PERMANENT_CODES: readonly unknown[] = [3, 5, 7, 8, 9, 11, 12, 16]
/** A repetition may change the outcome of these although their code is permanent. */
const BUSY = /too many requests|not leader|leader changed|learner|not ready|stopped|has been compacted/i

/** One request; each one that fails goes to the next member when it is repeated. */
export class Etcd {
  private member = 0
  /** Members whose newest answer was a rejection. */
  private readonly rejecting = new Set<number>()

  constructor(private readonly access: EtcdAccess) {
    if (access.endpoints.length === 0) throw new RangeError('etcd has at least one endpoint')
  }

  /** Runs `then` if every comparison holds, else `otherwise`. @throws NoReply, EtcdRejects */
  txn(
    compare: readonly Compare[],
    then: readonly Operation[],
    otherwise: readonly Operation[] = [],
  ): Promise<TxnResult> {
    const body = {
      compare: compare.map(encodeCompare),
      success: then.map(encodeOperation),
      failure: otherwise.map(encodeOperation),
    }
    return this.post('kv/txn', body, (reply) => {
      const { succeeded = false, responses = [] } = reply as GatewayTxn
      const ran = succeeded ? then : otherwise
      const is_verdict = succeeded === true || (succeeded === false && compare.length > 0)
      if (!is_verdict || !Array.isArray(responses) || responses.length !== ran.length)
        throw new TypeError('the answer is not one of this transaction')
      const found = responses.map(({ response_range }, i) =>
        (response_range?.kvs ?? []).map(decodePair).filter(({ key }) => isAsked(ran[i]!, key)),
      )
      return { succeeded, found }
    })
  }

  /** Drops the versions of keys before now; returns the bytes that the member's database used before. @throws NoReply, EtcdRejects */
  async compact(): Promise<number> {
    const { revision, bytes } = await this.post('maintenance/status', {}, (reply) => {
      const { header, dbSizeInUse } = reply as { header: { revision: string }; dbSizeInUse?: string }
      return { revision: String(Number(header.revision)), bytes: Number(dbSizeInUse ?? 0) }
    })
    await this.post('kv/compaction', { revision }, () => undefined).catch((error) => {
      // The next call compacts the revisions that this one left.
      if (!(error instanceof NoReply)) throw error
    })
    return bytes
  }

  /** @param decode of the answer; an error in it counts as no reply */
  private async post<T>(call: string, body: object, decode: (reply: unknown) => T): Promise<T> {
    const { endpoints, tls } = this.access
    const url = endpoints[this.member]!
    try {
      // A member that sends a client elsewhere, which `askBounded` does not follow, would choose who sees its certificate.
      const request = { method: 'POST', body: JSON.stringify(body), tls }
      const response = await askBounded(
        (init) => fetch(`${url}/v3/${call}`, { ...request, ...init }),
        LIMITS.log_answer_bytes_max,
        LIMITS.log_request_ms,
      )
      const reply = parsed(response.bytes)
      if (response.ok) {
        const decoded = decode(reply)
        this.rejecting.clear()
        return decoded
      }
      if (isPermanent(reply)) this.rejecting.add(this.member)
      else this.rejecting.delete(this.member)
      throw new Error(`etcd answered ${response.status}`)
    } catch (cause) {
      this.member = (this.member + 1) % endpoints.length
      if (2 * this.rejecting.size <= endpoints.length) throw new NoReply('etcd gave no answer', { cause })
      throw new EtcdRejects(`etcd rejects ${call}`, { cause })
    }
  }
}

/** @throws Error for more values than an answer has: each costs hundreds of times its bytes once it is parsed */
function parsed(bytes: Uint8Array): unknown {
  let values = 0
  // Values in base64 have none of these characters.
  for (const byte of bytes) if (byte === COMMA || byte === BRACKET || byte === BRACE) values++
  if (values > LIMITS.log_answer_values_max) throw new RangeError('the answer of etcd has too many values')
  return JSON.parse(new TextDecoder().decode(bytes))
}
const [COMMA, BRACKET, BRACE] = [0x2c, 0x5b, 0x7b]

function isPermanent(reply: unknown): boolean {
  const { code, message, error } = (reply ?? {}) as { code?: unknown; message?: unknown; error?: unknown }
  return PERMANENT_CODES.includes(code) && !BUSY.test(String(message ?? error))
}

/** A key that was not asked for is not part of the answer. */
function isAsked(asked: Operation, key: string): boolean {
  if ('get' in asked) return key === asked.get
  return 'range' in asked && key >= asked.range && key < asked.to
}

type GatewayPair = { key: unknown; value?: unknown }
type GatewayTxn = { succeeded?: unknown; responses?: { response_range?: { kvs?: GatewayPair[] } }[] }

const base64 = (bytes: Uint8Array) =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')
const keyOf = (key: string) => Buffer.from(key).toString('base64')
function decodePair({ key, value = '' }: GatewayPair): KeyValue {
  // An object with a length would make Buffer allocate that many bytes.
  if (typeof key !== 'string' || typeof value !== 'string') throw new TypeError('key or value is no text')
  return { key: Buffer.from(key, 'base64').toString(), value: new Uint8Array(Buffer.from(value, 'base64')) }
}

function encodeCompare({ key, value }: Compare): object {
  const named = { key: keyOf(key), result: 'EQUAL' }
  return value === undefined
    ? { ...named, target: 'VERSION', version: '0' }
    : { ...named, target: 'VALUE', value: base64(value) }
}

function encodeOperation(one: Operation): object {
  if ('put' in one) return { requestPut: { key: keyOf(one.put), value: base64(one.value) } }
  if ('get' in one) return { requestRange: { key: keyOf(one.get) } }
  if ('remove' in one) return { requestDeleteRange: { key: keyOf(one.remove), range_end: keyOf(one.to) } }
  return {
    requestRange: {
      key: keyOf(one.range),
      range_end: keyOf(one.to),
      limit: String(one.most),
      sort_order: 'ASCEND',
      sort_target: 'KEY',
    },
  }
}
