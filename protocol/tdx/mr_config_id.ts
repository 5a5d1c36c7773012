/**
 * Recomputes MRCONFIGID, the 48 bytes in which the host of a dstack TD commits to manifest and identity when it creates the
 * TD (dstack v0.6.0, `MrConfig` and `MrConfigV3`). It binds without an event log, and only in addition to it.
 */
import { keccak_256 } from '@noble/hashes/sha3.js'
import { concatBytes, equalBytes, fromAnyHex, isZero, toHex, utf8 } from '../bytes'
import { sha256 } from '../sha256'
import type { MeasuredClaims } from './event_log'

/** The key provider as measured: `name` is the provider's kind, `id` its identity in lowercase hex, or empty. */
export type KeyProvider = { name: string; id: string }

/** The one spelling that dstack measures, so that a provider has one payload; no character of a name has an escape. */
const KEY_PROVIDER = /^\{"name":"([ !#-[\]-~]+)","id":"((?:[0-9a-f]{2})*)"\}$/

/** Undefined unless the payload is exactly `{"name":…,"id":…}`. */
export function readKeyProvider({
  key_provider,
}: Pick<MeasuredClaims, 'key_provider'>): KeyProvider | undefined {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(key_provider)
  const [, name, id] = KEY_PROVIDER.exec(text) ?? []
  return name === undefined || id === undefined ? undefined : { name, id }
}

/**
 * The facts that MRCONFIGID commits to. `none`: 48 zero bytes. `compose_hash`: form 1. `app_and_key_provider`: form 2.
 * `document`: form 3. `other`: it commits to other facts than the measured ones. `malformed`: an unknown form or padding.
 */
type MrConfigId = 'none' | 'compose_hash' | 'app_and_key_provider' | 'document' | 'other' | 'malformed'

const BYTES = 48
const COMMITMENT_END = 33
/** Kind byte of form 2 and name in form 3 by the provider's name in the event. */
const PROVIDERS: ReadonlyMap<string, readonly [kind: number, document_name: string]> = new Map([
  ['none', [0, 'none']],
  ['local-sgx', [1, 'local']],
  ['kms', [2, 'kms']],
  ['tpm', [3, 'tpm']],
])
const DOCUMENT_DOMAIN = utf8('dstack-mr-config-v3:\0')

/** Compares the commitment with one recomputed from the measured claims. */
export function judgeMrConfigId(value: Uint8Array, claims: MeasuredClaims): MrConfigId {
  if (value.length !== BYTES) return 'malformed'
  if (isZero(value)) return 'none'
  const form = FORMS[value[0]!]
  if (form === undefined || !isZero(value.subarray(COMMITMENT_END))) return 'malformed'
  const commitment = value.subarray(1, COMMITMENT_END)
  const [name, candidates] = form
  return candidates(claims).some((candidate) => equalBytes(candidate, commitment)) ? name : 'other'
}

const FORMS: Record<number, [name: MrConfigId, candidates: (claims: MeasuredClaims) => Uint8Array[]]> = {
  1: ['compose_hash', ({ compose_hash }) => [compose_hash]],
  2: ['app_and_key_provider', secondForm],
  3: ['document', thirdForm],
}

/** The host commits to the provider id that the manifest pins, or to none. */
function providerIds(id: string): string[] {
  return id === '' ? [''] : [id, '']
}

function secondForm(claims: MeasuredClaims): Uint8Array[] {
  const provider = readKeyProvider(claims)
  const [kind] = PROVIDERS.get(provider?.name ?? '') ?? []
  if (provider === undefined || kind === undefined) return []
  return providerIds(provider.id).map((id) =>
    keccak_256(concatBytes(claims.compose_hash, claims.app_id, Uint8Array.of(kind), fromAnyHex(id)!)),
  )
}

/**
 * SHA-256(domain ‖ zero byte ‖ RFC 8785 document). A host may leave out app id, key provider id and instance id; the list of
 * init scripts is absent or empty, because the linter rejects a manifest with one. A document of a GPU machine is not known.
 */
function thirdForm(claims: MeasuredClaims): Uint8Array[] {
  const provider = readKeyProvider(claims)
  const [, key_provider] = PROVIDERS.get(provider?.name ?? '') ?? []
  if (provider === undefined || key_provider === undefined) return []
  const documents: string[] = []
  for (const app_id of [toHex(claims.app_id), ''])
    for (const key_provider_id of providerIds(provider.id))
      for (const instance_id of new Set([toHex(claims.instance_id), '']))
        for (const init_script_hashes of [undefined, []]) {
          // Members in the order of RFC 8785.
          const members = {
            app_id: app_id || undefined,
            compose_hash: toHex(claims.compose_hash),
            init_script_hashes,
            instance_id: instance_id || undefined,
            key_provider,
            key_provider_id: key_provider_id || undefined,
            version: 3,
          }
          documents.push(JSON.stringify(members))
        }
  return documents.map((document) => sha256(DOCUMENT_DOMAIN, utf8(document)))
}
