/** X.509 extensions of certificates and revocation lists (RFC 5280 sections 4.2 and 5.2). */
import { DerReader, MalformedDer, openDer, TAG } from './der'
import { readBoolean, readNamedBits, readOid, readSmallInteger } from './der_values'

export type Extension = { critical: boolean; value: Uint8Array }

/** Extensions by object identifier. @throws MalformedDer for a repeated one. */
export function readExtensions(list: DerReader): Map<string, Extension> {
  const extensions = new Map<string, Extension>()
  do {
    const item = list.open(TAG.sequence)
    const id = readOid(item)
    const critical = item.peek() === TAG.boolean && readBoolean(item)
    const value = item.value(TAG.octet_string)
    item.end()
    if (extensions.has(id)) throw new MalformedDer('an extension is repeated')
    extensions.set(id, { critical, value })
  } while (!list.done)
  return extensions
}

/** @throws MalformedDer when a critical extension is not among `known`: its meaning would be ignored. */
export function refuseUnknownCritical(
  extensions: ReadonlyMap<string, Extension>,
  known: readonly string[],
): void {
  for (const [id, { critical }] of extensions)
    if (critical && !known.includes(id)) throw new MalformedDer('unknown critical extension')
}

export const BASIC_CONSTRAINTS = '2.5.29.19'
export const KEY_USAGE = '2.5.29.15'

/** `path_length` undefined: any number of authorities may follow. */
export type BasicConstraints = { ca: boolean; path_length: number | undefined }

export function readBasicConstraints(extensions: ReadonlyMap<string, Extension>): BasicConstraints {
  const extension = extensions.get(BASIC_CONSTRAINTS)
  if (extension === undefined) return { ca: false, path_length: undefined }
  const reader = openDer(extension.value, TAG.sequence)
  const ca = reader.peek() === TAG.boolean && readBoolean(reader)
  const path_length = reader.peek() === TAG.integer ? readSmallInteger(reader) : undefined
  reader.end()
  if (!ca && path_length !== undefined) throw new MalformedDer('a path length without an authority')
  return { ca, path_length }
}

/** RFC 5280 section 4.2.1.3. */
export const USAGE = { digital_signature: 0, certificate_sign: 5, list_sign: 6 } as const

/** Answers false for every use when the certificate states none: Intel's always state them. */
export function readKeyUsage(extensions: ReadonlyMap<string, Extension>): (usage: number) => boolean {
  const extension = extensions.get(KEY_USAGE)
  if (extension === undefined) return () => false
  const reader = new DerReader(extension.value)
  const bits = readNamedBits(reader)
  reader.end()
  return bits
}
