/** Why no certificate came: a step of the protocol and a word, never a key, a token or an answer's text. */

export class AcmeFailure extends Error {
  override readonly name = 'AcmeFailure'
  /**
   * @param step what was asked for: `directory`, `nonce`, `account`, `order`, `challenge`, `finalize`, `certificate`, `dns`.
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
