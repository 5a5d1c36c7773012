/** Stores certificate and key across restarts, sealed under a key of this app, because authorities limit issuance. */

import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { concatBytes, utf8 } from '../../protocol/bytes'
import { KEY_PATHS } from '../key_paths'
import { type IssuedCertificate, issuedCertificate } from './certificates'
import { AcmeFailure } from './signed_requests'

const [NONCE_BYTES, TAG_BYTES] = [12, 16]

export type SealedStore = {
  path: string
  /** 32 bytes, used only for this. */
  key: Uint8Array
  /** Authenticated with the file, like `names`: it does not open for others. */
  directory_url: string
  names: readonly string[]
}

/** AES-256-GCM with a random nonce; the file is replaced atomically. */
export function sealCertificate(store: SealedStore, certificate: IssuedCertificate): void {
  const nonce = randomBytes(NONCE_BYTES)
  const { cert_pem, key_pem, account_url } = certificate
  const cipher = createCipheriv('aes-256-gcm', store.key, nonce)
  cipher.setAAD(context(store))
  const sealed = concatBytes(
    cipher.update(utf8(JSON.stringify({ cert_pem, key_pem, account_url }))),
    cipher.final(),
  )
  mkdirSync(dirname(store.path), { recursive: true, mode: 0o700 })
  writeFileSync(`${store.path}.new`, concatBytes(nonce, sealed, cipher.getAuthTag()), { mode: 0o600 })
  renameSync(`${store.path}.new`, store.path)
}

/** Undefined when the file is missing or damaged, was sealed for another directory or names, or the certificate has expired. */
export function unsealCertificate(store: SealedStore, now_ms: number): IssuedCertificate | undefined {
  if (!existsSync(store.path)) return undefined
  const bytes = new Uint8Array(readFileSync(store.path))
  if (bytes.length <= NONCE_BYTES + TAG_BYTES) return undefined
  try {
    const decipher = createDecipheriv('aes-256-gcm', store.key, bytes.subarray(0, NONCE_BYTES))
    decipher.setAAD(context(store))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    const opened = concatBytes(decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final())
    return issuedCertificate(JSON.parse(Buffer.from(opened).toString('utf8')), store.names, now_ms)
  } catch (error) {
    if (error instanceof AcmeFailure || (error as Error).name === 'Error') return undefined
    throw error
  }
}

/** Additional authenticated data: the path of the sealing key, the directory and the names. */
function context({ directory_url, names }: SealedStore): Uint8Array {
  return utf8(JSON.stringify([KEY_PATHS.acme_certificate, directory_url, ...names]))
}
