/** Verifies Ed25519 strictly (protocol.md "Signature rule") with WebCrypto, which browsers have too. */
import { passesStrictRule } from '../../protocol/ed25519_rule'

/** False for every key or signature that the rule rejects, of any width. */
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
