/** Strict Ed25519 verification on WebCrypto (protocol.md "Signature rule"), so that it runs in a browser too. */
import { passesStrictRule } from '../../protocol/ed25519_rule'

/** False for every key or signature the rule rejects, whatever its width. */
export async function isSignedByEd25519(
  signature: Uint8Array,
  message: Uint8Array,
  public_key: Uint8Array,
): Promise<boolean> {
  if (!passesStrictRule(signature, public_key)) return false
  const key = await crypto.subtle
    .importKey('raw', new Uint8Array(public_key), { name: 'Ed25519' }, false, ['verify'])
    .catch(() => undefined)
  if (key === undefined) return false
  return crypto.subtle.verify({ name: 'Ed25519' }, key, new Uint8Array(signature), new Uint8Array(message))
}
