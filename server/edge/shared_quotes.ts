/** Answers the nonces of many callers with one quote. */

import { fromHex, toHex } from '../../protocol/bytes'
import { joinNonces } from '../../protocol/tdx/quote'
import type { Attestation } from '../../protocol/wire/public'

type Shared<T> = { answer: T; paths: string[][] }

/** However many ask, one quote is under way and the next one is for all that came meanwhile: no caller takes it from another. */
export class SharedQuotes<T> {
  private waiting: { nonces: Uint8Array[]; answered: Promise<Shared<T>> } | undefined
  private free: Promise<unknown> = Promise.resolve()

  /** @param quote over a nonce, hex @param next when the one after it may begin */
  constructor(
    private readonly quote: (nonce: string) => Promise<T>,
    private readonly next: (answered: Promise<unknown>) => Promise<unknown>,
  ) {}

  /** @param nonce 64 hex digits. @returns the answer for all, and the siblings from this nonce to the quoted one */
  async ask(nonce: string): Promise<{ answer: T; path: string[] }> {
    this.waiting ??= this.begin()
    const { nonces, answered } = this.waiting
    const at = nonces.push(fromHex(nonce, 32)!) - 1
    const { answer, paths } = await answered
    return { answer, path: paths[at]! }
  }

  private begin() {
    const nonces: Uint8Array[] = []
    const answered = this.free.then(async () => {
      this.waiting = undefined
      const { nonce, paths } = joinNonces(nonces)
      const asked = this.quote(toHex(nonce))
      this.free = this.next(asked.catch(() => undefined))
      return { answer: await asked, paths: paths.map((path) => path.map(toHex)) }
    })
    return { nonces, answered }
  }
}

/** The path within a node that follows leads to the nonce that the leading one was asked. */
export const withPath = (answer: Attestation, path: string[]): Attestation => ({
  ...answer,
  nonce_path: [...path, ...(answer.nonce_path ?? [])],
})
