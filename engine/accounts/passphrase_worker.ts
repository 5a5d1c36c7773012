/** Runs argon2id in a worker, one passphrase at a time, outside the process's shared thread pool. */

import { argon2Sync, timingSafeEqual } from 'node:crypto'
import { PASSPHRASE_COST } from '../../protocol/bodies/account'
import type { Credential } from '../commands'

declare const self: Worker

export type PassphraseQuestion = { passphrase: string } & Pick<Credential, 'passphrase_digest' | 'salt'>
export type PassphraseAnswer = { right: boolean }

self.onmessage = ({ data }: MessageEvent<PassphraseQuestion>) => {
  const { passphrase, passphrase_digest, salt } = data
  const { m: memory, t: passes, p: parallelism, dkLen: tagLength } = PASSPHRASE_COST
  const parameters = { message: passphrase, nonce: salt, memory, passes, parallelism, tagLength }
  const right = timingSafeEqual(argon2Sync('argon2id', parameters), passphrase_digest)
  self.postMessage({ right } satisfies PassphraseAnswer)
}
