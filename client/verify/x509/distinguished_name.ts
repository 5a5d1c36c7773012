/** The common name in an X.501 name; names are otherwise compared as the bytes they are. */
import { MalformedDer, openDer, TAG } from './der'
import { readOid } from './der_values'

const COMMON_NAME = '2.5.4.3'
/** UTF8String, PrintableString, TeletexString, IA5String. */
const TEXT_TAGS = [0x0c, 0x13, 0x14, 0x16]

/** @param name DER of the whole Name. @throws MalformedDer unless it holds exactly one common name. */
export function commonName(name: Uint8Array): string {
  const found: string[] = []
  const sets = openDer(name, TAG.sequence)
  while (!sets.done) {
    const attributes = sets.open(TAG.set)
    do {
      const attribute = attributes.open(TAG.sequence)
      const type = readOid(attribute)
      const tag = attribute.peek() ?? 0
      const text = attribute.value(tag)
      attribute.end()
      if (type === COMMON_NAME) found.push(decode(tag, text))
    } while (!attributes.done)
  }
  if (found.length !== 1) throw new MalformedDer('expected one common name')
  return found[0]!
}

function decode(tag: number, text: Uint8Array): string {
  if (!TEXT_TAGS.includes(tag)) throw new MalformedDer('common name is not text')
  // Roles are plain ASCII; anything else could look like one without being it.
  if (!text.every((byte) => byte >= 0x20 && byte <= 0x7e)) throw new MalformedDer('common name is not ASCII')
  return String.fromCharCode(...text)
}
