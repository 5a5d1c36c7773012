/** Calls etcd by the JSON gateway of its members, with a client certificate. */

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

/** One request; each one that fails goes to the next member when it is repeated. */
export class Etcd {
  private member = 0

  constructor(private readonly access: EtcdAccess) {
    if (access.endpoints.length === 0) throw new RangeError('etcd has at least one endpoint')
  }

  /** Runs `then` if every comparison holds, else `otherwise`. @throws NoReply */
  async txn(
    compare: readonly Compare[],
    then: readonly Operation[],
    otherwise: readonly Operation[] = [],
  ): Promise<TxnResult> {
    const body = {
      compare: compare.map(encodeCompare),
      success: then.map(encodeOperation),
      failure: otherwise.map(encodeOperation),
    }
    const reply = (await this.post('kv/txn', body)) as { succeeded?: boolean; responses?: GatewayResponse[] }
    const found = (reply.responses ?? []).map(({ response_range }) =>
      (response_range?.kvs ?? []).map(decodePair),
    )
    return { succeeded: reply.succeeded === true, found }
  }

  /** Drops the versions of keys before now, and returns the bytes of the member's database. @throws NoReply */
  async compact(): Promise<number> {
    const status = (await this.post('maintenance/status', {})) as {
      header: { revision: string }
      dbSize?: string
    }
    await this.post('kv/compaction', { revision: status.header.revision })
    return Number(status.dbSize ?? 0)
  }

  private async post(call: string, body: object): Promise<unknown> {
    const { endpoints, tls } = this.access
    const url = endpoints[this.member]!
    try {
      const response = await fetch(`${url}/v3/${call}`, {
        method: 'POST',
        body: JSON.stringify(body),
        tls,
        signal: AbortSignal.timeout(LIMITS.log_request_ms),
      })
      if (response.ok) return await response.json()
      await response.arrayBuffer()
      throw new Error(`etcd answered ${response.status}`)
    } catch (cause) {
      this.member = (this.member + 1) % endpoints.length
      throw new NoReply('etcd gave no answer', { cause })
    }
  }
}

type GatewayPair = { key: string; value?: string }
type GatewayResponse = { response_range?: { kvs?: GatewayPair[] } }

const base64 = (bytes: Uint8Array) =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('base64')
const keyOf = (key: string) => Buffer.from(key).toString('base64')
const decodePair = ({ key, value = '' }: GatewayPair): KeyValue => ({
  key: Buffer.from(key, 'base64').toString(),
  value: new Uint8Array(Buffer.from(value, 'base64')),
})

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
