/** Sends signed ACME requests (RFC 8555 section 6), each with a new nonce; answers are bounded in time and size. */

import { createECDH, createHash, createPrivateKey, hkdfSync, sign } from 'node:crypto'
import { ACME_ANSWER_BYTES_MAX, ACME_NONCE_ATTEMPTS_MAX } from '../limits'

/** A failed step of the protocol and a one-word reason; never a key, a token or the text of an answer. */
export class AcmeFailure extends Error {
  override readonly name = 'AcmeFailure'
  /**
   * @param step `directory`, `nonce`, `account`, `order`, `challenge`, `finalize`, `certificate`, `dns`.
   * @param reason `timeout`, `connection`, `status`, `shape`, or the last part of an ACME error type (RFC 8555 section
   * 6.7), such as `rateLimited`.
   */
  constructor(
    readonly step: string,
    readonly reason: string,
  ) {
    super(`ACME ${step}: ${reason}`)
  }
}

export type AcmeAnswer = { status: number; headers: Headers; text: string; json: Record<string, unknown> }
type Directory = { newNonce: string; newAccount: string; newOrder: string }

export class SignedRequests {
  private nonce: string | undefined
  private account_url: string | undefined

  private constructor(
    readonly directory: Directory,
    private readonly key: AccountKey,
    private readonly transport: Transport,
  ) {}

  /**
   * @param root_pem trusted instead of the public authorities, for a private directory.
   * @throws AcmeFailure
   */
  static async open(
    directory_url: string,
    key: AccountKey,
    call_ms: number,
    root_pem?: string,
  ): Promise<SignedRequests> {
    const transport = new Transport(call_ms, root_pem)
    const { json } = await transport.send('directory', directory_url, { method: 'GET' })
    const { newNonce, newAccount, newOrder } = json
    if (![newNonce, newAccount, newOrder].every(isHttps)) throw new AcmeFailure('directory', 'shape')
    return new SignedRequests({ newNonce, newAccount, newOrder } as Directory, key, transport)
  }

  /** Finds or creates the account of the key; agrees to the terms of service. @returns its URL. */
  async openAccount(): Promise<string> {
    const { headers } = await this.post('account', this.directory.newAccount, { termsOfServiceAgreed: true })
    const url = headers.get('location')
    if (!isHttps(url)) throw new AcmeFailure('account', 'shape')
    this.account_url = url
    return url
  }

  /** @param payload undefined reads (POST-as-GET). @throws AcmeFailure */
  async post(step: string, url: unknown, payload?: object): Promise<AcmeAnswer> {
    if (!isHttps(url)) throw new AcmeFailure(step, 'shape')
    for (let attempt = 1; ; attempt += 1) {
      const nonce = this.nonce ?? (await this.freshNonce())
      this.nonce = undefined
      const answer = await this.transport.send(step, url, {
        method: 'POST',
        headers: { 'content-type': 'application/jose+json' },
        body: this.signed(url, nonce, payload),
      })
      this.nonce = answer.headers.get('replay-nonce') ?? undefined
      if (answer.status < 400) return answer
      const reason = problemOf(answer)
      if (reason !== 'badNonce' || attempt === ACME_NONCE_ATTEMPTS_MAX) throw new AcmeFailure(step, reason)
    }
  }

  private async freshNonce(): Promise<string> {
    const { headers } = await this.transport.send('nonce', this.directory.newNonce, { method: 'HEAD' })
    const nonce = headers.get('replay-nonce')
    if (nonce === null) throw new AcmeFailure('nonce', 'shape')
    return nonce
  }

  private signed(url: string, nonce: string, payload: object | undefined): string {
    const by = this.account_url === undefined ? { jwk: this.key.jwk } : { kid: this.account_url }
    const header = base64url(JSON.stringify({ alg: 'ES256', ...by, nonce, url }))
    const body = payload === undefined ? '' : base64url(JSON.stringify(payload))
    const signature = base64url(this.key.sign(Buffer.from(`${header}.${body}`)))
    return JSON.stringify({ protected: header, payload: body, signature })
  }
}

class Transport {
  constructor(
    private readonly call_ms: number,
    private readonly root_pem: string | undefined,
  ) {}

  async send(step: string, url: string, request: RequestInit): Promise<AcmeAnswer> {
    try {
      const answer = await fetch(url, {
        ...request,
        redirect: 'error',
        signal: AbortSignal.timeout(this.call_ms),
        ...(this.root_pem === undefined ? {} : { tls: { ca: this.root_pem } }),
      })
      const text = await boundedText(step, answer)
      return { status: answer.status, headers: answer.headers, text, json: jsonObject(text) }
    } catch (error) {
      if (error instanceof AcmeFailure) throw error
      throw new AcmeFailure(step, (error as Error).name === 'TimeoutError' ? 'timeout' : 'connection')
    }
  }
}

async function boundedText(step: string, answer: Response): Promise<string> {
  const parts: Uint8Array[] = []
  let length = 0
  for await (const part of answer.body ?? []) {
    length += part.length
    if (length > ACME_ANSWER_BYTES_MAX) throw new AcmeFailure(step, 'shape')
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

/** Empty where the text is no JSON object; the callers reject missing members. */
function jsonObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}

/** The last part of the problem's type, such as `rateLimited`; `status` for any other type. */
export function problemOf({ json }: Pick<AcmeAnswer, 'json'>): string {
  return /^urn:ietf:params:acme:error:([A-Za-z]{1,40})$/.exec(String(json['type']))?.[1] ?? 'status'
}

function isHttps(url: unknown): url is string {
  return typeof url === 'string' && URL.canParse(url) && new URL(url).protocol === 'https:'
}

const P256_ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n

export type AccountKey = {
  /** Public key in the member order of RFC 7638. */
  readonly jwk: { crv: 'P-256'; kty: 'EC'; x: string; y: string }
  /** Base64url SHA-256 of `jwk` (RFC 7638). */
  readonly thumbprint: string
  /** ES256 (RFC 7518): 64 bytes r ‖ s. */
  sign(bytes: Uint8Array): Uint8Array
}

/** Derives the ACME account key from a seed of 32 bytes, so that it needs no file. */
export function accountKey(seed: Uint8Array): AccountKey {
  // Reducing 384 bits leaves a negligible bias (FIPS 186-5, A.2.1).
  const wide = Buffer.from(hkdfSync('sha256', seed, '', 'tacit/acme/account/p256', 48)).toString('hex')
  const scalar = (BigInt(`0x${wide}`) % (P256_ORDER - 1n)) + 1n
  const d = Buffer.from(scalar.toString(16).padStart(64, '0'), 'hex')
  const point = createECDH('prime256v1')
  point.setPrivateKey(d)
  const public_key = point.getPublicKey()
  const jwk = {
    crv: 'P-256' as const,
    kty: 'EC' as const,
    x: base64url(public_key.subarray(1, 33)),
    y: base64url(public_key.subarray(33)),
  }
  const key = createPrivateKey({ key: { ...jwk, d: base64url(d) }, format: 'jwk' })
  return {
    jwk,
    thumbprint: createHash('sha256').update(JSON.stringify(jwk)).digest('base64url'),
    sign: (bytes) => new Uint8Array(sign('sha256', bytes, { key, dsaEncoding: 'ieee-p1363' })),
  }
}

export function base64url(bytes: Uint8Array | string): string {
  return Buffer.from(bytes as Uint8Array).toString('base64url')
}
