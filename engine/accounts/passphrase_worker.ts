/** Runs argon2id in a worker, one passphrase at a time, outside the process's shared thread pool. */

declare const self: Worker

export type PassphraseQuestion = { id: number; passphrase: string; passphrase_hash: string }
export type PassphraseAnswer = { id: number; right: boolean }

self.onmessage = ({ data }: MessageEvent<PassphraseQuestion>) => {
  const { id, passphrase, passphrase_hash } = data
  const answer: PassphraseAnswer = { id, right: isRight(passphrase, passphrase_hash) }
  self.postMessage(answer)
}

/** Bun throws for an empty passphrase, which is simply wrong. */
function isRight(passphrase: string, passphrase_hash: string): boolean {
  try {
    return Bun.password.verifySync(passphrase, passphrase_hash)
  } catch {
    return false
  }
}
