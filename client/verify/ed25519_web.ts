/** Verifies Ed25519 strictly (protocol.md "Signature rule") with WebCrypto, which browsers have too. */
import { passesStrictRule } from '../../protocol/ed25519_rule'

/** False for every key or signature that the rule rejects, of any width. @throws where the platform has no Ed25519 */
export async function isSignedByEd25519(
  signature: Uint8Array,
  message: Uint8Array,
  public_key: Uint8Array,
): Promise<boolean> {
  if (!passesStrictRule(signature, public_key)) return false
  const raw = new Uint8Array(public_key)
  const key = await crypto.subtle.importKey('raw', raw, { name: 'Ed25519' }, false, ['verify'])
  return crypto.subtle.verify({ name: 'Ed25519' }, key, new Uint8Array(signature), new Uint8Array(message))
}
