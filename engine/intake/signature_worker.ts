/** Runs the signature thread: verifies each message of claims and answers one byte per claim. */
import { verifySignature } from '../../protocol/ed25519'
import { collectWhenQuiet } from '../memory/idle_gc'
import { decodeClaims } from './claim_bytes'

declare const self: Worker

const worked = collectWhenQuiet()

self.onmessage = ({ data }: MessageEvent<Uint8Array>) => {
  worked()
  const claims = decodeClaims(data)
  const verdicts = new Uint8Array(claims.length)
  claims.forEach(({ signature, body, trading_key }, at) => {
    verdicts[at] = verifySignature(signature, body, trading_key) ? 1 : 0
  })
  self.postMessage(verdicts, [verdicts.buffer])
}
