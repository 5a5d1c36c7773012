/** Base64 as JSON-RPC and CBOR carriers use it, strictly. */
import { Refused } from './refused'

/** @throws Refused unless the text is padded standard base64. */
export function decodeBase64(text: string): Uint8Array {
  if (!/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(text))
    throw new Refused('a value is not base64')
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}
